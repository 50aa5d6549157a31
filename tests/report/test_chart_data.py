"""The values behind the charts."""

import itertools
from dataclasses import replace

import pytest

from autotune.core.outcome import Memory, Outcome, State
from autotune.core.study import Study
from autotune.report.chart_data import loss_scales, peak_lines, scaling, throughput_lines, timeline, trade_off
from tests.sample_studies import MIB, completed, empty_study, failed, job, record, rich_study


def study_of(*records, **changes) -> Study:
    return Study(name="s", job=job(**changes), records=records)


def test_trade_off():
    data = trade_off(rich_study())
    assert [(p.trial, p.role) for p in data.points] == [
        (0, "other"), (1, "chosen"), (2, "front"), (3, "front"), (9, "other"), (11, "other")
    ]  # fmt: skip
    assert data.front == ((40 * MIB, 3100.0), (76 * MIB + 1, 5240.5), (76 * MIB + 1, 5240.5))
    assert data.unplaced == 1 and data.limit_bytes == 200 * MIB
    assert data.failed == {"out_of_memory": 1, "non_finite": 1, "crashed": 1, "timed_out": 1, "invalid": 1}


def test_a_peak_above_the_limit_is_shown_as_such():
    """A loop without TensorFlow is judged after it ran: it has both figures and did not fit."""
    ran = completed(0, 64, 100.0, 300 * MIB)
    over = record(
        0,
        64,
        Outcome(state=State.OUT_OF_MEMORY, throughput=ran.outcome.throughput, memory=Memory(peak_bytes=300 * MIB)),
    )
    assert [p.role for p in trade_off(study_of(over)).points] == ["over limit"]


def test_scaling_leaves_failures_out():
    points = scaling(rich_study())
    assert [p.trial for p in points] == [0, 1, 2, 3, 9, 10, 11]
    assert points[1].program == "float32 fused jit" and points[-2].peak_bytes is None


def test_line_needs_three_sizes_and_is_exact_on_a_line():
    two = study_of(completed(0, 64, 1.0, 100 * MIB), completed(1, 128, 1.0, 150 * MIB))
    assert peak_lines(two) == ()
    records = [completed(i, size, 1.0, (50 + size) * MIB) for i, size in enumerate((16, 64, 256))]
    (line,) = peak_lines(study_of(*records, completed(3, 64, 1.0, 10 * MIB, jit_compile=True)))
    assert line.program == "float32 fused" and (line.points[0][0], line.points[-1][0]) == (16, pytest.approx(256))
    for size, peak in line.points:
        assert peak == pytest.approx((50 + size) * MIB, rel=1e-6)


def test_throughput_fit_recovers_a_fixed_time_per_micro_batch():
    def rate(size: float) -> float:
        return 256 / (0.5 + 0.01 * 256 / size)

    records = [completed(i, size, rate(size), MIB) for i, size in enumerate((8, 32, 128, 256))]
    (line,) = throughput_lines(study_of(*records))
    for size, value in line.points:
        assert value == pytest.approx(rate(size), rel=1e-6)
    assert throughput_lines(study_of(*records[:2])) == ()


def test_loss_scales():
    points = loss_scales(rich_study())
    assert [(p.trial, p.initial_loss_scale, p.updates_skipped) for p in points] == [(9, 2.0**15, 3), (10, 2.0**10, 0)]
    assert points[0].skipped_share == 3 / 24 and points[0].final_loss_scale == 2.0**13


def test_timeline_accounts_for_the_whole_time_of_each_trial():
    study = rich_study()
    bars = timeline(study).bars
    for r in study.records:
        own = [bar for bar in bars if bar.trial == r.number]
        assert own[0].start_s == pytest.approx(10 * r.number)
        assert own[-1].end_s - own[0].start_s == pytest.approx(r.wall_s)
        assert all(a.end_s == b.start_s for a, b in itertools.pairwise(own))
    assert [bar.phase for bar in bars if bar.trial == 4] == ["fork", "build", "other"]


def test_a_pause_is_cut_out_and_marked():
    first, later = completed(0, 64, 1.0, 1, wall_s=8.0), completed(1, 64, 1.0, 1, wall_s=8.0)
    later = replace(later, started_unix=first.started_unix + 86_400)
    data = timeline(study_of(first, later))
    assert data.pauses == (10.5,)
    assert next(bar.start_s for bar in data.bars if bar.trial == 1) == pytest.approx(13.0)


def test_phases_longer_than_the_trial_leave_no_negative_rest():
    bars = timeline(study_of(failed(0, 8, State.CRASHED, None, wall_s=0.1))).bars
    assert [bar.phase for bar in bars] == ["fork", "build"] and all(bar.end_s > bar.start_s for bar in bars)


def test_an_empty_study_has_nothing_to_draw():
    assert trade_off(empty_study()).points == () and timeline(empty_study()).bars == ()
