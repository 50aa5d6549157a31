"""What to run next. Pure: the same records give the same answer.

Memory first: until something completed, step down until something fits. Then one plain full batch where it surely fits
(every result is compared with it). Then whatever candidate promises most improvement per second of trial, weighted by
its chance to fit, until none is likely to bring more than 1 %. ``docs/search.md`` tells it at length.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from autotune.core.candidate import Candidate
from autotune.core.memory_fit import Fit
from autotune.core.policy_state import HOPELESS, SURE_ENOUGH, PolicyState
from autotune.core.select import MEMORY_SHARE
from autotune.core.space import SearchSpace
from autotune.core.study import Objective
from autotune.core.throughput_model import Prediction
from autotune.core.trial import TrialRecord
from autotune.core.trial_cost import OUT_OF_MEMORY_S, program
from autotune.core.units import format_rate

WORTHWHILE = 0.01  # improvement that a further trial must be able to bring
STOP_CHANCE = 0.10  # with at least this probability
A_QUARTER = 0.25  # chance to win of a larger size, for which a smaller one is run to learn how memory grows
RATHER = 0.6  # chance to fit that the last doubtful candidate needs after an out-of-memory trial
PATIENCE = 10.0  # times slower than the best, that is still measured for a front
ENOUGH_FAILURES = 6  # trials that failed, other than by memory, while none completed


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """Run this.

    Attributes:
        candidate: what to run.
        why: for people, a few words.
    """

    candidate: Candidate
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """Each of these may be worth a trial, and no order among them follows from the models: a sampler may choose.

    Attributes:
        candidates: not empty.
        why: for people, a few words.
    """

    candidates: tuple[Candidate, ...]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Nothing more to run.

    Attributes:
        reason: one sentence.
    """

    reason: str


def next_candidate(
    space: SearchSpace,
    records: Iterable[TrialRecord],
    *,
    memory_limit_bytes: int | None = None,
    objective: Objective = "throughput",
    memory_share: float = MEMORY_SHARE,
    pending: Iterable[Candidate] = (),
    seconds_left: float | None = None,
) -> Proposal | Open | Stop:
    """Decides the next trial.

    Args:
        space: what may be run.
        records: trials so far, in order of their numbers.
        memory_limit_bytes: limit on the peak; None for none.
        objective: what the search is for.
        memory_share: share of the best throughput that objective ``memory`` keeps.
        pending: candidates that run elsewhere at this moment, or whose outcome is unknown.
        seconds_left: of the budget; a trial expected to take longer is not proposed.
    """
    state = PolicyState(space, tuple(records), tuple(pending), memory_limit_bytes)
    if not state.remaining:
        return Stop(reason=f"the space is exhausted: all {len(space.candidates())} candidates were run")
    affordable = [c for c in state.remaining if seconds_left is None or state.cost.seconds(c) <= seconds_left]
    if not affordable:
        return Stop(reason="the time budget is spent: no remaining candidate is expected to end within it")
    if not state.usable:
        return _descend(state, affordable)
    reference = state.reference()
    if reference in affordable and state.peaks.fits(reference) is Fit.YES:
        return Proposal(candidate=reference, why="one plain full batch, to compare with")
    promising = [(c, state.throughput.predict(c)) for c in affordable if state.promising(c)]
    steps: list[Callable[[], Proposal | Open | None]] = [lambda: _fastest(state, promising)]
    if objective == "memory":
        steps.append(lambda: _cheapest(state, promising, memory_share))
    if objective == "pareto":
        steps.append(lambda: _front(state, promising))
    steps += [lambda: _second_size(state, affordable), lambda: _edge(state, affordable)]
    found = next((found for step in steps if (found := step()) is not None), None)
    if found is None and len(affordable) < len(state.remaining):
        return Stop(reason="the time budget is spent: no promising candidate is expected to end within it")
    return found or _nothing_left(state, objective)


def give_up_update_s(
    records: Iterable[TrialRecord], candidate: Candidate, objective: Objective = "throughput"
) -> float | None:
    """Returns the seconds after which one update of ``candidate`` is hopeless; None while nothing is known.

    The low end of a memory/throughput front is slow and belongs to it, so ``pareto`` has more patience. One plain full
    batch in float32 is always measured: every result is compared with it.
    """
    if candidate.accumulation_steps == 1 and not candidate.jit_compile and candidate.precision in (None, "float32"):
        return None
    rates = [r.samples_per_s for r in records if r.completed and r.samples_per_s]
    factor = PATIENCE if objective == "pareto" else HOPELESS
    return factor * candidate.global_batch / max(rates) if rates else None


