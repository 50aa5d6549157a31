"""Everything that is settled before the first trial: workload, device, limit, search space. Writes nothing."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from autotune import __version__, workloads
from autotune.core.space import Restriction, SearchSpace, build_space, default_axes, parse_axis
from autotune.core.study import Job, Objective
from autotune.core.trial import Device
from autotune.core.tuned import Hardware, Software, WorkloadId
from autotune.core.units import MemoryLimit, format_bytes
from autotune.core.workload import WorkloadInfo, WorkloadRef
from autotune.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Where the study runs.

    Attributes:
        device: what trials are started on.
        hardware: what is recorded with the results.
        precisions: dtype policies that this device is searched with unless the user says otherwise.
        warnings: sentences about this device.
        twins: further devices of the same make that trials may run on at the same time.
    """

    device: Device
    hardware: Hardware
    precisions: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    twins: tuple[Device, ...] = ()

    @property
    def sentence(self) -> str:
        """Where trials run, in one line."""
        if self.device.kind == "cpu":
            return f"no GPU is used: trials run on the CPU ({self.device.name})"
        usable = format_bytes(self.device.memory_usable_bytes)
        first = f"trials run on GPU {self.device.cuda_index}, {self.device.name}, {usable} usable now"
        others = ", ".join(str(device.cuda_index) for device in self.twins)
        return f"{first}, and on its twins {others}" if others else first


def find_machine(device_text: str) -> Machine:
    """Finds the device that ``--device`` names.

    Raises:
        UsageError: not a device name.
        AutotuneError: a GPU was demanded and there is none that can be used.
    """
    from autotune.probe import hardware, probe, select_device, twins

    report = probe()
    device = select_device(device_text, report)
    return Machine(
        device=device,
        hardware=hardware(report, device),
        precisions=_precisions(device, report),
        warnings=tuple(report.warnings) if device.kind == "gpu" else (),
        twins=twins(device, report) if device_text.strip().lower() in ("auto", "gpu") else (),
    )


def parse_global_batch(value: int | str) -> tuple[int, tuple[str, ...]]:
    """Returns the (smallest) global batch, and the axis that ``LOW..HIGH`` stands for.

    Raises:
        UsageError: neither a whole number nor such a range.
    """
    if isinstance(value, int):
        return value, ()
    low, dots, _ = value.partition("..")
    if not low.strip().isdecimal() or int(low) < 1:
        raise UsageError(f"the global batch is a whole number of at least 1, or LOW..HIGH, got {value!r}")
    return int(low), ((f"global_batch={value}",) if dots else ())


def parse_restrictions(precision: str | None, axes: Sequence[str]) -> tuple[Restriction, ...]:
    """Parses ``--precision`` and every ``--axis``.

    Raises:
        UsageError: no such axis, a value that it cannot take, or an axis given twice.
    """
    texts = [*axes, *([f"precision={precision}"] if precision is not None else [])]
    try:
        found = tuple(parse_axis(text) for text in texts)
    except ValueError as problem:
        raise UsageError(str(problem)) from None
    names = [r.axis for r in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise UsageError(f"the axis {twice} is given twice; name it once, with all its values")
    return found


def settle_job(
    ref: WorkloadRef,
    info: WorkloadInfo,
    machine: Machine,
    *,
    global_batch: int,
    limit: MemoryLimit | None,
    restrictions: Sequence[Restriction],
    objective: Objective,
    seed: int,
    stored_limit_bytes: int | None = None,
) -> tuple[Job, SearchSpace]:
    """Turns what was asked into a job and its search space.

    Args:
        restrictions: what the user said about axes.
        stored_limit_bytes: the resumed study's limit, which stands in for one that depends on the memory free now.

    Raises:
        UsageError: a value that this workload or device cannot take, named in one sentence.
    """
    try:
        offered = default_axes(info.axes, device_kind=machine.device.kind)
        if "precision" in offered:
            offered["precision"] = machine.precisions
        space = build_space(
            global_batch,
            dataset_size=info.dataset_size,
            alignment=machine.device.alignment,
            axes=offered,
            restrictions=restrictions,
        )
    except ValueError as problem:
        raise UsageError(str(problem)) from None
    if info.kind == "workload":
        _check_offered(restrictions, info, ref)
    job = Job(
        workload=WorkloadId(
            entry_point=ref.display, source_hash=info.source_hash, kind=info.kind, dataset_size=info.dataset_size
        ),
        device=machine.device,
        hardware=machine.hardware,
        software=_software(info),
        global_batch=global_batch,
        memory_limit_bytes=_limit_bytes(limit, machine.device, stored_limit_bytes),
        objective=objective,
        seed=seed,
        axes=space.axes_text(),
    )
    return job, space


def default_folder(ref: WorkloadRef, global_batch: int, device: Device) -> Path:
    """Returns ``results/WORKLOAD-BATCH-DEVICE``."""
    name = Path(ref.path).stem + (f"-{ref.attribute}" if ref.attribute else "")
    where = "cpu" if device.kind == "cpu" else "".join(c if c.isalnum() else "-" for c in device.name.lower())
    return Path("results") / f"{name}-{global_batch}-{where}"


def check_folder(folder: Path, *, resume: bool) -> None:
    """Checks that a study can be written to ``folder``, or continued there, without writing anything.

    Raises:
        UsageError: it exists and ``resume`` is off, it cannot be written to, or there is nothing to resume.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; name another --out")
    if folder.is_dir() and any(folder.iterdir()) and not resume:
        raise UsageError(f"{folder} exists already; add --resume to continue that study, or name another --out")
    above = next(p for p in (folder, *folder.absolute().parents) if p.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise UsageError(f"cannot write to {above}; name another --out")


def resolve_workload(workload: str | Path) -> WorkloadRef:
    """Finds the user's file or a built-in workload; raises :class:`UsageError` where there is none."""
    return workloads.resolve(str(workload))


def _precisions(device: Device, report: object) -> tuple[str, ...]:
    """On a GPU what the probe advises and float32; on a CPU float32 (16-bit types are slower and larger there)."""
    if device.kind == "cpu":
        return ("float32",)
    gpus = getattr(report, "gpus", ())
    advised = next((gpu.advised_policy for gpu in gpus if gpu.uuid == device.uuid), None)
    return tuple(dict.fromkeys(p for p in (advised, "float32") if p))


def _check_offered(restrictions: Sequence[Restriction], info: WorkloadInfo, ref: WorkloadRef) -> None:
    for restriction in restrictions:
        if restriction.axis == "recompute" and "recompute" not in info.axes and True in restriction.values:
            raise UsageError(
                f"{ref.display} names no blocks to recompute; give its Workload recompute=(layer names) first"
            )


def _limit_bytes(limit: MemoryLimit | None, device: Device, stored: int | None) -> int | None:
    if limit is not None and limit.bytes is not None:
        return limit.bytes
    if stored is not None:
        return stored  # a share of what is free now would differ a little, and the study be refused
    if limit is not None:
        return limit.resolve(device.memory_usable_bytes)
    return device.memory_usable_bytes if device.kind == "gpu" else None


def _software(info: WorkloadInfo) -> Software:
    def version(package: str) -> str | None:
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            return None

    uses_tensorflow = "tensorflow" in info.frameworks
    legacy = "TF_USE_LEGACY_KERAS" in info.import_environment
    return Software(
        autotune=__version__,
        python=platform.python_version(),
        tensorflow=version("tensorflow") if uses_tensorflow else None,
        keras=version("tf_keras" if legacy else "keras") if uses_tensorflow or "keras" in info.frameworks else None,
    )
