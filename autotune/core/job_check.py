"""Whether a stored study and a new command are about the same thing: their measurements must not be mixed."""

from __future__ import annotations

from typing import Any

from autotune.core.study import Job
from autotune.core.units import format_bytes

# Total memory is read through different interfaces and driver versions; a real change of machine moves it by far more.
_MEMORY_TOLERANCE = 0.02


def job_differences(stored: Job, asked: Job) -> tuple[str, ...]:
    """Returns what differs, as phrases like ``global batch (256 stored, 512 now)``; empty where the jobs agree.

    The device's usable memory at the moment and its UUID may differ: neither changes what a measurement means.
    """
    pairs: list[tuple[str, Any, Any]] = [
        ("workload", stored.workload.entry_point, asked.workload.entry_point),
        ("workload source", stored.workload.source_hash[:12], asked.workload.source_hash[:12]),
        ("workload kind", stored.workload.kind, asked.workload.kind),
        ("data set size", stored.workload.dataset_size, asked.workload.dataset_size),
        ("global batch", stored.global_batch, asked.global_batch),
        ("memory limit", _size(stored.memory_limit_bytes), _size(asked.memory_limit_bytes)),
        ("objective", stored.objective, asked.objective),
        ("seed", stored.seed, asked.seed),
        ("device kind", stored.device.kind, asked.device.kind),
        ("device", stored.device.name, asked.device.name),
        ("compute capability", stored.hardware.compute_capability, asked.hardware.compute_capability),
        ("driver version", stored.hardware.driver_version, asked.hardware.driver_version),
        ("processor", stored.hardware.cpu, asked.hardware.cpu),
        ("processor cores", stored.hardware.cpu_cores, asked.hardware.cpu_cores),
        ("Python", stored.software.python, asked.software.python),
        ("TensorFlow", stored.software.tensorflow, asked.software.tensorflow),
        ("Keras", stored.software.keras, asked.software.keras),
        ("CUDA", stored.software.cuda, asked.software.cuda),
    ]
    found = [f"{name} ({_text(a)} stored, {_text(b)} now)" for name, a, b in pairs if a != b]
    if _memory_differs(stored.hardware.memory_bytes, asked.hardware.memory_bytes):
        found.append(
            f"device memory ({format_bytes(stored.hardware.memory_bytes)} stored, "
            f"{format_bytes(asked.hardware.memory_bytes)} now)"
        )
    for name in sorted(set(stored.axes) | set(asked.axes)):
        a, b = stored.axes.get(name, ()), asked.axes.get(name, ())
        if a != b:
            found.append(f"axis {name} ({_values(a)} stored, {_values(b)} now)")
    return tuple(found)


def _memory_differs(a: int | None, b: int | None) -> bool:
    if a is None or b is None:
        return a is not b
    return abs(a - b) > _MEMORY_TOLERANCE * max(a, b)


def _size(count: int | None) -> str | None:
    return None if count is None else f"{count} bytes"


def _text(value: Any) -> str:
    return "none" if value is None else str(value)


def _values(values: tuple[str, ...]) -> str:
    if not values:
        return "not searched"
    return ", ".join(values) if len(values) <= 4 else f"{values[0]} to {values[-1]}, {len(values)} values"
