"""What a person should know about a probe, as sentences. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.core.gpu import GpuInfo, ProbeReport
from autotune.core.units import format_bytes
from autotune.probe.tensor_cores import kernel_warning, parse_capability
from autotune.probe.throttle import ABNORMAL

# TensorFlow 2.21's wheel is built for CUDA 12.5; CUDA 12 runs on drivers from 525.60.13 (CUDA compatibility guide).
_LOWEST_DRIVER = (525, 60)
# TF_MIN_GPU_MULTIPROCESSOR_COUNT's default in TensorFlow's gpu_device.cc.
_TENSORFLOW_LEAST_SMS = 8
# Desktop programs and driver services hold this much on an otherwise idle GPU.
_TENANT_BYTES = 512 * 2**20


def find_warnings(report: ProbeReport, visible: str | None, doubt: str | None) -> tuple[str, ...]:
    """Returns the sentences that ``report`` deserves, each once.

    Args:
        report: everything read.
        visible: ``CUDA_VISIBLE_DEVICES``.
        doubt: why CUDA's numbering could not be told, if so.
    """
    found = [*_of_machine(report, visible, doubt)]
    for gpu in report.gpus:
        found += [f"GPU {gpu.index}: {sentence}." for sentence in _of_gpu(gpu)]
    kernels = {kernel_warning(parse_capability(g.compute_capability)) for g in report.gpus if g.compute_capability}
    return (*found, *(f"{sentence}." for sentence in sorted(filter(None, kernels))))


def _of_machine(report: ProbeReport, visible: str | None, doubt: str | None) -> Iterator[str]:
    if "gpus" in report.not_available:
        yield f"The GPUs cannot be listed: {report.not_available['gpus']}."
    elif not report.gpus:
        yield "The NVIDIA driver works and lists no GPU; in a container, start it with access to one (--gpus all)."
    if doubt is not None:
        yield f"CUDA's number of some GPUs is not known: {doubt}."
    working = [g for g in report.gpus if not g.lost]
    if working and doubt is None and not any(_ordinals(g) for g in working):
        yield (
            f"CUDA sees no GPU: CUDA_VISIBLE_DEVICES={visible!r} hides all of them; unset it or name one."
            if visible is not None
            else "CUDA sees no GPU: MIG is on without slices; create one (nvidia-smi mig -cgi ... -C)."
        )
    yield from _ignored_by_tensorflow(working)
    if report.driver_version is not None and _too_old(report.driver_version):
        yield (
            f"Driver {report.driver_version} is older than 525.60.13, the lowest that TensorFlow's wheel (CUDA 12) "
            "runs on: update it."
        )


def _ignored_by_tensorflow(gpus: list[GpuInfo]) -> Iterator[str]:
    """TensorFlow leaves out small GPUs beside larger ones, and then numbers the rest anew (gpu_device.cc)."""
    visible = [g for g in gpus if g.cuda_index is not None and g.multiprocessors is not None]
    if any((g.multiprocessors or 0) >= _TENSORFLOW_LEAST_SMS for g in visible):
        for gpu in visible:
            if (gpu.multiprocessors or 0) < _TENSORFLOW_LEAST_SMS:
                yield (
                    f"TensorFlow ignores GPU {gpu.index} ({gpu.multiprocessors} SMs, fewer than "
                    f"{_TENSORFLOW_LEAST_SMS}) and numbers the others without it; hide it with CUDA_VISIBLE_DEVICES."
                )


def _of_gpu(gpu: GpuInfo) -> Iterator[str]:
    if gpu.lost:
        yield f"{gpu.not_available['device']}; it cannot be used, restart the machine"
        return
    if gpu.memory_source == "host":
        yield "unified memory: GPU and CPU share it, so these are the host's figures (what is available now)"
    if gpu.memory_source == "nvml_v1":
        yield "only the older memory call answers: used memory includes what the driver reserves"
    if gpu.memory_total_bytes is None and gpu.mig is None:
        yield f"its memory cannot be read: {gpu.not_available['memory_total_bytes']}"
    if gpu.mig is not None and gpu.mig.enabled and len(gpu.mig.slices) > 1:
        yield "MIG is on: CUDA uses one slice per process; set CUDA_VISIBLE_DEVICES to the UUID of the one you want"
    if gpu.compute_mode == "prohibited":
        yield "its compute mode forbids CUDA; ask the administrator (nvidia-smi -c DEFAULT)"
    yield from _of_tenants(gpu)
    hot = sorted(ABNORMAL.intersection(gpu.throttle_reasons or ()))
    if hot:
        yield f"clocks are held down now ({', '.join(hot)}): timings will be slow and unsteady"


def _of_tenants(gpu: GpuInfo) -> Iterator[str]:
    compute = [p for p in gpu.processes or () if p.kind == "compute"]
    if compute and gpu.compute_mode == "exclusive_process":
        yield "it admits one process and has one: a trial could not start"
    held = sum(p.memory_bytes or 0 for p in gpu.processes or ())
    if held >= _TENANT_BYTES or compute:
        amount = f"hold {format_bytes(held)}" if held else "use it (how much memory, the driver does not say)"
        who = ", ".join(p.name or f"pid {p.pid}" for p in (gpu.processes or ())[:3])
        yield f"other processes {amount} ({who})"


def _ordinals(gpu: GpuInfo) -> bool:
    slices = gpu.mig.slices if gpu.mig is not None else ()
    return gpu.cuda_index is not None or any(s.cuda_index is not None for s in slices)


def _too_old(version: str) -> bool:
    parts = version.split(".")
    try:
        return (int(parts[0]), int(parts[1])) < _LOWEST_DRIVER
    except (IndexError, ValueError):
        return False
