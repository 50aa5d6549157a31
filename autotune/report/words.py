"""Small pieces of text that tables, progress and the page share."""

from __future__ import annotations

import math
import unicodedata

from autotune.core.outcome import Throughput
from autotune.core.trial import TrialRecord
from autotune.core.units import format_bytes, format_rate

_ASCII = str.maketrans({"±": "+/-", "×": "x", "…": "...", "–": "-", "≈": "~", "·": "-", "≥": ">=", "≤": "<="})


def half_width(measured: Throughput) -> float | None:
    """Returns the wider half of the 95 % interval as a share of the median (0.008 is ±0.8 %)."""
    if not measured.samples_per_s:
        return None
    low = measured.samples_per_s - measured.samples_per_s_low
    high = measured.samples_per_s_high - measured.samples_per_s
    return max(low, high) / measured.samples_per_s


def share(value: float | None) -> str:
    """``0.418 -> '42 %'``; below 10 % with one digit; a missing value is ``'-'``."""
    if value is None:
        return "-"
    percent = 100 * value
    return f"{percent:.0f} %" if percent >= 9.95 else f"{percent:.1f} %"


def factor(value: float | None) -> str:
    """``1.3141 -> '1.31x'``; a missing value is ``'-'``."""
    return "-" if value is None else f"{value:.2f}x"


def scale_words(loss_scale: float | None) -> str:
    """``32768.0 -> '2^15'``; a missing value is ``'-'``."""
    if loss_scale is None:
        return "-"
    exponent = math.log2(loss_scale)
    return f"2^{exponent:.0f}" if exponent.is_integer() else f"{loss_scale:g}"


def state_words(record: TrialRecord) -> str:
    """``out_of_memory -> 'out of memory'``."""
    return str(record.state).replace("_", " ")


def rate_words(measured: Throughput) -> str:
    """``12,310 samples/s ±0.8 %``."""
    interval = half_width(measured)
    return f"{format_rate(measured.samples_per_s)} samples/s" + (f" ±{share(interval)}" if interval is not None else "")


def measured_words(record: TrialRecord) -> str:
    """One trial's result: ``12,310 samples/s ±0.8 %, peak 1.42 GiB``, or how it ended and why."""
    measured = record.outcome.throughput
    if not record.completed or measured is None:
        reason = f" ({one_line(record.outcome.reason)})" if record.outcome.reason else ""
        return state_words(record) + reason
    peak = f", peak {format_bytes(record.peak_bytes)}" if record.peak_bytes is not None else ""
    return rate_words(measured) + peak


def one_line(text: str | None) -> str:
    """Returns text from outside as one line without control characters, which would reach the terminal."""
    words = " ".join((text or "").split())
    return "".join(c for c in words if unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co", "Cn"))


def encodable(text: str, encoding: str | None) -> str:
    """Returns ``text`` as ``encoding`` can write it: our own signs in ASCII, anything else escaped."""
    target = encoding or "ascii"
    try:
        text.encode(target)
    except UnicodeEncodeError:
        return text.translate(_ASCII).encode(target, "backslashreplace").decode(target)
    except LookupError:
        return encodable(text, "ascii")
    return text
