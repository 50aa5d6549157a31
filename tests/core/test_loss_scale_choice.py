"""The pure part of the loss scale: the search for it, what underflows, what is warned of."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.core.loss_scale_choice import (
    HIGHEST_POWER,
    LOWEST_POWER,
    ScaleRow,
    Signs,
    initial_scale,
    largest_finite_power,
    underflow_share,
    warn,
)

FINE = Signs(finite_at_one=True)


@pytest.mark.parametrize("largest", [LOWEST_POWER, -1, 0, 5, 19, 32, HIGHEST_POWER])
def test_the_largest_finite_power_in_a_handful_of_probes(largest):
    probed = []

    def finite(power):
        probed.append(power)
        return power <= largest

    assert largest_finite_power(finite) == largest
    assert len(probed) <= 6
    assert len(set(probed)) == len(probed)


def test_nothing_is_finite():
    assert largest_finite_power(lambda power: False) is None
    assert initial_scale(None) == 2.0**LOWEST_POWER


def test_headroom():
    assert initial_scale(19) == 2.0**16
    assert initial_scale(2) == 0.5
    assert initial_scale(LOWEST_POWER) == 2.0**LOWEST_POWER


def test_underflow_is_what_numpy_rounds_to_zero():
    """At every smaller scale, the exponents alone must say how many float16 values become zero."""
    rng = np.random.default_rng(0)
    drawn = np.exp(rng.normal(-8, 5, size=20_000)) * rng.choice([-1, 1], size=20_000)
    measured = drawn[np.abs(drawn) < 65504].astype(np.float16)
    measured = measured[measured != 0]
    exponents = np.floor(np.log2(np.abs(measured.astype(np.float64)))).astype(int)
    counts = {int(e): int(n) for e, n in zip(*np.unique(exponents, return_counts=True), strict=True)}
    ties = np.abs(measured.astype(np.float64))
    for bits in range(0, 40, 3):
        scaled = measured.astype(np.float64) * 2.0**-bits
        zeros = (scaled.astype(np.float16) == 0) & (ties * 2.0**-bits != 2.0**-25)  # exact ties go to the even zero
        assert underflow_share(counts, bits) == pytest.approx(zeros.mean(), abs=2e-3)
    assert underflow_share(counts, -3) == 0.0
    assert underflow_share({}, 3) is None


def rows(chosen=2.0**5, final=2.0**5, skipped_by_default=0):
    return (
        ScaleRow(scale=chosen, role="chosen", updates=60, updates_skipped=0, first_applied=1, final_scale=final),
        ScaleRow(scale=2.0**15, role="default", updates=60, updates_skipped=skipped_by_default),
    )


def test_a_healthy_workload_is_not_warned_of():
    assert warn(FINE, rows(2.0**20, 2.0**20), 23) == ()
    assert warn(FINE, rows(), 8) == ()  # below the default, which wastes nothing all the same


@pytest.mark.parametrize(
    ("signs", "said"),
    [
        (Signs(finite_at_one=False), "not finite even at loss scale 1"),
        (Signs(finite_at_one=False, loss_finite=False), "the forward pass overflows, which no loss scale helps"),
        (Signs(finite_at_one=False, state_finite=False), "BatchNorm's running statistics not finite"),
        (Signs(finite_at_one=True, growth=2.0), "doubles when its batch doubles"),
        (Signs(finite_at_one=True, growth=0.5), "halves when its batch doubles"),
    ],
)
def test_what_no_scale_helps(signs, said):
    assert any(said in sentence for sentence in warn(signs, rows(), 20 if signs.finite_at_one else -3))


def test_a_summed_loss_and_a_collapse():
    assert "wastes 13 of the first 60 updates; a loss that is summed" in warn(FINE, rows(skipped_by_default=13), 8)[0]
    assert "collapsed from 32 to 2 within 60 updates" in warn(FINE, rows(final=2.0), 30)[0]
    assert warn(FINE, rows(final=4.0), 30) == ()
