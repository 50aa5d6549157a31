"""When a study calibrates its loss scale, and what it does where that fails. The passes themselves: tests/worker."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.core.loss_scale_choice import Calibration
from autotune.core.outcome import Outcome, State
from autotune.core.passes import CalibrationAnswer
from autotune.core.space import build_space
from autotune.core.workload import WorkloadRef
from autotune.loss_scale import calibrate
from tests.sample_studies import job as sample_job

REF = WorkloadRef(path="train.py", display="train.py")
FOUND = CalibrationAnswer(
    calibration=Calibration(scale=32.0, largest_finite=256.0, backward_passes=20, warnings=("w",))
)


def failed(state):
    return CalibrationAnswer(failure=Outcome(state=state, reason="no luck"))


class Scripted:
    """Stands in for the launcher: gives the answers in turn and remembers the micro-batches."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.sizes = []

    def calibrate(self, spec):
        self.sizes.append(spec.candidate.micro_batch)
        return self.answers.pop(0)


def job_and_space(precisions=("float32", "mixed_float16"), scales=(None,), kind="workload"):
    space = build_space(256, axes={"precision": precisions, "initial_loss_scale": scales})
    job = sample_job(axes=space.axes_text())
    return replace(job, workload=replace(job.workload, kind=kind)), space


def run(launcher, **options):
    stored = options.pop("stored", None)
    return calibrate(launcher, REF, *job_and_space(**options), lambda said: None, stored=stored)


def test_float16_candidates_start_from_what_was_found():
    result = run(Scripted(FOUND))
    scales = {(c.precision, c.initial_loss_scale) for c in result.space.candidates()}
    assert scales == {("float32", None), ("mixed_float16", 32.0)}
    assert result.job.axes["initial_loss_scale"] == ("32",)
    assert result.calibration == FOUND.calibration
    assert result.notes == ("w",)


@pytest.mark.parametrize(
    "options",
    [{"precisions": ("float32", "mixed_bfloat16")}, {"scales": (1024.0, 2048.0)}, {"kind": "make_loop"}],
)
def test_it_is_left_alone_without_float16_or_where_the_user_chose(options):
    launcher = Scripted()
    result = run(launcher, **options)
    assert result.space == job_and_space(**options)[1]
    assert not launcher.sizes


def test_a_resumed_study_keeps_its_scale():
    stored = run(Scripted(FOUND)).job
    result = run(Scripted(), stored=stored)
    assert result.job == stored
    assert result.calibration is None


def test_out_of_memory_is_tried_again_smaller():
    launcher = Scripted(failed(State.OUT_OF_MEMORY), failed(State.OUT_OF_MEMORY), failed(State.OUT_OF_MEMORY))
    result = run(launcher)
    assert launcher.sizes == [32, 4]
    assert "could not be found" in result.notes[0]
    assert run(Scripted(failed(State.OUT_OF_MEMORY), FOUND)).calibration == FOUND.calibration


def test_a_failure_is_noted_and_the_default_stays():
    result = run(Scripted(failed(State.CRASHED)))
    assert "no luck" in result.notes[0]
    assert result.space == job_and_space()[1]
