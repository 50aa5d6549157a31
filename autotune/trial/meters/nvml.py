"""NVML's view of a trial: its process, the device as a whole, and what else happened on it meanwhile."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from autotune.core.outcome import Memory, Outcome
from autotune.core.trial import Device
from autotune.probe import DeviceMonitor, disturbances
from autotune.probe.monitor import Snapshot


class NvmlMeter:
    """Readings of one device before, during and after a pass.

    Args:
        device: the GPU.
    """

    def __init__(self, device: Device) -> None:
        self._monitor = DeviceMonitor(device)
        self._before: Snapshot | None = None
        self._during: list[Snapshot] = []

    def close(self) -> None:
        """Ends the NVML session."""
        self._monitor.close()

    def begin(self) -> None:
        """Reads the device before the pass starts."""
        self._before, self._during = self._monitor.snapshot(), []

    def look(self) -> None:
        """Reads it while the pass runs; called a few times a second."""
        self._during.append(self._monitor.snapshot())

    def end(self, outcome: Outcome, pids: Collection[int]) -> Outcome:
        """Adds what was seen to the outcome of a pass whose processes have gone.

        Args:
            outcome: of the pass; where it has no peak of its own (a loop without TensorFlow), NVML's stands in.
            pids: processes of the pass.
        """
        if self._before is None:
            return outcome
        warnings = disturbances(self._before, self._monitor.snapshot(), during=self._during, own_pids=pids)
        source, peak = peak_seen(self._before, self._during, pids)
        memory = outcome.memory or Memory()
        if peak is not None:
            memory = replace(memory, nvml_peak_bytes=peak)
            if memory.peak_bytes is None:
                memory = replace(memory, peak_bytes=peak, peak_source=source)
        return replace(outcome, memory=memory, warnings=(*outcome.warnings, *warnings))


def peak_seen(before: Snapshot, during: Collection[Snapshot], pids: Collection[int]) -> tuple[str, int | None]:
    """Returns the most that was seen of a pass, with its source. Pure.

    The process's own figure where NVML gives one; in a container, or on WSL2, it does not, and the device's increase
    over what it held before stands in.
    """
    own = [sum(s.processes.get(pid) or 0 for pid in pids) for s in during if s.processes]
    if any(own):
        return "nvml_process", max(own)
    used = [
        s.used_bytes - before.used_bytes for s in during if s.used_bytes is not None and before.used_bytes is not None
    ]
    return "nvml_device", max(used) if used and max(used) > 0 else None
