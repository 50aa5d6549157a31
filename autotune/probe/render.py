"""A probe report as text: the verdict first, readable in ten seconds. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from autotune.core.gpu import GpuInfo, MigInfo, ProbeReport
from autotune.core.gpu_spec import GpuSpec
from autotune.core.units import format_bytes

# Up to here, a person reads every detail in ten seconds.
_DETAILED_GPUS = 2


def report_text(report: ProbeReport, *, verbose: bool = False) -> str:
    """Returns the report as plain text, without a final newline.

    Args:
        report: what was read.
        verbose: every detail of every GPU; otherwise, more than two GPUs are one line each.
    """
    warnings = "\n".join(f"warning: {sentence}" for sentence in report.warnings)
    host = _host_text(report)
    if not report.gpus:
        return "\n\n".join(filter(None, ["\n".join(report.warnings), host]))
    versions = f"driver {report.driver_version or 'unknown'}, CUDA up to {report.cuda_version or 'unknown'}"
    head = f"{len(report.gpus)} GPU{'s' if len(report.gpus) != 1 else ''}, {versions}"
    if verbose or len(report.gpus) <= _DETAILED_GPUS:
        blocks = [_gpu_text(gpu) for gpu in report.gpus]
    else:
        blocks = [_overview(report.gpus), "Every detail of every GPU: --verbose"]
    return "\n\n".join(filter(None, [head, *blocks, host, warnings]))


def verdict(gpu: GpuInfo) -> str:
    """One line: memory, Tensor Cores, policy."""
    if gpu.lost:
        return gpu.not_available["device"]
    parts = []
    if gpu.memory_total_bytes is not None:
        shared = " shared with the CPU" if gpu.memory_source == "host" else ""
        parts.append(format_bytes(gpu.memory_total_bytes) + shared)
    if gpu.memory_usable_bytes is not None:
        parts.append(f"{format_bytes(gpu.memory_usable_bytes)} usable now")
    elif gpu.mig is not None and gpu.mig.enabled:
        parts.append(f"MIG with {len(gpu.mig.slices)} slice{'s' if len(gpu.mig.slices) != 1 else ''}")
        usable = [s.memory_usable_bytes for s in gpu.mig.slices if s.cuda_index is not None]
        parts += [f"{format_bytes(count)} usable now in CUDA's slice" for count in usable if count is not None]
    else:
        parts.append(f"usable memory unknown ({gpu.not_available['memory_usable_bytes']})")
    return ", ".join([*parts, _tensor_text(gpu)])


def catalogue_text(boards: Sequence[GpuSpec]) -> str:
    """The catalogue as a table; peaks in Tflop/s, dense, with float32 accumulation."""
    head = ("id", "memory", "GB/s", "float16", "tf32", "float32", "TDP W", "SMs", "capability", "also")
    rows = [
        (
            b.id,
            format_bytes(b.memory_total_bytes),
            f"{b.memory_bandwidth_bytes_per_s / 1e9:.0f}",
            _tera(b.tensor_flops_per_s.get("float16")),
            _tera(b.tensor_flops_per_s.get("tf32")),
            _tera(b.float32_flops_per_s),
            f"{b.tdp_w:.0f}",
            str(b.sm_count),
            b.compute_capability,
            " ".join(b.aliases),
        )
        for b in boards
    ]
    note = "Peaks in Tflop/s: Tensor Cores (float16, tf32; dense, float32 accumulation) and ordinary float32 units."
    return (
        f"{_columns([head, *rows], left=(0, len(head) - 1))}\n\n{note}\nSources and confidence of every figure: --json."
    )


def _host_text(report: ProbeReport) -> str:
    host = report.host
    available = f"{format_bytes(host.memory_available_bytes)} of {format_bytes(host.memory_total_bytes)} available"
    return f"Host: {host.cpu or 'CPU'}, {host.cpu_cores} cores, {available}"


def _overview(gpus: Sequence[GpuInfo]) -> str:
    head = ("GPU", "CUDA", "busy", "name", "verdict")
    rows = [
        (
            str(g.index),
            "-" if g.cuda_index is None else f"gpu:{g.cuda_index}",
            "-" if g.utilization_percent is None else f"{g.utilization_percent} %",
            g.name or "-",
            verdict(g),
        )
        for g in gpus
    ]
    return _columns([head, *rows], left=(3, 4))


def _tensor_text(gpu: GpuInfo) -> str:
    cores = gpu.tensor_cores
    if cores.present is None:
        return f"Tensor Cores unknown ({gpu.not_available['tensor_cores']})"
    if not cores.present:
        return f"no Tensor Cores ({cores.generation}): {gpu.advised_policy}"
    mixed = [gpu.advised_policy or "", *(p for p in gpu.supported_policies or () if p.startswith("mixed_"))]
    return f"Tensor Cores ({cores.generation}): {' or '.join(dict.fromkeys(mixed))}"


def _gpu_text(gpu: GpuInfo) -> str:
    where = f"CUDA gpu:{gpu.cuda_index}" if gpu.cuda_index is not None else "not numbered by CUDA"
    title = f"GPU {gpu.index}  {gpu.name or 'unknown name'}  ({where})"
    lines = [title, f"  {verdict(gpu)}"]
    if not gpu.lost:
        lines += [f"  {label:<14}{value}" for label, value in _details(gpu) if value]
        lines += [f"  {_slice_text(part)}" for part in (gpu.mig.slices if gpu.mig else ())]
    return "\n".join(lines)


def _details(gpu: GpuInfo) -> Iterable[tuple[str, str]]:
    yield "memory", _memory_text(gpu)
    yield "not usable", _reserve_text(gpu)
    if gpu.advised_policy is not None:
        yield "policy", f"{gpu.advised_policy}: {gpu.advised_because}"
    if gpu.batch_alignment is not None and gpu.batch_alignment > 1:
        yield "prefer", f"micro-batches in multiples of {gpu.batch_alignment}, layer widths of {gpu.width_alignment}"
    yield (
        "chip",
        _joined(
            gpu.compute_capability and f"compute capability {gpu.compute_capability}",
            gpu.multiprocessors and f"{gpu.multiprocessors} SMs",
            gpu.ecc_enabled is not None and f"ECC {'on' if gpu.ecc_enabled else 'off'}",
            gpu.mig is not None and f"MIG {'on' if gpu.mig.enabled else 'off'}",
            gpu.compute_mode not in (None, "default") and f"compute mode {gpu.compute_mode}",
        ),
    )
    yield (
        "now",
        _joined(
            gpu.utilization_percent is not None and f"{gpu.utilization_percent} % busy",
            gpu.clock_sm_mhz is not None and f"{gpu.clock_sm_mhz} of {gpu.clock_sm_max_mhz or '?'} MHz",
            f"clocks: {', '.join(gpu.throttle_reasons)}" if gpu.throttle_reasons else None,
            gpu.temperature_c is not None and f"{gpu.temperature_c} °C",
            _power_text(gpu),
            gpu.pcie is not None and f"PCIe {gpu.pcie.generation or '?'} x{gpu.pcie.width or '?'}",
        ),
    )
    for process in gpu.processes or ():
        held = format_bytes(process.memory_bytes) if process.memory_bytes is not None else "memory not told"
        yield "process", f"{process.pid} {process.name or ''} {held} ({process.kind})".replace("  ", " ")
    yield "uuid", _joined(gpu.uuid, gpu.pci_bus_id and f"PCI {gpu.pci_bus_id}", gpu.catalogue_id)
    yield "not available", _missing_text(gpu)


def _power_text(gpu: GpuInfo) -> str:
    if gpu.power_draw_w is None:
        return ""
    limit = f" of {gpu.power_limit_w:.0f}" if gpu.power_limit_w is not None else ""
    return f"{gpu.power_draw_w:.0f}{limit} W"


def _memory_text(gpu: GpuInfo | MigInfo) -> str:
    return _joined(
        gpu.memory_total_bytes is not None and f"{format_bytes(gpu.memory_total_bytes)} total",
        gpu.memory_reserved_bytes is not None and f"{format_bytes(gpu.memory_reserved_bytes)} reserved by the driver",
        gpu.memory_used_bytes is not None and f"{format_bytes(gpu.memory_used_bytes)} used",
        gpu.memory_free_bytes is not None and f"{format_bytes(gpu.memory_free_bytes)} free",
    )


def _reserve_text(gpu: GpuInfo) -> str:
    parts = gpu.memory_usable_from
    if parts is None:
        return ""
    return (
        f"{format_bytes(parts.tensorflow_reserve_bytes)} TensorFlow leaves free, "
        f"{format_bytes(parts.cuda_context_bytes)} CUDA context (estimate)"
    )


def _missing_text(gpu: GpuInfo) -> str:
    """Fields by reason, without those that the lines above already explain."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in gpu.not_available.items():
        if name not in ("catalogue_id", "memory_usable_from"):
            by_reason.setdefault(reason, []).append(name)
    return "; ".join(f"{', '.join(names)} ({reason})" for reason, names in by_reason.items())


def _slice_text(part: MigInfo) -> str:
    where = f"CUDA gpu:{part.cuda_index}" if part.cuda_index is not None else "not numbered by CUDA"
    usable = (
        f"{format_bytes(part.memory_usable_bytes)} usable now"
        if part.memory_usable_bytes is not None
        else f"usable memory unknown ({part.not_available['memory_usable_bytes']})"
    )
    sms = f", {part.multiprocessors} SMs" if part.multiprocessors is not None else ""
    total = format_bytes(part.memory_total_bytes)
    return f"slice {part.index}  {part.name or ''}  ({where}): {total}, {usable}{sms}, {part.uuid or 'no UUID'}"


def _joined(*parts: str | bool | int | None) -> str:
    return ", ".join(str(p) for p in parts if p)


def _tera(flops: float | None) -> str:
    return "-" if flops is None else f"{flops / 1e12:.4g}"


def _columns(rows: Sequence[Sequence[str]], left: Sequence[int]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [c.ljust(widths[i]) if i in left else c.rjust(widths[i]) for i, c in enumerate(row)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
