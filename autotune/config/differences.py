"""What differs between this machine and the one a config was measured on, as far as can be seen without TensorFlow."""

from __future__ import annotations

import hashlib
import platform
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.core.tuned import Hardware, Software, TunedRecord, WorkloadId
from autotune.errors import AutotuneError

if TYPE_CHECKING:
    from autotune.core.gpu import ProbeReport

HARDWARE_NAMES = {
    "device": "device",
    "kind": "kind of device",
    "memory_bytes": "device memory",
    "compute_capability": "compute capability",
    "driver_version": "driver",
    "cpu": "CPU",
    "cpu_cores": "CPU cores",
}
SOFTWARE_NAMES = {
    "autotune": "autotune",
    "python": "Python",
    "tensorflow": "TensorFlow",
    "keras": "Keras",
    "cuda": "CUDA",
}


def differences_here(record: TunedRecord) -> tuple[str, ...]:
    """Returns one phrase per difference; what cannot be seen here is not compared."""
    return (
        *_between(record.hardware, hardware_here(record.hardware), HARDWARE_NAMES),
        *_between(record.software, software_here(record.software), SOFTWARE_NAMES),
        *_workload_differences(record.workload),
    )


def software_here(there: Software) -> Software:
    """Returns the versions installed here of what ``there`` names, from package metadata: nothing is imported."""
    from autotune import __version__

    # Keras 2 lives on under another name.
    keras = "tf_keras" if there.keras is not None and there.keras.startswith("2.") else "keras"
    return Software(
        autotune=__version__,
        python=platform.python_version(),
        tensorflow=_installed("tensorflow") if there.tensorflow is not None else None,
        keras=_installed(keras) if there.keras is not None else None,
    )


def hardware_here(there: Hardware) -> Hardware:
    """Returns this machine's counterpart of ``there``: the GPU of the same name, else the first, else none."""
    from autotune.probe import probe

    report = probe()
    if there.kind == "gpu":
        return _gpu_here(there, report)
    # A CPU's memory is what its container may use today; it says nothing about the figures.
    return Hardware(device=there.device, kind=there.kind, cpu=report.host.cpu, cpu_cores=report.host.cpu_cores)


def _gpu_here(there: Hardware, report: ProbeReport) -> Hardware:
    visible = _visible_gpus(report)
    if not visible:
        return Hardware(device="no GPU", kind=there.kind)
    # With another device, its own name says all; a list of what follows from that would hide the point.
    same = next((gpu for gpu in visible if gpu.device == there.device), None)
    return same or Hardware(device=visible[0].device, kind=there.kind, driver_version=visible[0].driver_version)


def _visible_gpus(report: ProbeReport) -> list[Hardware]:
    from autotune.probe import hardware, select_device

    found: list[Hardware] = []
    try:
        while True:  # CUDA's ordinals have no gaps: the first that is missing is the end
            found.append(hardware(report, select_device(f"gpu:{len(found)}", report)))
    except AutotuneError:
        return found


def _between(there: Hardware | Software, here: Hardware | Software, names: dict[str, str]) -> list[str]:
    pairs = [(title, getattr(there, name), getattr(here, name)) for name, title in names.items()]
    return [
        f"{title}: {old} when measured, {new} here"
        for title, old, new in pairs
        if old is not None and new is not None and old != new
    ]


def _installed(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _workload_differences(there: WorkloadId) -> list[str]:
    """The workload's source, where its file still lies where the entry point says."""
    from autotune import workloads

    try:
        path = Path(workloads.resolve(there.entry_point).path)
        same = hashlib.sha256(path.read_bytes()).hexdigest() == there.source_hash
    except (AutotuneError, OSError):
        return []
    return [] if same else [f"workload: {there.entry_point} has changed since it was measured"]
