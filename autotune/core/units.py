"""Sizes, durations and rates: parsed from what people write, formatted for what people read."""

from __future__ import annotations

import re
from dataclasses import dataclass

_BINARY = {"": 1, "b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_DECIMAL = {"kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER = r"(\d+(?:\.\d+)?)"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLimit:
    """A memory limit as the user wrote it: either bytes, or a share of the device's usable memory."""

    bytes: int | None = None
    share: float | None = None

    def resolve(self, usable_bytes: int) -> int:
        """Returns the limit in bytes on a device with ``usable_bytes`` of usable memory."""
        return self.bytes if self.bytes is not None else int((self.share or 1.0) * usable_bytes)


def parse_memory_limit(text: str) -> MemoryLimit:
    """Parses ``200MiB``, ``8GiB``, ``4GB`` or ``90%``.

    Raises:
        ValueError: not a positive size or a share in (0, 100] %.
    """
    share = re.fullmatch(_NUMBER + r"\s*%", text.strip())
    if share:
        value = float(share[1]) / 100
        if not 0 < value <= 1:
            raise ValueError(f"a share of memory lies above 0 % and up to 100 %, got {text!r}")
        return MemoryLimit(share=value)
    return MemoryLimit(bytes=parse_size(text))


def parse_size(text: str) -> int:
    """Parses a size such as ``200MiB`` or ``4GB`` into bytes (KiB/MiB/GiB are powers of 1024, KB/MB/GB of 1000).

    Raises:
        ValueError: not a positive size.
    """
    match = re.fullmatch(_NUMBER + r"\s*([A-Za-z]*)", text.strip())
    unit = (_BINARY | _DECIMAL).get(match[2].lower()) if match else None
    if match is None or unit is None or float(match[1]) <= 0:
        raise ValueError(f"write a size like 200MiB, 8GiB or 4GB, got {text!r}")
    return int(float(match[1]) * unit)


def parse_duration(text: str) -> float:
    """Parses a duration such as ``45s``, ``10m``, ``2h`` or ``1h30m`` into seconds.

    Raises:
        ValueError: not a positive duration.
    """
    cleaned = text.strip().lower()
    parts = re.findall(_NUMBER + r"\s*([a-z]*)\s*", cleaned)
    whole = re.fullmatch(r"(?:\d+(?:\.\d+)?\s*[a-z]*\s*)+", cleaned)
    if not whole or any(unit not in _SECONDS for _, unit in parts):
        raise ValueError(f"write a duration like 45s, 10m or 2h, got {text!r}")
    seconds = sum(float(value) * _SECONDS[unit] for value, unit in parts)
    if seconds <= 0:
        raise ValueError(f"a duration must be above zero, got {text!r}")
    return seconds


def format_bytes(count: float | None) -> str:
    """``1524432896 -> '1.42 GiB'``; a missing value is ``'-'``."""
    if count is None:
        return "-"
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{_three_digits(value)} {unit}"
        value /= 1024
    return f"{_three_digits(value)} TiB"


def format_seconds(seconds: float | None) -> str:
    """``0.0123 -> '12.3 ms'``, ``95 -> '1m 35s'``; a missing value is ``'-'``."""
    if seconds is None:
        return "-"
    if seconds < 0.9995:
        return f"{_three_digits(seconds * 1e3)} ms"
    if seconds < 60:
        return f"{_three_digits(seconds)} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02d}m" if hours else f"{minutes}m {rest:02d}s"


def format_rate(samples_per_s: float | None) -> str:
    """``12310.4 -> '12,310'`` samples per second; a missing value is ``'-'``."""
    if samples_per_s is None:
        return "-"
    return f"{samples_per_s:,.0f}" if samples_per_s >= 100 else _three_digits(samples_per_s)


def _three_digits(value: float) -> str:
    digits = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    return f"{value:.{digits}f}"
