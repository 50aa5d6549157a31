"""What the tuner learns from a user's file before the first trial, and how it is told of mistakes in it."""

import re

import pytest

from autotune.errors import UsageError, UserCodeError
from autotune.trial import TrialLauncher

from .conftest import CPU, FAKES, Runner


@pytest.fixture
def inspect(tmp_path):
    """Inspects a file of the given text; checks that the study's folder is left alone."""
    study = tmp_path / "study"
    (tmp_path / "user").mkdir()

    def inspect(text, attribute=None, timeout_s=60):
        runner = Runner(study, tmp_path / "user" / "train.py")
        runner.file.write_text(text)
        with runner.launcher:
            try:
                return runner.launcher.inspect(runner.ref(attribute), timeout_s=timeout_s)
            finally:
                assert not study.exists()

    return inspect


LOOP = "def make_loop(settings): ...\n"


def test_a_loop_without_tensorflow(inspect):
    info = inspect(LOOP + "axes = ('precision',)\n")
    assert (info.kind, info.attribute, info.axes, info.frameworks) == ("make_loop", "make_loop", ("precision",), ())
    assert len(info.source_hash) == 64


@pytest.mark.parametrize(
    ("text", "attribute", "message"),
    [
        ("x = 1\n", None, "train.py defines neither 'workload' nor 'make_loop'; add one, or name it: train.py:NAME"),
        ("workload = 3\n", None, "'workload' in train.py is a int; it must be an autotune.Workload or a function of"),
        ("def make_lop(s): ...\n", "make_loop", "train.py has no 'make_loop'; did you mean 'make_lop'?"),
        ("def f(:\n", None, r"train.py:1: invalid syntax"),
        (LOOP + "axes = 'precision'\n", None, "axes in train.py must be names"),
        (
            "import autotune\nworkload = autotune.Workload(model=1, optimizer=1, loss=1, dataset=1)\n",
            None,
            "model of train.py:workload must be a function, got a int",
        ),
    ],
)
def test_bad_files_are_bad_usage(inspect, text, attribute, message):
    with pytest.raises(UsageError, match=re.escape(message)) as caught:
        inspect(text, attribute)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\nraise ValueError('no')\n", "train.py:2: ValueError: no"),
        ("import sys\nsys.exit(3)\n", "train.py:2: sys.exit(3) was called"),
        ("import nowhere\n", "train.py:1: ModuleNotFoundError: No module named 'nowhere'"),
        ("import os\nos.abort()\n", "train.py: the process was killed by SIGABRT"),
    ],
)
def test_what_the_users_code_raises_is_shown_with_its_line(inspect, text, message):
    with pytest.raises(UserCodeError) as caught:
        inspect(text)
    assert str(caught.value) == message
    assert caught.value.exit_code == 3


def test_a_file_that_does_not_end_loading(inspect):
    with pytest.raises(UserCodeError, match=r"train\.py: stopped after 1"):
        inspect("while True: pass\n", timeout_s=1)


def test_a_missing_file(tmp_path):
    runner = Runner(tmp_path, tmp_path / "gone.py")
    with runner.launcher, pytest.raises(UsageError, match=r"there is no file .*gone\.py"):
        runner.launcher.inspect(runner.ref(), timeout_s=5)


def test_the_folder_of_the_file_leads_the_path_and_the_working_directory_stays(inspect, tmp_path, monkeypatch):
    (tmp_path / "user" / "random.py").write_text("mine = True\n")
    (tmp_path / "user" / "helper.py").write_text("value = 1\n")
    monkeypatch.chdir(tmp_path)
    text = "import os, helper\nassert os.getcwd() == {!r}\nassert __name__ == 'train'\n"
    assert inspect(text.format(str(tmp_path)) + LOOP).kind == "make_loop"


def test_tensorflow_is_preloaded_only_for_files_that_use_it():
    runners = {name: Runner(FAKES, FAKES / f"{name}.py") for name in ("numpy_loop", "tensorflow_loop")}
    preloads = {}
    for name, runner in runners.items():
        with runner.launcher:
            runner.launcher.inspect(runner.ref(), timeout_s=60)
            preloads[name] = runner.launcher._inspected[runner.ref().path].preload
    assert preloads == {"numpy_loop": (), "tensorflow_loop": ("tensorflow", "keras")}


def test_variables_that_are_read_at_import_reach_the_warm_parent(tmp_path):
    runner = Runner(tmp_path / "study", tmp_path / "train.py")
    runner.file.write_text(
        "import os\nprint(os.environ.get('KERAS_BACKEND'))\nos.environ['KERAS_BACKEND'] = 'tensorflow'\n" + LOOP
    )
    with runner.launcher:
        info = runner.launcher.inspect(runner.ref(), timeout_s=60)
        assert info.import_environment == ("KERAS_BACKEND",)
        record = runner.run()
        assert runner.text(record, "memory.stdout.txt") == b"tensorflow\n"


def test_a_workload(tmp_path):
    runner = Runner(tmp_path, FAKES.parent.parent / "autotune" / "workloads" / "mlp.py")
    with TrialLauncher(tmp_path, CPU) as launcher:
        info = launcher.inspect(runner.ref(), timeout_s=120)
    assert (info.kind, info.dataset_size) == ("workload", 1797)
    assert info.axes == ("precision", "execution", "jit_compile", "initial_loss_scale")
    assert set(info.frameworks) == {"tensorflow", "keras"}
