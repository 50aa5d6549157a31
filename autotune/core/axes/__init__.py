"""The search axes, one file each: a new axis is a new file here and a field of the same name in ``Candidate``.

Each file holds one value named ``AXIS``. Files are found by listing this package, so nothing else has to be edited.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

Values = tuple[Any, ...] | range


def keep_all(values: tuple[Any, ...], chosen: Mapping[str, Any]) -> tuple[Any, ...]:
    """The ordinary ``narrow``: every value makes sense whatever the other axes say."""
    return values


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One dimension of the search space.

    Attributes:
        name: of the axis, and of the field in ``Candidate`` that it fills.
        order: place in the order in which candidates are built (and listed); smaller is earlier.
        summary: one line for people.
        parse: one value from text; raises ValueError with a sentence.
        defaults: values searched on a device kind (``cpu`` or ``gpu``) where the user says nothing.
        narrow: which of the values make sense, given ``global_batch``, ``accumulation_steps`` and the values of earlier
            axes; this is how an axis that changes nothing (an execution at one step) does not multiply candidates.
        expand: the values of ``LOW..HIGH``; None where the axis has no order.
    """

    name: str
    order: int
    summary: str
    parse: Callable[[str], Any]
    defaults: Callable[[str], tuple[Any, ...]]
    narrow: Callable[[tuple[Any, ...], Mapping[str, Any]], tuple[Any, ...]] = keep_all
    expand: Callable[[str, str], Values] | None = None


@cache
def all_axes() -> tuple[Axis, ...]:
    """Returns every axis, in the order in which candidates are built."""
    modules = (importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__))
    return tuple(sorted((m.AXIS for m in modules), key=lambda axis: axis.order))


def axis_named(name: str) -> Axis:
    """Returns one axis.

    Raises:
        ValueError: no axis of that name.
    """
    found = next((axis for axis in all_axes() if axis.name == name), None)
    if found is None:
        raise ValueError(f"there is no axis named {name!r}{suggest(name, [axis.name for axis in all_axes()])}")
    return found


def choice(text: str, allowed: tuple[str, ...], what: str) -> str:
    """Returns ``text`` where it is one of ``allowed``.

    Raises:
        ValueError: it is not; the nearest one is named.
    """
    if text not in allowed:
        raise ValueError(f"{what} must be one of {', '.join(allowed)}, got {text!r}{suggest(text, allowed)}")
    return text


def on_off(text: str, what: str) -> bool:
    """Parses ``on`` and ``off`` (and ``true``, ``false``).

    Raises:
        ValueError: anything else.
    """
    known = {"on": True, "true": True, "off": False, "false": False}
    if text.lower() not in known:
        raise ValueError(f"{what} is on or off, got {text!r}")
    return known[text.lower()]


def suggest(word: str, known: tuple[str, ...] | list[str]) -> str:
    """Returns ``"; did you mean 'precision'?"``, or the list of what is known where nothing is near."""
    # "float16" means "mixed_float16", though "float32" is the nearer word.
    near = [name for name in known if word and word in name] or difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(known)}"