def _descend(state: PolicyState, affordable: Sequence[Candidate]) -> Proposal | Stop:
    """Nothing fits yet: start at a moderate size, go down fast, then try the programs that need least memory."""
    left = [c for c in affordable if not state.peaks.ruled_out(c) and not state.broken(c)]
    whole = _one_step(state, affordable)
    if (not left and whole is None) or len(state.failed) >= ENOUGH_FAILURES:
        return Stop(reason=_nothing_completed(state))
    if not state.records:
        return Proposal(candidate=state.first_look(left), why="a first look")
    if not state.out_of_memory:
        return Proposal(candidate=state.first_look(state.most_different(left)), why="a different program")
    failed = [r.candidate for r in state.out_of_memory]
    smaller = [c for c in left if any(program(c) == program(f) for f in failed)]
    if smaller:
        limit = min(f.micro_batch for f in failed if program(f) == program(smaller[0]))
        same = [c for c in smaller if program(c) == program(smaller[0])]
        chosen = min(same, key=lambda c: abs(math.log2(c.micro_batch / max(limit / 8, 1))))
        return Proposal(candidate=chosen, why=f"micro-batch {limit} did not fit")
    if whole is not None:  # a program's smallest micro-batch did not fit, so activations are not what is too large
        return Proposal(candidate=whole, why="one step, which needs no accumulators")
    frugal = min(left, key=lambda c: (not c.recompute, c.precision == "float32", c.micro_batch))
    return Proposal(candidate=frugal, why="a program that may need less memory")


def _one_step(state: PolicyState, affordable: Sequence[Candidate]) -> Candidate | None:
    """The lightest candidate of one step, until one has failed: where weights outweigh activations it needs least."""
    if not state.out_of_memory or any(r.candidate.accumulation_steps == 1 for r in state.out_of_memory):
        return None
    return min(
        (c for c in affordable if c.accumulation_steps == 1 and not state.broken(c)),
        key=lambda c: (c.micro_batch, bool(c.jit_compile), not c.recompute, c.precision == "float32"),
        default=None,
    )


def _fastest(state: PolicyState, promising: Sequence[tuple[Candidate, Prediction]]) -> Proposal | None:
    """The candidate with most expected improvement per second, if any is likely enough to bring some."""
    best = math.log(state.best_rate)

    def score(pair: tuple[Candidate, Prediction]) -> float:
        candidate, predicted = pair
        chance = state.peaks.chance(candidate)
        seconds = state.cost.seconds(candidate) + (1 - chance) * OUT_OF_MEMORY_S
        return chance * predicted.expected_gain(best) / seconds if seconds > 0 else chance

    likely = [p for p in promising if p[1].chance_above(best + math.log1p(WORTHWHILE)) >= STOP_CHANCE]
    if not likely:
        return None
    candidate = max(likely, key=score)[0]
    if not state.measured(candidate):
        candidate = state.first_look([c for c, _ in promising if program(c) == program(candidate)])
    return Proposal(candidate=candidate, why=_expectation(state.throughput.predict(candidate)))


def _kept_out(state: PolicyState, affordable: Sequence[Candidate]) -> list[tuple[Candidate, float]]:
    """What only doubtful memory keeps from being run, each with the chance that it would be worthwhile."""
    worthwhile = math.log(state.best_rate) + math.log1p(WORTHWHILE)
    unsure = [c for c in affordable if state.peaks.fits(c) is Fit.UNSURE and state.worth_a_look(c)]
    return [(c, state.throughput.predict(c).chance_above(worthwhile)) for c in unsure]


def _second_size(state: PolicyState, affordable: Sequence[Candidate]) -> Proposal | None:
    """Another size of a program whose larger ones may well win: one size does not say whether those fit.

    Where weights outweigh activations (``mlp``: 47 MiB at 64 samples and at 342) everything fits; nothing else tells.
    """
    running = {program(c) for c in state.pending}
    for candidate, chance in _kept_out(state, affordable):
        known = state.measured(candidate) and program(candidate) not in running
        if chance < A_QUARTER or not known or state.peaks.has_line(candidate):
            continue
        others = [c for c in affordable if program(c) == program(candidate) and state.peaks.would_make_line(c)]
        safe = [c for c in others if state.peaks.chance(c) >= SURE_ENOUGH]
        if safe:
            return Proposal(
                candidate=max(safe, key=lambda c: c.micro_batch), why="how memory grows with the micro-batch"
            )
    return None


