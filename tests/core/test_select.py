"""The front, the ranking with its ties, and the verdict's honest variants."""

from __future__ import annotations

from autotune.core.outcome import State
from autotune.core.pareto import knee, pareto_front
from autotune.core.select import select, verdict
from tests.sample_studies import MIB, completed, failed


def numbers(ranked):
    return [r.record.number for r in ranked]


def test_front_holds_what_nothing_beats():
    records = [
        completed(0, 256, 4000.0, 400 * MIB),
        completed(1, 128, 5000.0, 200 * MIB),
        completed(2, 64, 4500.0, 100 * MIB),
        completed(3, 32, 4500.0, 100 * MIB),  # equal to 2: the earlier stays
        completed(4, 16, 3000.0, 150 * MIB),
        completed(5, 8, 9000.0, None),  # no peak: cannot be placed
        failed(6, 4, State.CRASHED, "signal 9"),
    ]
    assert pareto_front(records) == (2, 1)
    assert pareto_front(records, 150 * MIB) == (2,)
    assert pareto_front([]) == ()


def test_knee_is_the_bend_of_the_front():
    # Half the memory for 2 % of the speed, then a fall.
    records = [
        completed(0, 256, 5000.0, 400 * MIB),
        completed(1, 128, 4900.0, 200 * MIB),
        completed(2, 64, 3000.0, 150 * MIB),
        completed(3, 32, 1500.0, 100 * MIB),
    ]
    assert knee(records) == 1
    assert knee(records[:2]) == 0
    assert knee([]) is None
    assert numbers(select(records, "pareto"))[0] == 1


def test_faster_comes_first_and_ties_go_to_the_cheaper():
    records = [
        completed(0, 256, 5000.0, 400 * MIB),
        completed(1, 64, 4975.0, 100 * MIB),  # half a percent slower at a quarter of the memory: a tie
        completed(2, 32, 4700.0, 50 * MIB),  # 6 % slower: no tie
    ]
    ranked = select(records)
    assert numbers(ranked) == [1, 0, 2]
    assert [r.tie for r in ranked] == [0, 0, 1]


def test_overlap_widens_a_tie_but_not_without_bound():
    wide = {"spread": 0.05}
    close = [completed(0, 256, 5000.0, 400 * MIB, **wide), completed(1, 64, 4935.0, 100 * MIB, **wide)]
    assert numbers(select(close)) == [1, 0]
    sharp = [completed(0, 256, 5000.0, 400 * MIB, spread=0.001), completed(1, 64, 4935.0, 100 * MIB, spread=0.001)]
    assert numbers(select(sharp)) == [0, 1]
    far = [completed(0, 256, 5000.0, 400 * MIB, **wide), completed(1, 64, 4850.0, 100 * MIB, **wide)]
    assert numbers(select(far)) == [0, 1]


def test_over_the_limit_is_never_chosen():
    records = [completed(0, 256, 5000.0, 400 * MIB), completed(1, 64, 1000.0, 100 * MIB)]
    assert numbers(select(records, memory_limit_bytes=200 * MIB)) == [1]
    assert select(records, memory_limit_bytes=50 * MIB) == ()


def test_memory_objective_keeps_a_share_of_the_best():
    records = [
        completed(0, 256, 5000.0, 400 * MIB),
        completed(1, 64, 4800.0, 100 * MIB),
        completed(2, 32, 4700.0, 50 * MIB),
        completed(3, 16, 1000.0, 20 * MIB),
    ]
    assert numbers(select(records, "memory"))[0] == 1
    assert numbers(select(records, "memory", memory_share=0.9))[:3] == [2, 1, 0]


def test_a_missing_peak_loses_ties():
    records = [completed(0, 256, 5000.0, None), completed(1, 64, 4990.0, 100 * MIB)]
    assert numbers(select(records)) == [1, 0]


def test_verdict_compares_with_the_plain_full_batch():
    full = completed(0, 256, 4000.0, 180 * MIB)
    jitted = completed(1, 256, 4100.0, 170 * MIB, jit_compile=True)
    best = completed(2, 64, 5240.0, 76 * MIB, jit_compile=True)
    assert verdict(best, [jitted, full, best]) == (
        "micro-batch 64 x 4 accumulation steps, fused, jitted: "
        "1.31x the throughput of one full batch at 42 % of its peak memory"
    )
    no_peak = completed(3, 64, 5240.0, None)
    assert verdict(no_peak, [full, no_peak]).endswith("1.31x the throughput of one full batch")


def test_verdict_is_honest_where_there_is_nothing_to_compare_with():
    best = completed(2, 64, 5240.0, 76 * MIB)
    small = completed(1, 32, 5000.0, 40 * MIB)
    dead = failed(0, 256, State.OUT_OF_MEMORY, "needs more")
    assert "5,240 samples/s at a peak of 76.0 MiB; one full batch does not fit in memory" in verdict(best, [dead, best])
    crashed = failed(0, 256, State.CRASHED, "signal 11")
    assert verdict(best, [crashed, best]).endswith("one full batch did not complete (crashed)")
    assert verdict(best, [best]).endswith("one full batch was not run")
    predicted = verdict(best, [small, best], memory_limit_bytes=200 * MIB)
    assert "one full batch was not run: it is expected to need about 29" in predicted
    assert predicted.endswith("of the 200 MiB allowed")
    guessed = verdict(best, [best], memory_limit_bytes=200 * MIB)  # from one size: a range
    assert "it is expected to need about 72.2 MiB to 319 MiB of the 200 MiB allowed" in guessed


def test_verdict_says_so_where_the_full_batch_wins():
    full = completed(0, 256, 6000.0, 180 * MIB)
    other = completed(1, 64, 5000.0, 60 * MIB)
    sentence = verdict(full, [full, other])
    assert "one plain full batch was the best of 2 measured candidates" in sentence
