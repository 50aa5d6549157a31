"""The same candidate has the same peak in fresh processes, and what is not needed is not counted."""

import pytest

from autotune.core.outcome import State

from .conftest import FAKES, Runner


@pytest.fixture(scope="module")
def mlp(tmp_path_factory):
    runner = Runner(tmp_path_factory.mktemp("mlp"), FAKES.parent.parent / "autotune" / "workloads" / "mlp.py")
    with runner.launcher:
        runner.launcher.inspect(runner.ref(), timeout_s=120)
        yield runner


def peak(mlp, number, **options):
    asked = {"precision": "float32", "execution": "fused", "jit_compile": False, "recompute": False, **options}
    outcome = mlp.launcher.run_pass(mlp.spec(**asked), "memory", mlp.folder / "confirm" / str(number))
    assert outcome.state is State.COMPLETED, outcome.reason
    assert outcome.memory.peak_source == "tf_bfc_cpu"
    assert outcome.memory.host_peak_bytes > 0
    return outcome.memory.peak_bytes


def test_peaks_of_three_fresh_processes_agree(mlp):
    peaks = [peak(mlp, number) for number in range(3)]
    assert max(peaks) <= 1.01 * min(peaks)
    # Three layers of 1,024: weights, two Adam moments, gradients and an accumulator, in float32.
    weights = 4 * (65 * 1024 + 2 * 1025 * 1024 + 1025 * 10)
    assert 4 * weights < peaks[0] < 7 * weights


def test_confirmation_runs_lie_where_they_are_told_to(mlp):
    assert not (mlp.folder / "trials").exists()
    assert {p.name for p in (mlp.folder / "confirm" / "0").iterdir()} >= {"spec.json", "memory.outcome.json"}
