"""What confirmation runs have shown, and which of two candidates they leave as the winner."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from autotune.core.outcome import Throughput
from autotune.core.select import ties
from autotune.core.trial import TrialRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmed:
    """A trial that was run again, in fresh processes.

    Attributes:
        record: the trial.
        throughput: pooled over its confirmation runs.
    """

    record: TrialRecord
    throughput: Throughput

    def as_record(self) -> TrialRecord:
        """Returns the trial with the confirmed throughput in place of its own, for comparing."""
        return replace(self.record, outcome=replace(self.record.outcome, throughput=self.throughput))


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """What confirmation came to.

    Attributes:
        contenders: the best candidate and, where there is one, its runner-up; empty where every candidate failed.
        reference: one plain full batch, run in between, where it is not a contender.
        remarks: sentences about candidates that failed.
    """

    contenders: tuple[Confirmed, ...] = ()
    reference: Confirmed | None = None
    remarks: tuple[str, ...] = ()

    def put_into(self, records: Iterable[TrialRecord]) -> list[TrialRecord]:
        """Returns ``records``, each with its confirmed throughput where it has one: like is compared with like."""
        everyone = (*self.contenders, *((self.reference,) if self.reference else ()))
        again = {c.record.number: c.as_record() for c in everyone}
        return [again.get(r.number, r) for r in records]


def pool(rounds: Sequence[Throughput]) -> Throughput:
    """Pools runs of one candidate: the mean of their medians, within the widest interval any of them saw.

    The spread between fresh processes is larger than the one inside a process, so intervals are joined, not narrowed.

    Args:
        rounds: at least one.
    """
    rate = sum(r.samples_per_s for r in rounds) / len(rounds)
    waits = [r.input_wait_share for r in rounds if r.input_wait_share is not None]
    return Throughput(
        samples_per_s=rate,
        samples_per_s_low=min(r.samples_per_s_low for r in rounds),
        samples_per_s_high=max(r.samples_per_s_high for r in rounds),
        update_s=sum(r.update_s for r in rounds) / len(rounds),
        updates_measured=sum(r.updates_measured for r in rounds),
        updates_skipped=sum(r.updates_skipped for r in rounds),
        input_wait_share=sum(waits) / len(waits) if waits else None,
        steady=all(r.steady for r in rounds),
    )


def winner(confirmed: Sequence[Confirmed]) -> tuple[Confirmed, str | None]:
    """Returns the winner of confirmed candidates and, where the first two tie, a sentence that says so.

    Args:
        confirmed: the search's choice and, where there is one, its runner-up.
    """
    if len(confirmed) == 1:
        return confirmed[0], None
    first, second = confirmed[:2]
    if ties(first.as_record(), second.as_record()):
        light, heavy = sorted((first, second), key=lambda c: (_peak(c), c is not first))
        return light, (
            f"trials {light.record.number} and {heavy.record.number} tie in throughput "
            f"({light.throughput.samples_per_s:,.0f} and {heavy.throughput.samples_per_s:,.0f} samples/s confirmed); "
            f"trial {light.record.number} was chosen" + (" for its lower peak" if _peak(light) < _peak(heavy) else "")
        )
    return max(first, second, key=lambda c: c.throughput.samples_per_s), None


def _peak(confirmed: Confirmed) -> float:
    return confirmed.record.peak_bytes if confirmed.record.peak_bytes is not None else float("inf")
