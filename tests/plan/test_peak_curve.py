"""Forecast peaks: strict bounds on exact curves, and how far off they are on measured ones."""

import math
import statistics
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.candidate import Candidate
from autotune.core.plan.parts import Parts
from autotune.core.plan.peak_curve import FLOOR, PeakCurve
from autotune.core.plan.peaks import PeakModel, PeakPoint, program_of

MEASURED = tomllib.loads((Path(__file__).parent / "data" / "measured_peaks.toml").read_text())["curve"]

lines = st.lists(st.tuples(st.integers(50, 500), st.floats(0, 20)), min_size=1, max_size=3)


def exact(moments):
    """The peak of an update whose moments hold a + b x micro-batch."""
    return lambda m: max(a + b * m for a, b in moments)


@given(lines, st.integers(3, 255))
def test_between_measured_sizes_an_exact_curve_keeps_within_the_range(moments, micro):
    peak = exact(moments)
    curve = PeakCurve([(m, peak(m)) for m in (2, 8, 32, 128, 256)])
    found = curve.at(micro).bytes
    assert found.low <= peak(micro) * (1 + 1e-9)
    assert peak(micro) <= found.high * 1.02


@given(lines, st.integers(257, 1024))
def test_beyond_them_it_grows_at_least_like_the_last_segment_and_at_most_in_proportion(moments, micro):
    peak = exact(moments)
    curve = PeakCurve([(m, peak(m)) for m in (32, 64, 128, 256)])
    found = curve.at(micro)
    assert found.bytes.low <= peak(micro) * (1 + 1e-9)
    assert found.bytes.high <= 1.2 * peak(256) * micro / 256 * 1.1
    assert found.octaves_beyond == pytest.approx(math.log2(micro / 256))


def test_a_straight_line_is_forecast_exactly_however_far():
    curve = PeakCurve([(m, 100 + 3 * m) for m in (8, 16, 32, 64)])
    for micro in (4, 12, 48, 128, 256):
        assert curve.at(micro).bytes.expected == pytest.approx(100 + 3 * micro, rel=0.05)
    assert curve.intercept == pytest.approx(100)


def test_what_was_measured_is_returned_as_measured():
    found = PeakCurve([(8, 100.0), (32, 200.0)]).at(32)
    assert found.basis == "measured" and found.bytes.low == found.bytes.expected == found.bytes.high == 200


def test_known_static_bytes_narrow_what_lies_beyond_a_plateau():
    points = [(m, 1000.0) for m in (8, 16, 32, 64)]
    loose, tight = PeakCurve(points).at(256).bytes, PeakCurve(points, static_bytes=950).at(256).bytes
    assert loose.high > 3900 and tight.high < 1250 and tight.low < 1000 < tight.high


def test_a_kink_in_the_last_segment_is_expected_to_go_on_steeper():
    peak = exact([(1000, 0), (20, 10)])  # the kink lies at 98
    curve = PeakCurve([(m, peak(m)) for m in (16, 32, 64, 128)], static_bytes=20)
    assert curve.at(512).bytes.expected == pytest.approx(peak(512), rel=0.15)
    chord = 1000 + (peak(128) - 1000) / 64 * (512 - 64)
    assert curve.at(512).bytes.expected > chord


def test_one_size_alone_bounds_and_does_not_pretend():
    found = PeakCurve([(64, 1000.0)], static_bytes=200).at(128).bytes
    assert found.low < 1000 < found.expected < 1800 < found.high * 1.05


def windows(sizes):
    """Every four sizes that double, with the unseen ones between them and up to four times beyond."""
    for start in sizes:
        fitted = [start * 2**i for i in range(4)]
        if all(size in sizes for size in fitted):
            unseen = [s for s in sizes if s not in fitted and fitted[0] < s <= 4 * fitted[-1]]
            yield fitted, unseen


def scored(*, beyond: bool):
    """(relative error, range held) of every forecast from four measured points; plateaus apart."""
    found = []
    for curve in MEASURED:
        peaks = {int(size): float(peak) for size, peak in curve["peaks"].items()}
        for fitted, unseen in windows(sorted(peaks)):
            fit = PeakCurve([(m, peaks[m]) for m in fitted], curve["static_bytes"])
            flat = peaks[fitted[-1]] < 1.04 * peaks[fitted[0]]
            for micro in unseen:
                if (micro > fitted[-1]) == beyond:
                    at = fit.at(micro).bytes
                    found.append((abs(at.expected / peaks[micro] - 1), at.holds(peaks[micro]), flat))
    return found


def test_errors_on_peaks_that_were_measured():
    between, beyond = scored(beyond=False), scored(beyond=True)
    assert len(between) > 60 and len(beyond) > 60
    assert statistics.median(e for e, _, _ in between) <= 0.02 and max(e for e, _, _ in between) <= 0.05
    # From a plateau nothing can be known of what it hides; everywhere else forecasts hold four times farther.
    sloped = [e for e, _, flat in beyond if not flat]
    assert statistics.median(sloped) <= 0.02 and max(sloped) <= 0.12
    held = [h for _, h, _ in between + beyond]
    assert 0.80 <= sum(held) / len(held) <= 0.98


def point(micro, peak, **changes):
    candidate = Candidate(**({"global_batch": 256, "micro_batch": micro} | changes))
    return PeakPoint(program=program_of(candidate), micro_batch=micro, peak_bytes=peak)


PARTS = Parts(weight_bytes=100, optimizer_bytes=200, gradient_bytes=100)


def test_one_step_has_no_accumulators():
    model = PeakModel([point(m, 1000.0 + m) for m in (8, 32, 128)], PARTS)
    found = model.predict(Candidate(global_batch=256, micro_batch=256)).bytes
    assert found.expected == pytest.approx(1156, rel=0.05) and found.low < 1156 < found.high


def test_a_program_with_one_size_borrows_from_its_relatives():
    points = [point(m, 1000.0 + 10 * m) for m in (8, 32, 128)] + [point(32, 1980.0, jit_compile=True)]
    model = PeakModel(points, PARTS)
    found = model.predict(Candidate(global_batch=256, micro_batch=128, jit_compile=True)).bytes
    assert found.low < 3420 < found.high and found.expected == pytest.approx(3420, rel=0.1)
    wide, narrow = found, model.predict(Candidate(global_batch=256, micro_batch=64)).bytes
    assert wide.high / wide.low > narrow.high / narrow.low > 1 + FLOOR


def test_unrolled_copies_are_not_forecast():
    model = PeakModel([point(m, 1000.0, execution="unrolled") for m in (8, 32)])
    assert model.predict(Candidate(global_batch=256, micro_batch=16, execution="unrolled")) is None
    assert model.predict(Candidate(global_batch=256, micro_batch=32, execution="unrolled")).basis == "measured"


def test_one_micro_batch_alone_is_refused_with_the_mend():
    with pytest.raises(ValueError, match="two micro-batches, and the study has micro-batch 32 alone: run"):
        PeakModel([point(32, 1000.0), point(32, 900.0, jit_compile=True)])
