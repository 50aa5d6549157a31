"""Which of two confirmed candidates wins, and what pooling does to intervals."""

import pytest

from autotune.core.candidate import Candidate
from autotune.core.confirmation import Confirmation, Confirmed, pool, winner
from autotune.core.outcome import Memory, Outcome, State, Throughput
from autotune.core.trial import TrialRecord


def throughput(rate, half=1.0, **fields):
    fields = {"updates_measured": 10, "updates_skipped": 0, **fields}
    low, high = rate - half, rate + half
    return Throughput(samples_per_s=rate, samples_per_s_low=low, samples_per_s_high=high, update_s=256 / rate, **fields)


def confirmed(number, rate, peak, searched=None):
    record = TrialRecord(
        number=number,
        candidate=Candidate(global_batch=256, micro_batch=2**number),
        outcome=Outcome(state=State.COMPLETED, throughput=throughput(searched or rate), memory=Memory(peak_bytes=peak)),
        started_unix=0.0,
        wall_s=1.0,
    )
    return Confirmed(record=record, throughput=throughput(rate))


def test_pooling_keeps_the_widest_interval_and_adds_the_updates():
    pooled = pool([throughput(100, 1, input_wait_share=0.2), throughput(110, 2, input_wait_share=0.4, steady=False)])
    assert pooled.samples_per_s == 105
    assert (pooled.samples_per_s_low, pooled.samples_per_s_high) == (99, 112)
    assert pooled.updates_measured == 20
    assert pooled.input_wait_share == pytest.approx(0.3)
    assert not pooled.steady


def test_the_faster_one_wins_whatever_the_search_had_measured():
    chosen, tie = winner([confirmed(3, 100, 50, searched=300), confirmed(4, 150, 90, searched=200)])
    assert chosen.record.number == 4
    assert tie is None


def test_a_tie_goes_to_the_lower_peak_and_is_named():
    chosen, tie = winner([confirmed(3, 100.5, 90), confirmed(4, 100, 50)])
    assert chosen.record.number == 4
    assert "trials 4 and 3 tie" in tie
    assert "lower peak" in tie


def test_a_tie_without_a_measured_peak_keeps_the_first():
    chosen, tie = winner([confirmed(3, 100, None), confirmed(4, 100, None)])
    assert chosen.record.number == 3
    assert "lower peak" not in tie


def test_one_contender_wins():
    assert winner([confirmed(3, 100, 50)])[1] is None


def test_confirmed_figures_stand_in_for_the_searched_ones():
    one, two, reference = confirmed(3, 100, 50, searched=300), confirmed(4, 90, 50), confirmed(5, 80, 99, searched=70)
    records = [one.record, two.record, reference.record, confirmed(6, 60, 10).record]
    found = Confirmation(contenders=(one, two), reference=reference).put_into(records)
    assert [r.samples_per_s for r in found] == [100, 90, 80, 60]
