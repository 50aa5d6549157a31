"""Global batch: samples per update. Fixed, unless the user asks for a range; then learning-rate advice follows."""

from __future__ import annotations

from autotune.core.axes import Axis


def _parse(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"the global batch must be a whole number of at least 1, got {text!r}")
    return int(text)


def _expand(low: str, high: str) -> tuple[int, ...]:
    first, last = _parse(low), _parse(high)
    if first > last:
        raise ValueError(f"global_batch={low}..{high} is empty: write the smaller number first")
    sizes = [first]
    while 2 * sizes[-1] <= last:
        sizes.append(2 * sizes[-1])
    return tuple(dict.fromkeys((*sizes, last)))


AXIS = Axis(
    name="global_batch",
    order=-1,
    summary="samples per update; LOW..HIGH searches LOW, its doublings, and HIGH",
    parse=_parse,
    defaults=lambda device_kind: (),  # what the user asked for
    expand=_expand,
)
