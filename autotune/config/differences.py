"""What differs between this machine and the one a config was measured on, as far as can be seen cheaply."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
from dataclasses import fields
from pathlib import Path

from autotune.core.tuned import Hardware, Software, TunedRecord, WorkloadId

# The distributions that bring a package: TensorFlow is published under several names.
_DISTRIBUTIONS = {"tensorflow": ("tensorflow", "tensorflow-cpu", "tf-nightly"), "keras": ("keras", "keras-nightly")}


def differences_here(record: TunedRecord) -> tuple[str, ...]:
    """Returns one phrase per difference; what cannot be seen here is not compared."""
    there = record.software
    software = compare_fields(there, software_here(there), SOFTWARE_NAMES)
    return software + _hardware_differences(record.hardware) + _workload_differences(record.workload)


HARDWARE_NAMES = {
    "device": "device",
    "kind": "kind of device",
    "memory_bytes": "device memory",
    "compute_capability": "compute capability",
    "driver_version": "driver",
    "cpu": "CPU",
    "cpu_cores": "CPU cores",
}
SOFTWARE_NAMES = {f.name: "CUDA" if f.name == "cuda" else f.name for f in fields(Software)}


def compare_fields(
    there: Hardware | Software, here: Hardware | Software, names: dict[str, str], skip: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Returns one phrase per field that is known on both sides and differs.

    Args:
        there: what was measured.
        here: what there is now.
        names: what to call each field.
        skip: fields that are not compared.
    """
    phrases = []
    for name, title in names.items():
        old, new = getattr(there, name), getattr(here, name)
        if name not in skip and old is not None and new is not None and old != new:
            phrases.append(f"{title}: {old} measured, {new} here")
    return tuple(phrases)


def software_here(there: Software) -> Software:
    """Returns the versions installed here of what ``there`` names, from package metadata; nothing is imported."""
    from autotune import __version__

    def version(package: str) -> str | None:
        if getattr(there, package) is None:  # the workload never loaded it
            return None
        for name in _DISTRIBUTIONS[package]:
            try:
                return importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                continue
        return "not installed"

    return Software(
        autotune=__version__,
        python=platform.python_version(),
        tensorflow=version("tensorflow"),
        keras=version("keras"),
    )


def _hardware_differences(there: Hardware) -> tuple[str, ...]:
    phrases: tuple[str, ...] = ()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    cpu = cpu_name()
    if there.cpu is not None and cpu is not None and cpu != there.cpu:
        phrases += (f"CPU: {there.cpu} measured, {cpu} here",)
    if there.cpu_cores is not None and cores is not None and cores != there.cpu_cores:
        phrases += (f"CPU cores: {there.cpu_cores} measured, {cores} here",)
    return phrases


def _workload_differences(there: WorkloadId) -> tuple[str, ...]:
    """The workload's source, where its file still lies where the entry point says."""
    path = Path(there.entry_point.partition(".py:")[0] + ".py" if ".py:" in there.entry_point else there.entry_point)
    if not path.is_file():
        return ()
    same = hashlib.sha256(path.read_bytes()).hexdigest() == there.source_hash
    return () if same else (f"workload: {path} has changed since it was measured",)


def cpu_name() -> str | None:
    """Returns the CPU's model name as Linux shows it, or None."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), None)
