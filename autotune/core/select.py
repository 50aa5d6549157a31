"""Which trial to choose, and the choice in one sentence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from autotune.core.candidate import Candidate
from autotune.core.memory_fit import PeakModel
from autotune.core.outcome import State
from autotune.core.pareto import knee, usable
from autotune.core.study import Objective
from autotune.core.trial import TrialRecord
from autotune.core.units import format_bytes, format_rate

SURE_TIE = 0.01  # closer than this is a tie whatever the intervals say
WIDEST_TIE = 0.015  # farther than this is no tie, even where the intervals are wide and overlap
WIDE_FORECAST = 2.0  # a forecast whose ends differ by more than this factor is told as a range
MEMORY_SHARE = 0.95  # of the best throughput that objective "memory" keeps


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A usable trial and its place.

    Attributes:
        record: the trial.
        tie: trials with the same number are equal within what was measured; 0 holds the best.
    """

    record: TrialRecord
    tie: int


def select(
    records: Iterable[TrialRecord],
    objective: Objective = "throughput",
    *,
    memory_limit_bytes: int | None = None,
    memory_share: float = MEMORY_SHARE,
) -> tuple[Ranked, ...]:
    """Ranks the usable trials, best first.

    ``throughput``: by goodput; among trials that tie with the best of their group the one with the lower peak comes
    first. ``memory``: those that keep ``memory_share`` of the best goodput by peak, then the others by goodput.
    ``pareto``: the knee of the memory/throughput front, then the others by goodput.

    Args:
        records: any trials; those that did not complete within the limit are left out.
        objective: what the choice is best at.
        memory_limit_bytes: peaks above it are left out.
        memory_share: share of the best goodput that ``memory`` keeps, 0 to 1.
    """
    fit = sorted((r for r in records if usable(r, memory_limit_bytes)), key=lambda r: (-_rate(r), r.number))
    if not fit:
        return ()
    if objective == "memory":
        enough = [r for r in fit if _rate(r) >= memory_share * _rate(fit[0])]
        cheap_first = sorted(enough, key=lambda r: (_peak(r), -_rate(r), r.number))
        rest = _by_throughput([r for r in fit if r not in enough], first_tie=len(cheap_first))
        return (*(Ranked(record=r, tie=i) for i, r in enumerate(cheap_first)), *rest)
    if objective == "pareto":
        middle = next((r for r in fit if r.number == knee(fit)), fit[0])
        return Ranked(record=middle, tie=0), *_by_throughput([r for r in fit if r is not middle], first_tie=1)
    return _by_throughput(fit)


def ties(a: TrialRecord, b: TrialRecord) -> bool:
    """Returns True where two trials' throughputs cannot be told apart.

    They lie within 1 % of each other, or within 1.5 % with overlapping 95 % intervals.
    """
    fast, slow = (a, b) if _rate(a) >= _rate(b) else (b, a)
    gap = 1 - _rate(slow) / _rate(fast)
    assert fast.outcome.throughput is not None and slow.outcome.throughput is not None
    overlap = slow.outcome.throughput.samples_per_s_high >= fast.outcome.throughput.samples_per_s_low
    return gap <= SURE_TIE or (gap <= WIDEST_TIE and overlap)


def verdict(chosen: TrialRecord, records: Iterable[TrialRecord], *, memory_limit_bytes: int | None = None) -> str:
    """Returns the choice in one sentence, compared with one plain full batch where that was measured.

    Args:
        chosen: the chosen trial.
        records: all trials.
        memory_limit_bytes: the limit, to say why a full batch was not run.
    """
    everything = tuple(records)
    what = chosen.candidate.describe()
    reference = full_batch(everything, chosen.candidate.global_batch)
    if reference is not None and reference.number == chosen.number:
        others = sum(usable(r) for r in everything) - 1
        return f"{what}: one plain full batch was the best of {others + 1} measured candidates, {_figures(chosen)}"
    if reference is not None:
        ratio = _rate(chosen) / _rate(reference)
        sentence = f"{what}: {ratio:.2f}x the throughput of one full batch"
        if chosen.peak_bytes and reference.peak_bytes:
            sentence += f" at {100 * chosen.peak_bytes / reference.peak_bytes:.0f} % of its peak memory"
        return sentence
    return f"{what}: {_figures(chosen)}; {_why_no_reference(chosen.candidate, everything, memory_limit_bytes)}"


def _why_no_reference(chosen: Candidate, records: tuple[TrialRecord, ...], limit: int | None) -> str:
    failed = [r for r in records if r.candidate.accumulation_steps == 1 and not r.completed]
    if any(r.state is State.OUT_OF_MEMORY for r in failed):
        needed = next((r.peak_bytes for r in failed if r.peak_bytes), None)
        return "one full batch does not fit in memory" + (f" (it needs {format_bytes(needed)})" if needed else "")
    if failed:
        return f"one full batch did not complete ({failed[0].state})"
    plain = replace(
        chosen,
        micro_batch=chosen.global_batch // chosen.replicas,
        jit_compile=None if chosen.jit_compile is None else False,
        recompute=None if chosen.recompute is None else False,
    )
    expected = PeakModel(records, limit).predict(plain)
    if limit is not None and expected is not None and expected.expected > limit:
        low, high = expected.low, expected.high
        sure = high <= WIDE_FORECAST * low
        amount = format_bytes(expected.expected) if sure else f"{format_bytes(low)} to {format_bytes(high)}"
        return f"one full batch was not run: it is expected to need about {amount} of the {format_bytes(limit)} allowed"
    return "one full batch was not run"


def full_batch(records: Iterable[TrialRecord], global_batch: int | None = None) -> TrialRecord | None:
    """Returns the plainest completed trial without accumulation, the one that verdicts compare with, or None.

    Plainest: not jitted, not recomputed, float32, earliest; what someone has who does nothing about memory or speed.

    Args:
        records: any trials.
        global_batch: preferred where a study varies it; None for no preference.
    """
    full = [r for r in records if usable(r) and r.candidate.accumulation_steps == 1]
    same = [r for r in full if global_batch in (None, r.candidate.global_batch)]
    return min(same or full, key=_plainness, default=None)


def _plainness(record: TrialRecord) -> tuple[bool, bool, bool, int]:
    c = record.candidate
    return bool(c.jit_compile), bool(c.recompute), c.precision not in (None, "float32"), record.number


def _by_throughput(fastest_first: list[TrialRecord], first_tie: int = 0) -> tuple[Ranked, ...]:
    ranked: list[Ranked] = []
    rest = list(fastest_first)
    tie = first_tie
    while rest:
        group = [r for r in rest if ties(rest[0], r)]
        ranked += [Ranked(record=r, tie=tie) for r in sorted(group, key=lambda r: (_peak(r), -_rate(r), r.number))]
        rest = [r for r in rest if r not in group]
        tie += 1
    return tuple(ranked)


def _figures(record: TrialRecord) -> str:
    peak = f" at a peak of {format_bytes(record.peak_bytes)}" if record.peak_bytes else ""
    return f"{format_rate(record.samples_per_s)} samples/s{peak}"


def _rate(record: TrialRecord) -> float:
    return record.samples_per_s or 0.0


def _peak(record: TrialRecord) -> float:
    return record.peak_bytes if record.peak_bytes is not None else float("inf")
