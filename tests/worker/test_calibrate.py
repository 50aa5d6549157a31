"""The initial loss scale, found on real float16 training: what it saves where the usual default wastes updates."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.core.candidate import Candidate
from autotune.core.outcome import State
from autotune.core.trial import Device, TrialSpec
from autotune.core.workload import WorkloadRef
from autotune.trial import TrialLauncher

FILE = Path(__file__).parent.parent / "fakes" / "loss_scale_ways.py"
CPU = Device(kind="cpu", name="test", memory_usable_bytes=4 << 30)


@pytest.fixture(scope="module")
def calibrate(tmp_path_factory):
    with TrialLauncher(tmp_path_factory.mktemp("study"), CPU) as launcher:

        def run(name, *, batch=64, micro=32):
            ref = WorkloadRef(path=str(FILE), attribute=name, display=f"{FILE.name}:{name}")
            launcher.inspect(ref, timeout_s=120)
            candidate = Candidate(global_batch=batch, micro_batch=micro, precision="mixed_float16")
            return launcher.calibrate(TrialSpec(number=0, workload=ref, candidate=candidate, device=CPU))

        yield run


@pytest.fixture(scope="module")
def summed(calibrate):
    return calibrate("summed").calibration


def row(calibration, role):
    return next(r for r in calibration.rows if r.role == role)


def test_a_summed_loss_wastes_at_most_one_update_where_the_default_wastes_many(summed):
    assert row(summed, "chosen").updates == row(summed, "default").updates == 60
    assert row(summed, "chosen").updates_skipped <= 1
    assert row(summed, "default").updates_skipped >= 10
    assert summed.scale == summed.largest_finite / 8
    assert any("summed" in sentence for sentence in summed.warnings)
    assert row(summed, "default").first_applied > 10
    assert row(summed, "default").final_scale < 2.0**15


def test_an_averaged_loss_wastes_at_most_one_update_and_is_not_warned_of(calibrate):
    found = calibrate("averaged").calibration
    assert found.largest_finite >= 2.0**10
    assert row(found, "chosen").updates_skipped <= 1
    assert found.backward_passes <= 28  # 4 batches, 6 or 7 scales
    assert row(found, "chosen").underflow_share <= row(found, "none").underflow_share
    assert found.warnings == ()


def test_the_scale_does_not_depend_on_the_micro_batch(calibrate, summed):
    small = calibrate("summed", micro=8).calibration
    assert summed.scale / 4 <= small.scale <= summed.scale * 4


def test_a_tiny_loss_needs_a_scale_far_above_the_default(calibrate):
    found = calibrate("tiny").calibration
    assert found.scale > 2.0**20
    assert row(found, "chosen").updates_skipped <= 1
    assert row(found, "none").underflow_share > 0.9
    assert row(found, "none").underflow_share > row(found, "default").underflow_share
    assert row(found, "chosen").underflow_share < 0.1


def test_weights_and_a_loss_that_depends_on_its_batch(calibrate):
    found = calibrate("by_batch").calibration
    assert row(found, "chosen").updates_skipped <= 1
    assert any("doubles when its batch doubles" in sentence for sentence in found.warnings)


def test_an_overflow_in_the_forward_pass(calibrate):
    found = calibrate("overflowing").calibration
    assert found.largest_finite is None
    assert row(found, "chosen").first_applied is None
    assert any("the forward pass overflows" in sentence for sentence in found.warnings)
    assert any("BatchNorm's running statistics" in sentence for sentence in found.warnings)


def test_what_goes_wrong_is_a_failure_not_an_exception(calibrate):
    failure = calibrate("broken").failure
    assert failure.state is State.CRASHED
    assert "no loss today" in failure.reason
