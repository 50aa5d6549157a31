"""The throughput model: certain where it was measured, open where it was not, unbent by outliers."""

from __future__ import annotations

import math

import pytest

from autotune.core.candidate import Candidate
from autotune.core.throughput_model import Observation, Prediction, ThroughputModel


def candidate(micro, **changes):
    return Candidate(**({"global_batch": 256, "micro_batch": micro} | changes))


def seen(micro, rate, **changes):
    return Observation(candidate=candidate(micro, **changes), samples_per_s=rate, noise=0.005)


def test_it_reproduces_what_was_measured():
    observations = [seen(64, 1000.0), seen(16, 800.0), seen(64, 1200.0, jit_compile=True)]
    model = ThroughputModel(observations)
    for o in observations:
        predicted = model.predict(o.candidate)
        assert math.exp(predicted.mean) == pytest.approx(o.samples_per_s, rel=0.02)
        assert predicted.sd < 0.02


def test_uncertainty_grows_with_what_differs():
    model = ThroughputModel([seen(64, 1000.0), seen(32, 950.0)])
    near, far = model.predict(candidate(52)).sd, model.predict(candidate(4)).sd
    other = model.predict(candidate(52, execution="stepped")).sd
    strange = model.predict(candidate(52, execution="stepped", jit_compile=True, precision="mixed_float16")).sd
    assert near < far < strange
    assert near < other < strange


def test_overhead_is_learned_from_two_sizes():
    # 10 microseconds of overhead and 1 per sample: the half-size is 10.
    observations = [seen(m, 1e6 * m / (10 + m)) for m in (8, 32)]
    model = ThroughputModel(observations)
    assert model.half_size in (8.0, 16.0)
    assert math.exp(model.predict(candidate(256)).mean) == pytest.approx(1e6 * 256 / 266, rel=0.12)
    flat = ThroughputModel([seen(8, 1000.0), seen(32, 1000.0), seen(128, 1000.0)])
    assert flat.half_size <= 1


def test_one_terrible_program_does_not_condemn_the_others():
    good = [seen(64, 1000.0), seen(256, 1050.0), seen(64, 980.0, execution="stepped")]
    terrible = seen(64, 70.0, jit_compile=True)  # 14 times slower: a loop that the compiler cannot cope with
    model = ThroughputModel([*good, terrible])
    assert math.exp(model.predict(candidate(64)).mean) == pytest.approx(1000, rel=0.03)
    stepped = model.predict(candidate(64, execution="stepped", jit_compile=True))
    assert stepped.chance_above(math.log(1060)) > 0.1


def test_pending_neighbours_are_no_news():
    observations = [seen(64, 1000.0), seen(16, 800.0)]
    alone = ThroughputModel(observations).predict(candidate(128))
    beside = ThroughputModel(observations, [candidate(128)]).predict(candidate(128))
    assert beside.mean == pytest.approx(alone.mean, abs=1e-6)
    assert beside.sd < alone.sd / 2


def test_gain_and_chance():
    sure = Prediction(mean=math.log(1100), sd=1e-4)
    assert sure.expected_gain(math.log(1000)) == pytest.approx(math.log(1.1), rel=1e-3)
    assert sure.chance_above(math.log(1000)) == pytest.approx(1)
    even = Prediction(mean=math.log(1000), sd=0.1)
    assert even.chance_above(math.log(1000)) == pytest.approx(0.5)
    assert even.expected_gain(math.log(1000)) == pytest.approx(0.1 / math.sqrt(2 * math.pi), rel=1e-6)
    hopeless = Prediction(mean=math.log(500), sd=0.01)
    assert hopeless.expected_gain(math.log(1000)) == pytest.approx(0, abs=1e-12)
