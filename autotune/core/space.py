"""The search space: every candidate whose global batch is exact."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from autotune.core.axes import Values, all_axes, axis_named
from autotune.core.axes.micro_batch import balanced_sizes
from autotune.core.candidate import Candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class Restriction:
    """What the user said about one axis.

    Attributes:
        axis: name of the axis.
        values: the values to search; a ``range`` keeps the generated micro-batches that lie in it, a tuple is taken as
            it is written.
        text: as written, for messages.
    """

    axis: str
    values: Values
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSpace:
    """What may be searched. Hashable; :meth:`candidates` is computed once per space.

    Attributes:
        global_batch: samples per update, over all replicas; the smallest one, where the user lets it vary.
        replicas: devices that train in step.
        alignment: multiple that micro-batches prefer.
        axes: (name, values) of each offered axis, in building order; ``micro_batch`` is always there, ``global_batch``
            where it varies.
    """

    global_batch: int
    replicas: int = 1
    alignment: int = 1
    axes: tuple[tuple[str, tuple[Any, ...]], ...]

    def values(self, axis: str) -> tuple[Any, ...]:
        """Returns the values of one axis; empty where the axis is not offered."""
        return dict(self.axes).get(axis, ())

    def candidates(self) -> tuple[Candidate, ...]:
        """Returns all candidates, largest micro-batch first, without duplicates."""
        return _candidates(self)

    def axes_text(self) -> dict[str, tuple[str, ...]]:
        """Returns the values by axis name as text, as ``Job.axes`` keeps them."""
        return {name: tuple(_text(value) for value in values) for name, values in self.axes}


def parse_axis(text: str) -> Restriction:
    """Parses ``micro_batch=8..128``, ``precision=float32,mixed_float16`` or ``jit_compile=off``.

    Raises:
        ValueError: no such axis (the nearest is named), or a value it cannot take.
    """
    name, equals, right = (part.strip() for part in text.partition("="))
    axis = axis_named(name)
    if not equals or not right:
        raise ValueError(f"write an axis as {name}=VALUE, {name}=V1,V2 or {name}=LOW..HIGH, got {text!r}")
    if ".." in right:
        if axis.expand is None:
            raise ValueError(f"{name} has no order, so LOW..HIGH means nothing; list its values with commas")
        low, _, high = right.partition("..")
        return Restriction(axis=name, values=axis.expand(low.strip(), high.strip()), text=text)
    values = tuple(dict.fromkeys(axis.parse(part.strip()) for part in right.split(",")))
    return Restriction(axis=name, values=values, text=text)


def default_axes(offered: Iterable[str], *, device_kind: str) -> dict[str, tuple[Any, ...]]:
    """Returns the values searched by default for the axes that a workload offers, by axis name.

    Args:
        offered: names of axes beside ``micro_batch``.
        device_kind: ``cpu`` or ``gpu``.

    Raises:
        ValueError: no such axis.
    """
    return {name: axis_named(name).defaults(device_kind) for name in offered if name != "micro_batch"}


def build_space(
    global_batch: int,
    *,
    replicas: int = 1,
    dataset_size: int | None = None,
    alignment: int = 1,
    axes: Mapping[str, Values],
    restrictions: Iterable[Restriction] = (),
) -> SearchSpace:
    """Builds the space of all candidates with exactly ``global_batch`` samples per update.

    Args:
        global_batch: samples per update, over all replicas.
        replicas: devices that train in step; the global batch must be a multiple.
        dataset_size: samples in the data set; None where unknown.
        alignment: multiple that micro-batches prefer.
        axes: values by axis name (see :func:`default_axes`); an axis that is absent is not offered by the loop, and its
            field in ``Candidate`` stays None.
        restrictions: what the user said; each replaces the values of its axis, or adds the axis.

    Raises:
        ValueError: one sentence that names the value and the mend.
    """
    said = {r.axis: r for r in restrictions}
    batches = tuple(sorted(said["global_batch"].values)) if "global_batch" in said else (global_batch,)
    for batch in (global_batch, *batches):
        _check_batch(batch, replicas, dataset_size)
    given: dict[str, Values] = dict(axes) | {name: r.values for name, r in said.items()}
    for name in given:
        axis_named(name)
    given.pop("global_batch", None)
    shares = [batch // replicas for batch in batches]
    sizes = _sizes(shares, alignment, given.pop("micro_batch", ()), said.get("micro_batch"))
    ordered: list[tuple[str, tuple[Any, ...]]] = [("global_batch", batches)] if len(batches) > 1 else []
    ordered.append(("micro_batch", sizes))
    ordered += [(a.name, tuple(given[a.name])) for a in all_axes() if given.get(a.name)]
    return SearchSpace(global_batch=batches[0], replicas=replicas, alignment=alignment, axes=tuple(ordered))


def fix_axis(space: SearchSpace, axis: str, values: tuple[Any, ...]) -> SearchSpace:
    """Returns a space with other values of one axis that it offers."""
    return replace(space, axes=tuple((name, values if name == axis else old) for name, old in space.axes))


def _check_batch(global_batch: int, replicas: int, dataset_size: int | None) -> None:
    if isinstance(global_batch, bool) or not isinstance(global_batch, int) or global_batch < 1:
        raise ValueError(f"the global batch must be a whole number of at least 1, got {global_batch!r}")
    if dataset_size is not None and global_batch > dataset_size:
        raise ValueError(
            f"the global batch {global_batch} is larger than the data set ({dataset_size} samples); "
            f"use at most {dataset_size}"
        )
    if global_batch % replicas:
        below = global_batch // replicas * replicas
        nearest = f"{below} or {below + replicas}" if below else str(replicas)
        raise ValueError(
            f"the global batch {global_batch} cannot be shared evenly by {replicas} replicas; use {nearest}"
        )


def _sizes(shares: list[int], alignment: int, values: Values, said: Restriction | None) -> tuple[int, ...]:
    generated = _generated(tuple(shares), alignment)
    replica_batch = max(shares)
    text = f" ({said.text})" if said else ""
    if isinstance(values, range):
        kept = tuple(size for size in generated if size in values)
        if not kept:
            near = sorted(generated, key=lambda size: min(abs(size - values[0]), abs(size - values[-1])))[:2]
            raise ValueError(
                f"no micro-batch between {values[0]} and {values[-1]} shares {replica_batch} samples evenly{text}; "
                f"the nearest are {' and '.join(str(size) for size in sorted(near))}"
            )
        return kept
    too_large = [size for size in values if size > replica_batch]
    if too_large:
        raise ValueError(
            f"micro_batch {too_large[0]} is larger than a replica's share of the global batch ({replica_batch}){text}; "
            f"use at most {replica_batch}"
        )
    return tuple(sorted(values, reverse=True)) or generated


@lru_cache(maxsize=64)
def _generated(shares: tuple[int, ...], alignment: int) -> tuple[int, ...]:
    return tuple(sorted({size for share in shares for size in balanced_sizes(share, alignment)}, reverse=True))


def _sizes_for(share: int, space: SearchSpace) -> list[int]:
    """The micro-batches for one replica's share of one global batch: its own balanced ones, and those listed."""
    values = space.values("micro_batch")
    batches = space.values("global_batch") or (space.global_batch,)
    of_any = _generated(tuple(batch // space.replicas for batch in batches), space.alignment)
    own = _generated((share,), space.alignment)
    return [size for size in values if size <= share and (size in own or size not in of_any or len(batches) == 1)]


@lru_cache(maxsize=8)
def _candidates(space: SearchSpace) -> tuple[Candidate, ...]:
    found: dict[Candidate, None] = {}
    for batch in space.values("global_batch") or (space.global_batch,):
        share = batch // space.replicas
        for size in _sizes_for(share, space):
            seed = {"global_batch": batch, "micro_batch": size, "accumulation_steps": -(-share // size)}
            for chosen in _branches(seed, space):
                fields: dict[str, Any] = {axis.name: chosen.get(axis.name) for axis in all_axes()}
                found[Candidate(replicas=space.replicas, **fields)] = None
    return tuple(found)


def _branches(chosen: dict[str, Any], space: SearchSpace) -> list[dict[str, Any]]:
    branches = [chosen]
    for axis in all_axes():
        values = space.values(axis.name)
        if values and axis.name not in ("global_batch", "micro_batch"):
            branches = [b | {axis.name: v} for b in branches for v in axis.narrow(values, b)]
    return branches


def _text(value: Any) -> str:
    if value is None:
        return "default"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)
