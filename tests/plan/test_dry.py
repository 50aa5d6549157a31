"""Peaks without a GPU: what the compiler says, against the same update run and measured."""

import json

import pytest

from autotune.cli.main import main
from autotune.core.candidate import Candidate
from autotune.core.plan.dry import DryRequest
from autotune.core.trial import Device, TrialSpec
from autotune.errors import UsageError, UserCodeError
from autotune.plan import validate
from autotune.trial import TrialLauncher
from autotune.trial.dry import run_dry
from autotune.workloads import resolve
from tests.plan.studies import cpu_study
from tests.sample_studies import MIB

DEVICE = Device(kind="cpu", name="test", memory_usable_bytes=4 << 30)
BATCH = 256


def jitted(micro, batch=BATCH):
    return Candidate(global_batch=batch, micro_batch=micro, jit_compile=True)


@pytest.fixture(scope="module")
def launcher(tmp_path_factory):
    with TrialLauncher(tmp_path_factory.mktemp("dry"), DEVICE) as found:
        yield found


def measured(launcher, candidate, folder):
    spec = TrialSpec(number=0, workload=resolve("mlp"), candidate=candidate, device=DEVICE, timeout_s=120)
    return launcher.run_pass(spec, "memory", folder).memory.peak_bytes


def test_xla_says_the_peak_of_a_jitted_update_within_one_percent(launcher, tmp_path):
    request = DryRequest(workload=resolve("mlp"), candidates=(jitted(32), jitted(BATCH)), usable_bytes=4 << 30)
    result = run_dry(request, timeout_s=180)
    for candidate, answer in zip(request.candidates, result.answers, strict=True):
        real = measured(launcher, candidate, tmp_path / str(candidate.micro_batch))
        assert answer.compiled.peak_bytes == pytest.approx(real, rel=0.01)
    weights = 64 * 1024 + 2 * 1024 * 1024 + 1024 * 10 + 3 * 1024 + 10
    assert result.parts.weight_bytes == result.parts.gradient_bytes == 4 * weights
    assert 2 * 4 * weights <= result.parts.optimizer_bytes <= 2 * 4 * weights + 64
    assert result.remark is None


def test_operations_are_those_of_three_matrix_products_for_each_layer():
    request = DryRequest(
        workload=resolve("mlp"), candidates=(jitted(4, 4), jitted(8, 8)), usable_bytes=4 << 30, count=True
    )
    small, large = (answer.compiled for answer in run_dry(request, timeout_s=180).answers)
    layers = 64 * 1024 + 2 * 1024 * 1024 + 1024 * 10
    per_sample = 6 * layers - 2 * 64 * 1024  # no gradient of the input
    assert (large.flops - small.flops) / 4 == pytest.approx(per_sample, rel=0.01)
    assert large.traffic_bytes > small.traffic_bytes > 5 * 4 * layers  # the optimizer reads and writes all state


def test_a_workload_is_planned_without_a_study(capfd):
    assert main(["plan", "mlp", "--dry", "--global-batch", "4", "--gpus", "T4,A100-80GB", "--json"]) == 0
    seen = capfd.readouterr()
    document = json.loads(seen.out)
    rows = document["rows"]
    assert len(rows) == 2 and all(row["fits"] and row["basis"] == "estimated" for row in rows)
    assert all(row["micro_batch"] == 4 and 35 * MIB < row["peak_bytes"] < 70 * MIB for row in rows)
    assert document["decomposition"]["weight_bytes"] > 8 * MIB
    assert "without running them" in seen.err and any("nothing was run on a GPU" in n for n in document["notes"])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["mlp", "--dry", "--gpus", "T4"], "give it with --global-batch"),
        (["mlp", "--dry", "--global-batch", "64", "--gpus", "T4", "--epochs", "2"], "that was not run on a GPU"),
        (["mlp", "--dry", "--global-batch", "64"], "name the GPUs to plan for with --gpus"),
        (["mpl", "--dry", "--global-batch", "64", "--gpus", "T4"], "did you mean 'mlp'?"),
        (["mlp", "--gpus", "T4"], "there is no study at mlp"),
    ],
)
def test_refusals(tmp_path, monkeypatch, capfd, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    assert main(["plan", *arguments]) == 2
    seen = capfd.readouterr()
    assert seen.out == "" and sentence in seen.err and seen.err.count("\n") == 1


def write(folder, text):
    path = folder / "train.py"
    path.write_text(text)
    return resolve(str(path))


def test_users_code_that_raises_or_cannot_be_compiled(tmp_path):
    broken = write(tmp_path, "import autotune\nraise RuntimeError('no data here')\nworkload = None\n")
    with pytest.raises(UserCodeError, match=r"train.py:2: .*no data here"):
        run_dry(DryRequest(workload=broken, usable_bytes=4 << 30, preload=False), timeout_s=60)
    own = write(tmp_path, "def make_loop(settings):\n    return None\n")
    with pytest.raises(UsageError, match="a loop of its own"):
        run_dry(DryRequest(workload=own, usable_bytes=4 << 30, preload=False), timeout_s=60)


def test_a_plan_is_validated_by_running_what_it_has_not_seen(launcher, tmp_path):
    peaks = {m: measured(launcher, Candidate(global_batch=BATCH, micro_batch=m), tmp_path / str(m)) for m in (16, 64)}
    said = []
    found = validate(cpu_study(peaks, entry="mlp", batch=BATCH), say=said.append)
    assert len(found.checks) >= 2 and all(check.measured for check in found.checks)
    assert {check.beyond for check in found.checks} == {True, False}
    assert found.scores["peak between"].worst_error < 0.05
    assert any("which the fit has not seen" in sentence for sentence in said)
