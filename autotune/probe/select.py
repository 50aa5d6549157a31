"""Which device trials run on: ``--device auto|cpu|gpu|gpu:N|UUID``, resolved on a probe report. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from autotune.core.gpu import GpuInfo, MigInfo, ProbeReport
from autotune.core.trial import Device
from autotune.core.tuned import Hardware
from autotune.errors import AutotuneError, UsageError

_TWIN_MEMORY = 0.98


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """A CUDA device: a GPU, or a MIG slice of it."""

    gpu: GpuInfo
    part: GpuInfo | MigInfo


def select_device(text: str, report: ProbeReport) -> Device:
    """Resolves a ``--device`` value.

    Args:
        text: ``auto`` (the first GPU that CUDA sees, else the CPU), ``cpu``, ``gpu``, ``gpu:N`` (CUDA's ordinal), or a
            UUID or unique beginning of one (``GPU-...``, ``MIG-...``).
        report: a probe of this machine.

    Returns:
        The device. A GPU chosen by UUID may lack a ``cuda_index``: start processes with ``CUDA_VISIBLE_DEVICES`` set to
        its UUID, where it is ``GPU:0``.

    Raises:
        UsageError: not a device, or one that this machine does not have.
        AutotuneError: a GPU was demanded and CUDA sees none, or its memory cannot be read.
    """
    wanted = text.strip()
    kind = wanted.lower()
    ordinal = re.fullmatch(r"gpu:(\d+)", kind)
    if kind == "cpu":
        return _cpu(report)
    if kind in ("auto", "gpu"):
        numbered = sorted(_numbered(report), key=lambda c: c.part.cuda_index or 0)
        if numbered:
            return _device(numbered[0])
        if kind == "auto" and not _in_doubt(report):
            return _cpu(report)
        raise AutotuneError(_none_visible(report))
    if ordinal:
        return _device(_by_ordinal(int(ordinal[1]), report))
    if wanted.upper().startswith(("GPU-", "MIG-")):
        return _device(_by_uuid(wanted, report))
    raise UsageError(f"--device takes auto, cpu, gpu, gpu:N or a UUID (GPU-..., MIG-...), got {text!r}")


def twins(device: Device, report: ProbeReport) -> tuple[Device, ...]:
    """Returns the other GPUs that CUDA sees of the same make, with no less usable memory than a few percent.

    Measurements on any of them hold for all.
    """
    others = (_device(c) for c in _numbered(report) if c.part.uuid != device.uuid and c.part.memory_usable_bytes)
    least = _TWIN_MEMORY * device.memory_usable_bytes
    alike = (d for d in others if d.name == device.name and d.memory_usable_bytes >= least)
    return tuple(sorted(alike, key=lambda d: d.cuda_index or 0)) if device.kind == "gpu" else ()


def gpu_of(device: Device, report: ProbeReport) -> GpuInfo | None:
    """Returns the GPU behind ``device`` (the parent of a MIG slice), or None for the CPU."""
    return next((c.gpu for c in _choices(report) if device.uuid is not None and c.part.uuid == device.uuid), None)


def hardware(report: ProbeReport, device: Device) -> Hardware:
    """Returns the machine as a tuned config records it."""
    choice = next((c for c in _choices(report) if device.uuid is not None and c.part.uuid == device.uuid), None)
    return Hardware(
        device=device.name,
        kind=device.kind,
        memory_bytes=choice.part.memory_total_bytes if choice else report.host.memory_total_bytes,
        compute_capability=choice.gpu.compute_capability if choice else None,
        driver_version=report.driver_version if choice else None,
        cpu=report.host.cpu,
        cpu_cores=report.host.cpu_cores,
    )


def _cpu(report: ProbeReport) -> Device:
    host = report.host
    return Device(kind="cpu", name=host.cpu or "CPU", memory_usable_bytes=host.memory_available_bytes)


def _device(choice: _Choice) -> Device:
    part = choice.part
    name = part.name or choice.gpu.name or f"GPU {choice.gpu.index}"
    if part.memory_usable_bytes is None:
        reason = part.not_available.get("memory_usable_bytes", "no reason given")
        raise AutotuneError(f"{name}: its memory cannot be read ({reason}), so nothing can be fitted into it")
    return Device(
        kind="gpu",
        cuda_index=part.cuda_index,
        uuid=part.uuid,
        name=name,
        memory_usable_bytes=part.memory_usable_bytes,
        alignment=choice.gpu.batch_alignment or 1,
    )


def _choices(report: ProbeReport) -> Iterator[_Choice]:
    """Every CUDA device of the machine, hidden ones included."""
    for gpu in report.gpus:
        if gpu.lost:
            continue
        if gpu.mig is not None and gpu.mig.enabled:
            yield from (_Choice(gpu=gpu, part=part) for part in gpu.mig.slices)
        else:
            yield _Choice(gpu=gpu, part=gpu)


def _numbered(report: ProbeReport) -> list[_Choice]:
    return [c for c in _choices(report) if c.part.cuda_index is not None]


def _by_ordinal(ordinal: int, report: ProbeReport) -> _Choice:
    numbered = _numbered(report)
    for choice in numbered:
        if choice.part.cuda_index == ordinal:
            return choice
    if not numbered:
        raise AutotuneError(_none_visible(report))
    known = ", ".join(f"gpu:{c.part.cuda_index}" for c in sorted(numbered, key=lambda c: c.part.cuda_index or 0))
    raise UsageError(f"no gpu:{ordinal} here: CUDA numbers {known} (see 'autotune probe')")


def _by_uuid(text: str, report: ProbeReport) -> _Choice:
    found = [c for c in _choices(report) if (c.part.uuid or "").lower().startswith(text.lower())]
    if len(found) == 1:
        choice = found[0]
        hidden = choice.part.not_available.get("cuda_index", "")
        if hidden.startswith("hidden by"):
            raise UsageError(f"{choice.part.uuid} is {hidden}; unset the variable or name it there")
        return choice
    if not any(_choices(report)):
        raise AutotuneError(_none_visible(report))
    problem = f"begins {len(found)} UUIDs" if found else "is no GPU of this machine"
    raise UsageError(f"{text} {problem} (see 'autotune probe')")


def _in_doubt(report: ProbeReport) -> bool:
    return any(c.part.cuda_index is None and "hidden by" not in _why(c) for c in _choices(report))


def _why(choice: _Choice) -> str:
    return choice.part.not_available.get("cuda_index", "")


def _none_visible(report: ProbeReport) -> str:
    choices = list(_choices(report))
    if choices:
        return f"no GPU can be used: {_why(choices[0])}"
    problem = report.warnings[0] if report.warnings else "the driver lists none."
    return f"no GPU can be used: {problem[:1].lower()}{problem[1:]}" if report.gpus else f"no GPU: {problem}"
