"""Reads a device again before and after a trial, and says what happened to it meanwhile.

NVML stays open between readings: a reading is a handful of calls, reads only. Throttling is seen by the driver's own
counters (``nvmlDeviceGetViolationStatus``), so that slow minutes show although the clocks have recovered since.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from autotune.core.trial import Device
from autotune.core.units import format_bytes
from autotune.probe.memory import read_memory
from autotune.probe.reader import NvmlFailure, NvmlReader, ProcessReading, Query
from autotune.probe.report import Machine, this_machine
from autotune.probe.throttle import ABNORMAL, throttle_names

# Below this, a change is the driver's own bookkeeping.
_NOTABLE_BYTES = 64 * 2**20
# A trial whose clocks were capped for a smaller share of the time is not slower by it in any way that shows.
_NOTABLE_SHARE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One reading of a device; what could not be read is None.

    Attributes:
        time_s: on a monotonic clock.
        used_bytes: on the whole device.
        processes: bytes by process number; a value is None where the driver does not say.
        throttle_reasons: in force at this moment.
        thermal_violation_ns: time that heat has held the clocks down, since the driver was loaded.
        power_violation_ns: the same for the power cap.
    """

    time_s: float
    used_bytes: int | None = None
    processes: dict[int, int | None] | None = None
    throttle_reasons: tuple[str, ...] = ()
    thermal_violation_ns: int | None = None
    power_violation_ns: int | None = None


class DeviceMonitor:
    """An open view of one device; on the CPU, or where NVML has gone, its snapshots are empty.

    Args:
        device: as :func:`autotune.probe.select_device` chose it.
        machine: where to read; None is this machine.
    """

    def __init__(self, device: Device, machine: Machine | None = None) -> None:
        self._uuid = device.uuid
        self._machine = machine or this_machine(os.environ)
        self._reader: NvmlReader | None = None
        if device.uuid is not None:
            try:
                self._reader = self._machine.open_reader()
            except NvmlFailure:
                self._reader = None

    def snapshot(self) -> Snapshot:
        """Reads the device once. Never raises for a device that cannot be read."""
        now = time.monotonic()
        if self._reader is None or self._uuid is None:
            return Snapshot(time_s=now)
        try:
            handle = self._reader.device_by_uuid(self._uuid)
        except NvmlFailure:
            return Snapshot(time_s=now)
        listed: list[ProcessReading] | None = self._read(handle, "compute_processes")
        return Snapshot(
            time_s=now,
            used_bytes=self._used(handle),
            processes=None if listed is None else {p.pid: p.memory for p in listed},
            throttle_reasons=throttle_names(self._read(handle, "throttle_bits") or 0),
            thermal_violation_ns=self._read(handle, "thermal_violation_ns"),
            power_violation_ns=self._read(handle, "power_violation_ns"),
        )

    def process_bytes(self, pid: int) -> int | None:
        """Returns the device memory of one process, or None where NVML does not say (containers, WSL2)."""
        return (self.snapshot().processes or {}).get(pid)

    def close(self) -> None:
        """Ends the NVML session."""
        if self._reader is not None:
            with contextlib.suppress(NvmlFailure):  # nothing depends on it
                self._reader.close()
            self._reader = None

    def __enter__(self) -> DeviceMonitor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, handle: Any, what: Query) -> Any:
        if self._reader is None:
            return None
        try:
            return self._reader.query(handle, what)
        except NvmlFailure:
            return None

    def _used(self, handle: Any) -> int | None:
        if self._reader is None:
            return None
        capability = self._read(handle, "compute_capability")
        memory = read_memory(self._reader, handle, capability=capability, host=self._machine.read_host())
        return None if memory.source == "host" else memory.used  # the host's use says nothing of this device


def disturbances(
    before: Snapshot, after: Snapshot, *, during: Sequence[Snapshot] = (), own_pids: Collection[int] = ()
) -> tuple[str, ...]:
    """Returns what disturbed a trial, as sentences. Pure.

    Args:
        before: taken before the trial's process started.
        after: taken when it had ended.
        during: any readings in between.
        own_pids: process numbers of the trial; where NVML lists none of them (containers), readings in between tell
            nothing about other processes.
    """
    found = [*_taken(before, after), *_newcomers(before, after, during, own_pids)]
    seconds = after.time_s - before.time_s
    for name, get in _VIOLATIONS:
        share = _share(get(before), get(after), seconds)
        if share is not None and share >= _NOTABLE_SHARE:
            found.append(f"{name} held the clocks down for {share:.0%} of the trial")
    seen = ABNORMAL.intersection(*[[r for s in (before, *during, after) for r in s.throttle_reasons]])
    if seen and not any("heat" in sentence for sentence in found):
        found.append(f"the clocks were throttled ({', '.join(sorted(seen))})")
    return tuple(found)


_VIOLATIONS: tuple[tuple[str, Callable[[Snapshot], int | None]], ...] = (
    ("heat", lambda s: s.thermal_violation_ns),
    ("the power cap", lambda s: s.power_violation_ns),
)


def _taken(before: Snapshot, after: Snapshot) -> list[str]:
    if before.used_bytes is None or after.used_bytes is None:
        return []
    grown = after.used_bytes - before.used_bytes
    if grown >= _NOTABLE_BYTES:
        return [f"another process took {format_bytes(grown)} of the GPU during the trial"]
    if -grown >= _NOTABLE_BYTES:
        return [f"another process gave back {format_bytes(-grown)} of the GPU during the trial"]
    return []


def _newcomers(before: Snapshot, after: Snapshot, during: Sequence[Snapshot], own_pids: Collection[int]) -> list[str]:
    known = set(before.processes or {})
    new = set(after.processes or {}) - known - set(own_pids)
    for snapshot in during:
        listed = set(snapshot.processes or {})
        if listed.intersection(own_pids):
            new |= listed - known - set(own_pids)
    if not new:
        return []
    return [f"another process used the GPU during the trial (pid {', '.join(map(str, sorted(new)))})"]


def _share(before: int | None, after: int | None, seconds: float) -> float | None:
    if before is None or after is None or seconds <= 0 or after < before:
        return None
    return min(1.0, (after - before) / 1e9 / seconds)
