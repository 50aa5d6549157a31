"""Peaks predicted from peaks: exact on lines, cautious beyond them, and never sure where it cannot be."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.core.candidate import Candidate
from autotune.core.memory_fit import Fit, PeakModel, PeakRange, fit_line
from autotune.core.outcome import State
from tests.sample_studies import MIB, completed, failed


def candidate(micro, **changes):
    return Candidate(**({"global_batch": 256, "micro_batch": micro} | changes))


@given(a=st.integers(1, 4000), b=st.integers(1, 400), sizes=st.lists(st.integers(1, 512), min_size=2, unique=True))
@settings(max_examples=100, deadline=None)
def test_a_line_is_found_again(a, b, sizes):
    line = fit_line([(m, MIB * (a + b * m)) for m in sizes])
    assert line.at(777) == pytest.approx(MIB * (a + b * 777), rel=1e-6)
    assert line.residual_share < 1e-6


def test_no_part_of_a_line_is_negative():
    steep = fit_line([(10, 10 * MIB), (20, 30 * MIB)])
    assert steep.intercept == 0
    assert steep.slope > 0
    falling = fit_line([(10, 30 * MIB), (20, 10 * MIB)])
    assert falling.slope == 0


def test_published_peaks_of_a_cnn_are_within_the_band():
    # Bytes measured on a real CNN at 16 to 128 samples; a fit on 16 to 64 is known to miss 128 by 6 %.
    peaks = {16: 48.36e6, 32: 76.14e6, 64: 132.24e6, 96: 196.10e6, 128: 260.57e6}
    known = [completed(i, m, 1000.0, int(p)) for i, (m, p) in enumerate(peaks.items()) if m <= 64]
    model = PeakModel(known, 10**9)
    for m in (96, 128):
        predicted = model.predict(candidate(m))
        assert predicted.low <= peaks[m] <= predicted.high
    assert PeakModel(known, 250_000_000).fits(candidate(128)) is not Fit.YES


def test_one_point_bounds_what_may_be():
    model = PeakModel([completed(0, 64, 1000.0, 100 * MIB)], 200 * MIB)
    larger = model.predict(candidate(256))
    assert larger.low <= 100 * MIB
    assert larger.high >= 400 * MIB
    assert model.fits(candidate(32)) is Fit.YES
    assert model.fits(candidate(256)) is Fit.UNSURE
    assert PeakModel([completed(0, 64, 1000.0, 100 * MIB)], 500 * MIB).fits(candidate(256)) is Fit.YES


def test_nothing_is_known_at_first():
    model = PeakModel([], 200 * MIB)
    assert model.predict(candidate(64)) is None
    assert model.fits(candidate(64)) is Fit.UNSURE
    assert model.chance(candidate(64)) == 0.5
    assert PeakModel([]).fits(candidate(64)) is Fit.YES


def test_out_of_memory_rules_out_as_much_or_more_of_the_same_program():
    records = [completed(0, 32, 1000.0, 60 * MIB), failed(1, 128, State.OUT_OF_MEMORY, "")]
    model = PeakModel(records, 200 * MIB)
    assert model.fits(candidate(128)) is Fit.NO
    assert model.fits(candidate(256)) is Fit.NO
    assert model.fits(candidate(86)) is not Fit.NO
    assert model.fits(candidate(128, jit_compile=True)) is not Fit.NO  # another program may need less
    assert model.fits(candidate(256, jit_compile=True)) is Fit.NO  # but not half of it
    assert model.chance(candidate(128)) == 0


def test_what_was_measured_outweighs_how_a_relative_failed():
    records = [completed(0, 64, 1000.0, 100 * MIB), failed(1, 64, State.OUT_OF_MEMORY, "", execution="stepped")]
    model = PeakModel(records, 120 * MIB)
    alone = PeakModel(records[:1], 120 * MIB)
    assert model.predict(candidate(128)) == alone.predict(candidate(128))
    assert model.fits(candidate(128)) is Fit.UNSURE
    # What was not measured is taken to need as much as its relative that failed.
    jitted = candidate(64, execution="stepped", jit_compile=True)
    failed_too = [*records, failed(2, 64, State.OUT_OF_MEMORY, "", jit_compile=True)]
    assert PeakModel(failed_too, 120 * MIB).predict(jitted).expected >= 1.05 * 120 * MIB


def test_a_borrowed_slope_is_trusted_nearby_and_not_far_away():
    """Seen with ``mlp``: from 64 samples straight to 896, because XLA's peak was flat from 32 to 64."""
    whole = {"global_batch": 1792}
    records = [
        completed(0, 64, 1000.0, 47 * MIB, **whole),
        completed(1, 64, 1000.0, 53 * MIB, jit_compile=True, **whole),
        completed(2, 32, 1000.0, 53 * MIB, jit_compile=True, **whole),
    ]
    model = PeakModel(records, 54 * MIB)
    assert model.predict(candidate(896, **whole)).expected == pytest.approx(47 * MIB, rel=0.01)
    assert model.chance(candidate(896, **whole)) < 0.85 < model.chance(candidate(128, **whole))


