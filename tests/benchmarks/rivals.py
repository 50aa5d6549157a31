"""Other ways to search, as people do it: each is a function that asks for trials until it is content.

They see what a trial shows (state, throughput, peak, time) and nothing of the landscape.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import optuna
from optuna.samplers import BaseSampler, TPESampler
from optuna.trial import TrialState

from autotune.core.candidate import Candidate
from autotune.core.outcome import State
from autotune.core.policy import Open, Stop, give_up_update_s, next_candidate
from autotune.core.space import SearchSpace
from autotune.core.trial import TrialRecord
from autotune.search.params import distributions, nearest

MOST_TRIALS = 24
Run = Callable[..., TrialRecord]


def ours(space: SearchSpace, limit: int | None, run: Run, seed: int) -> None:
    """The package's own policy, as ``autotune tune`` runs it."""
    records: list[TrialRecord] = []
    while len(records) < MOST_TRIALS:
        decision = next_candidate(space, records, memory_limit_bytes=limit)
        if isinstance(decision, Stop):
            return
        candidate = decision.candidates[0] if isinstance(decision, Open) else decision.candidate
        records.append(run(candidate, give_up_update_s(records, candidate)))


def uniform(space: SearchSpace, limit: int | None, run: Run, seed: int) -> None:
    """Candidates drawn without replacement."""
    order = list(space.candidates())
    random.Random(seed).shuffle(order)
    for candidate in order[:MOST_TRIALS]:
        run(candidate)


def plain_tpe(space: SearchSpace, limit: int | None, run: Run, seed: int) -> None:
    """Optuna's default sampler over the axes; what fails is told as failed, as an exception in an objective is."""
    _optuna(space, run, TPESampler(seed=seed))


def gaussian_process(space: SearchSpace, limit: int | None, run: Run, seed: int) -> None:
    """Optuna's GPSampler; needs torch and scipy."""
    _optuna(space, run, optuna.samplers.GPSampler(seed=seed))


def doubling(space: SearchSpace, limit: int | None, run: Run, seed: int) -> None:
    """The first program of the space at 1, 2, 4 ... samples until it runs out of memory."""
    size = 1
    while size <= _share(space):
        if run(_plain(space, size)).state is State.OUT_OF_MEMORY:
            return
        size *= 2


def shrinking(space: SearchSpace, limit: int | None, run: Run, seed: int) -> None:
    """From the full batch down by a tenth until it fits, which is then taken."""
    size = _share(space)
    for _ in range(MOST_TRIALS):
        if run(_plain(space, size)).completed:
            return
        size = max(1, int(0.9 * size))


def plateau(space: SearchSpace, limit: int | None, run: Run, seed: int) -> None:
    """After DeepSpeed's autotuner: the largest size predicted from one small run, sizes below it, a 5 % plateau.

    A run of one sample gives the memory, the largest micro-batch follows from it in proportion to what is free; three
    sizes up to it are measured, then halves of the best until it gains less than 5 %.
    """
    one, two = run(_plain(space, 1)), run(_plain(space, min(2, _share(space))))
    if not (one.completed and two.completed and one.peak_bytes and two.peak_bytes):
        return
    slope = max(two.peak_bytes - one.peak_bytes, 1)
    room = _share(space) if limit is None else int(1 + (limit - one.peak_bytes) / slope)
    largest = max(2, min(_share(space), room))
    best = max(one.samples_per_s or 0.0, two.samples_per_s or 0.0)
    for size in dict.fromkeys((largest, (largest + largest // 2) // 2, largest // 2, largest // 4)):
        if size < 3:
            return
        record = run(_plain(space, size))
        rate = record.samples_per_s or 0.0
        if record.completed and rate < 1.05 * best:
            return
        best = max(best, rate)


def _optuna(space: SearchSpace, run: Run, sampler: BaseSampler) -> None:
    study = optuna.create_study(direction="maximize", sampler=sampler)
    ranges = distributions(space)
    for _ in range(MOST_TRIALS):
        trial = study.ask(fixed_distributions=ranges)
        record = run(nearest(space.candidates(), trial.params))
        if record.completed and record.samples_per_s:
            study.tell(trial, record.samples_per_s)
        else:
            study.tell(trial, state=TrialState.FAIL)


def _share(space: SearchSpace) -> int:
    return space.global_batch // space.replicas


def _plain(space: SearchSpace, size: int) -> Candidate:
    looped = [c for c in space.candidates() if c.accumulation_steps > 1 and not c.jit_compile and not c.recompute]
    return replace(looped[0], micro_batch=size)
