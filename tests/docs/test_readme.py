"""The README's examples, run as they stand."""

import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from tests.cli.conftest import autotune

README = (Path(__file__).parents[2] / "README.md").read_text()


def example(name):
    return re.search(rf"<!-- example: {re.escape(name)} -->\n```python\n(.*?)```", README, re.S)[1]


@pytest.fixture
def folder(tmp_path):
    for name in ("train.py", "own_loop.py"):
        (tmp_path / name).write_text(example(name))
    return tmp_path


def test_a_users_model_is_tuned_and_then_trained(folder):
    command = re.search(r"autotune (tune train\.py .*)", README)[1].split()
    done = autotune(*command, "--trials", 2, "--measure-time", "0.5s", "--axis", "jit_compile=off", cwd=folder)
    assert done.returncode == 0, done.stderr
    trained = subprocess.run([sys.executable, "train.py"], cwd=folder, capture_output=True, text=True, timeout=180)
    assert trained.returncode == 0, trained.stderr


def test_a_users_loop_is_tuned_without_tensorflow(folder):
    command = re.search(r"autotune (tune own_loop\.py .*)", README)[1].split()
    done = autotune(*command, "--trials", 3, "--measure-time", "0.5s", cwd=folder)
    assert done.returncode == 0, done.stderr
    trials = pd.read_csv(folder / "results" / "own_loop-1024-cpu" / "trials.csv")
    completed = trials[trials.state == "completed"]  # a hopelessly slow size may be given up
    assert len(completed) >= 1
    assert (completed.peak_source == "host_vmhwm").all()
    assert trials.precision.isna().all()


def test_commands_and_links_of_the_readme_exist():
    from autotune.cli.main import command_names

    named = set(re.findall(r"^autotune (\w+)", README, re.M)) | set(re.findall(r"`autotune (\w+)", README))
    assert named <= set(command_names())
    root = Path(__file__).parents[2]
    for target in re.findall(r"\]\(((?!http)[^)#]+)", README):
        assert (root / target).exists(), target


def test_the_study_that_the_readme_shows_prints_as_shown(tmp_path):
    shown = re.search(r"<!-- output: reference -->\n```\n(.*?)```", README, re.S)[1]
    study = Path(__file__).parents[2] / "results" / "reference"
    done = autotune("report", study, "--table", "trials", cwd=tmp_path, COLUMNS="80")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == shown.strip()
    printed = autotune("report", study, "--format", "csv", cwd=tmp_path).stdout
    assert printed == (study / "trials.csv").read_text()