def test_a_failure_of_a_larger_global_batch_is_no_obstacle():
    records = [completed(0, 64, 1000.0, 100 * MIB), failed(1, 512, State.OUT_OF_MEMORY, "", global_batch=2048)]
    model = PeakModel(records, 300 * MIB)
    assert model.predict(candidate(128)).expected > 100 * MIB
    assert model.predict(candidate(128, execution="stepped")).expected > 100 * MIB


def test_unrolled_copies_may_save_memory_or_not():
    records = [completed(0, 64, 1000.0, 100 * MIB), completed(1, 32, 1000.0, 60 * MIB)]
    model = PeakModel(records, 200 * MIB)
    whole = model.predict(candidate(256)).expected
    assert whole == pytest.approx(340 * MIB, rel=0.01)
    unrolled = model.predict(candidate(64, execution="unrolled"))
    assert unrolled.low < 100 * MIB < 0.7 * whole < unrolled.expected < whole < unrolled.high
    # One measured size says more about the others than their micro-batch does, and nothing about loops.
    known = PeakModel([*records, completed(2, 64, 1000.0, 150 * MIB, execution="unrolled")], 200 * MIB)
    for micro in (16, 128):
        assert known.predict(candidate(micro, execution="unrolled")).expected == 150 * MIB
    assert known.predict(candidate(256)) == model.predict(candidate(256))
    jitted = known.predict(candidate(128, execution="fused", jit_compile=True))
    assert jitted.expected > 150 * MIB  # grows like the loop's line, not like the copies
    dead = PeakModel([*records, failed(2, 64, State.OUT_OF_MEMORY, "", execution="unrolled")], 400 * MIB)
    assert dead.fits(candidate(16, execution="unrolled")) is Fit.NO
    assert dead.fits(candidate(16, execution="stepped")) is Fit.YES


def test_a_line_that_contradicts_a_failure_is_lifted():
    records = [
        completed(0, 16, 1000.0, 60 * MIB),
        completed(1, 32, 1000.0, 80 * MIB),
        failed(2, 64, State.OUT_OF_MEMORY, ""),  # the line says 120
    ]
    lifted = PeakModel(records, 150 * MIB).predict(candidate(52)).expected
    plain = PeakModel(records[:2], 150 * MIB).predict(candidate(52)).expected
    assert lifted > plain


def test_other_programs_are_predicted_with_a_wide_band():
    records = [completed(0, 64, 1000.0, 100 * MIB), completed(1, 32, 1000.0, 60 * MIB)]
    model = PeakModel(records, 10**12)
    own, other = model.predict(candidate(64)), model.predict(candidate(64, precision="mixed_float16"))
    assert (other.high - other.low) > 3 * (own.high - own.low)


def test_chance_follows_the_band():
    band = PeakRange(low=90.0, expected=100.0, high=110.0)
    assert band.chance(100) == pytest.approx(0.5)
    assert band.chance(110) > 0.97
    assert band.chance(90) < 0.03
    assert band.chance(None) == 1
    assert (band.fits(111), band.fits(100), band.fits(89)) == (Fit.YES, Fit.UNSURE, Fit.NO)
