"""Candidates as Optuna parameters and back, with ordinary distributions, so that any Optuna tool can read a study."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution

from autotune.core.candidate import Candidate
from autotune.core.space import SearchSpace


def distributions(space: SearchSpace) -> dict[str, BaseDistribution]:
    """Returns the distribution of each axis by name: log-integer for ``micro_batch``, categorical for the others."""
    sizes = space.values("micro_batch")
    found: dict[str, BaseDistribution] = {"micro_batch": IntDistribution(min(sizes), max(sizes), log=True)}
    for name, values in space.axes:
        if name != "micro_batch":
            # None says "not applicable here": a loss scale without float16.
            used = {getattr(candidate, name) for candidate in space.candidates()}
            found[name] = CategoricalDistribution((None, *values) if None in used and None not in values else values)
    return found


def to_params(candidate: Candidate, space: SearchSpace) -> dict[str, Any]:
    """Returns the parameters of one candidate."""
    return {name: getattr(candidate, name) for name, _ in space.axes}


def nearest(candidates: Iterable[Candidate], params: Mapping[str, Any]) -> Candidate:
    """Returns the candidate that agrees with ``params`` on most axes, then the one of the nearest micro-batch."""

    def distance(candidate: Candidate) -> tuple[int, float]:
        others = sum(getattr(candidate, name) != value for name, value in params.items() if name != "micro_batch")
        return others, abs(math.log2(candidate.micro_batch / params["micro_batch"]))

    return min(candidates, key=distance)