def _edge(state: PolicyState, affordable: Sequence[Candidate]) -> Proposal | None:
    """What may well fit and win: the last thing that is worth an out-of-memory error.

    The same chance as for every other trial, now of both. Once a trial has run out of memory, only a known program is
    tried, where it rather fits than not, until a second one has. One worker at a time gambles.
    """
    if len(state.out_of_memory) > 1 or any(state.peaks.chance(c) < SURE_ENOUGH for c in state.pending):
        return None
    likely = [
        (state.peaks.chance(candidate) * chance, candidate)
        for candidate, chance in _kept_out(state, affordable)
        if not state.out_of_memory or (state.measured(candidate) and state.peaks.chance(candidate) >= RATHER)
    ]
    chance, candidate = max(likely, key=lambda pair: pair[0], default=(0.0, None))
    if candidate is None or chance < STOP_CHANCE:
        return None
    return Proposal(candidate=candidate, why=f"may fit, {_expectation(state.throughput.predict(candidate))}")


def _cheapest(
    state: PolicyState, promising: Sequence[tuple[Candidate, Prediction]], memory_share: float
) -> Proposal | None:
    """The candidate most likely to lower the peak while it keeps enough of the best throughput."""
    floor = math.log(memory_share * state.best_rate)
    peaks = [r.peak_bytes for r in state.usable if r.peak_bytes and math.log(r.samples_per_s or 1e-9) >= floor]
    if not peaks:
        return None
    now = min(peaks)

    def score(pair: tuple[Candidate, Prediction]) -> float:
        candidate, predicted = pair
        expected = state.peaks.predict(candidate)
        saving = 1 - expected.expected / now if expected else 0.0
        return predicted.chance_above(floor) * saving / max(state.cost.seconds(candidate), 1e-9)

    likely = [p for p in promising if p[1].chance_above(floor) >= STOP_CHANCE and _saves(state, p[0], now)]
    if not likely:
        return None
    candidate, predicted = max(likely, key=score)
    return Proposal(candidate=candidate, why=f"less memory, {_expectation(predicted)}")


def _saves(state: PolicyState, candidate: Candidate, now: float) -> bool:
    predicted = state.peaks.predict(candidate)
    return predicted is not None and predicted.expected < (1 - WORTHWHILE) * now


def _front(state: PolicyState, promising: Sequence[tuple[Candidate, Prediction]]) -> Open | None:
    """Candidates that may extend the memory/throughput front: one standard deviation of luck would put them on it."""
    known = [(r.peak_bytes, math.log(r.samples_per_s)) for r in state.usable if r.peak_bytes and r.samples_per_s]

    def extends(candidate: Candidate, predicted: Prediction) -> bool:
        peak = state.peaks.predict(candidate)
        hoped = predicted.mean + predicted.sd - math.log1p(WORTHWHILE)
        return peak is not None and not any(p <= peak.expected and rate >= hoped for p, rate in known)

    found = tuple(c for c, predicted in promising if extends(c, predicted))
    return Open(candidates=found, why="may extend the memory/throughput front") if found else None


def _expectation(predicted: Prediction) -> str:
    return f"expected {format_rate(math.exp(predicted.mean))} samples/s, give or take {100 * predicted.sd:.0f} %"


def _nothing_left(state: PolicyState, objective: Objective) -> Stop:
    what = {
        "throughput": "improve the throughput by more than 1 %",
        "memory": "lower the peak by more than 1 % at enough throughput",
        "pareto": "extend the memory/throughput front",
    }[objective]
    too_large = sum(state.peaks.fits(c) is Fit.NO for c in state.remaining)
    left_out = f"; {too_large} of them are predicted not to fit" if too_large else ""
    return Stop(reason=f"none of the {len(state.remaining)} candidates left is likely to {what}{left_out}")


def _nothing_completed(state: PolicyState) -> str:
    if len(state.out_of_memory) == len(state.records):
        return "nothing fits: even the smallest micro-batches ran out of memory"
    return f"no candidate completed: {len(state.failed)} of {len(state.records)} trials failed, not for lack of memory"
