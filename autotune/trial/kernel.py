"""What the kernel counts machine-wide while a trial runs: processes it killed for want of memory, and swapping."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_PAGES_WORTH_A_WARNING = 256  # 1 MiB: less is the odd page of some other process


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Counters since boot; all 0 where the kernel does not show them.

    Attributes:
        oom_kills: processes ended by the out-of-memory killer (also within a control group).
        pages_swapped: pages swapped in or out.
    """

    oom_kills: int = 0
    pages_swapped: int = 0


def counters() -> Counters:
    """Reads the counters."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return Counters()
    values = {name: int(value) for name, value in (line.split() for line in lines)}
    swapped = values.get("pswpin", 0) + values.get("pswpout", 0)
    return Counters(oom_kills=values.get("oom_kill", 0), pages_swapped=swapped)


def warnings(before: Counters, after: Counters) -> tuple[str, ...]:
    """Returns what should be said about a trial that ran between two readings."""
    if after.pages_swapped - before.pages_swapped < _PAGES_WORTH_A_WARNING:
        return ()
    return ("the machine was swapping during this trial; its timings are not to be trusted",)
