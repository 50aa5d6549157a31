"""Bad input: one sentence, exit code 2 or 3, and nothing written."""

import subprocess
import sys

import pytest

from autotune.cli.main import main
from tests.cli.conftest import autotune

GOOD = "def make_loop(settings):\n    raise RuntimeError('not reached')\n"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.py").write_text(GOOD)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["digits"], "--global-batch"),
        (["digits", "--global-batch", "0"], "at least 1, got '0'"),
        (["digits", "--global-batch", "-1"], "at least 1, got '-1'"),
        (["digits", "--global-batch", "1.5"], "at least 1, got '1.5'"),
        (["digist", "--global-batch", "8"], "did you mean 'digits'?"),
        (["missing.py", "--global-batch", "8"], "missing.py does not exist"),
        (["digits", "--global-batch", "8", "--memory-limit", "lots"], "write a size like 200MiB"),
        (["digits", "--global-batch", "8", "--memory-limit", "0MiB"], "write a size like 200MiB"),
        (["digits", "--global-batch", "8", "--memory-limit", "120%"], "up to 100 %"),
        (["digits", "--global-batch", "8", "--budget", "soon"], "write a duration like 45s"),
        (["digits", "--global-batch", "8", "--trials", "0"], "at least 1, got '0'"),
        (["digits", "--global-batch", "8", "--objective", "speed"], "invalid choice: 'speed'"),
        (["digits", "--global-batch", "8", "--device", "gpu:x"], "gpu:x"),
        (["digits", "--global-batch", "8", "--nonsense"], "--nonsense"),
    ],
)
def test_before_anything_runs(here, capsys, arguments, says):
    assert main(["tune", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.strip().splitlines()) == 1, printed.err
    assert printed.err.startswith("autotune: ")
    assert says in printed.err
    assert [p.name for p in here.iterdir()] == ["good.py"]


def test_a_gpu_that_is_not_there_is_exit_1(here, capsys):
    assert main(["tune", "good.py", "--global-batch", "8", "--device", "gpu"]) == 1
    assert "GPU" in capsys.readouterr().err
    assert [p.name for p in here.iterdir()] == ["good.py"]


def test_out_that_is_a_file_or_below_one(here, capsys):
    assert main(["tune", "good.py", "--global-batch", "8", "--out", "good.py"]) == 2
    assert main(["tune", "good.py", "--global-batch", "8", "--out", "good.py/study"]) == 2
    assert "--out" in capsys.readouterr().err


def test_out_that_cannot_be_written(here):
    done = autotune("tune", "good.py", "--global-batch", 8, "--out", "/proc/study", cwd=here)
    assert done.returncode in (1, 2)
    assert "--out" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("source", "code", "says"),
    [
        ("x = 1\n", 2, "workload"),
        ("def make_loop(settings:\n", 2, "user.py, line 1"),
        ("raise ValueError('my own mistake')\n", 3, "user.py:1: ValueError: my own mistake"),
        ("import no_such_package\n", 3, "user.py:1: ModuleNotFoundError"),
        ("workload = 5\n", 2, "workload"),
    ],
)
def test_the_users_file(here, source, code, says):
    (here / "user.py").write_text(source)
    done = autotune("tune", "user.py", "--global-batch", 8, cwd=here)
    assert done.returncode == code, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not (here / "results").exists()


def test_a_systematic_mistake_ends_the_study_at_the_first_trial_with_the_users_line(here):
    done = autotune("tune", "good.py", "--global-batch", 8, "--out", "s", cwd=here)
    assert done.returncode == 3
    assert "good.py:2: RuntimeError: not reached" in done.stderr
    assert "trial 1" not in done.stderr


def test_debug_shows_the_users_traceback(here):
    done = autotune("--debug", "tune", "good.py", "--global-batch", 8, "--out", "s", cwd=here)
    assert done.returncode == 3
    assert "raise RuntimeError('not reached')" in done.stderr


@pytest.mark.parametrize(
    ("option", "says"),
    [
        (["--precision", "float16"], "did you mean 'mixed_float16'?"),
        (["--axis", "micro_batc=8"], "did you mean 'micro_batch'?"),
        (["--axis", "micro_batch=99"], "use at most 8"),
        (["--axis", "jit_compile=maybe"], "jit_compile is on or off"),
        (["--axis", "micro_batch"], "micro_batch=VALUE"),
        (["--axis", "micro_batch=2", "--axis", "micro_batch=4"], "given twice"),
    ],
)
def test_axes(here, capsys, option, says):
    assert main(["tune", "good.py", "--global-batch", "8", *option]) == 2
    assert says in capsys.readouterr().err
    assert not (here / "results").exists()


@pytest.mark.parametrize("arguments", [["--help"], ["tune", "--help"], ["probe", "--help"], ["workloads"]])
def test_help_is_light(here, arguments):
    code = (
        "import sys; from autotune.cli.main import main; main(sys.argv[1:]);"
        "print([m for m in ('tensorflow', 'pandas', 'optuna', 'numpy', 'rich', 'altair') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]"


def test_every_command_has_help_with_an_example(capsys):
    from autotune.cli.main import command_names

    for name in command_names():
        assert main([name, "--help"]) == 0
        assert "example: autotune" in capsys.readouterr().out
