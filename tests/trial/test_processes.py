"""The processes of a trial are ended whatever happens to those around them, and nothing of the caller's is changed."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.core.codec import from_plain
from autotune.core.outcome import State
from autotune.core.trial import TrialRecord
from autotune.trial import trial_in_flight

from .conftest import FAKES, Runner

TUNER = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from trial.conftest import Runner, FAKES
runner = Runner(Path({folder!r}), FAKES / "ways_to_die.py")
with runner.launcher:
    runner.run("healthy")
    print(runner.launcher._server._token, flush=True)
    runner.run({way!r})
"""


def wait_for(condition, patience_s=20.0):
    until = time.monotonic() + patience_s
    while not (value := condition()):
        assert time.monotonic() < until, "it did not come about"
        time.sleep(0.02)
    return value


def marked(token):
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if token.encode() in (entry / "environ").read_bytes():
                    found[int(entry.name)] = (entry / "cmdline").read_bytes()
            except OSError:
                pass
    return found


@pytest.fixture
def tuner(tmp_path):
    """Starts a tuner in a process of its own; returns it with its mark, its second trial in flight."""
    started = []

    def start(way):
        script = TUNER.format(tests=str(FAKES.parent), folder=str(tmp_path), way=way)
        process = subprocess.Popen(
            [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        token = process.stdout.readline().strip()
        progress = tmp_path / "trials" / "1" / "memory.progress.json"
        wait_for(lambda: progress.exists() and '"exercise"' in progress.read_text())
        return process, token

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("way", ["hangs_in_c", "hangs_with_grandchildren"])
def test_kill_9_of_the_tuner_leaves_no_process(tuner, tmp_path, way):
    process, token = tuner(way)
    assert len(marked(token)) >= 2
    process.kill()
    wait_for(lambda: not marked(token))
    assert trial_in_flight(tmp_path) == 1
    assert json.loads((tmp_path / "trials" / "0" / "record.json").read_text())["number"] == 0
    assert not list((tmp_path / "trials" / "1").glob("*outcome*"))


def test_an_interrupt_ends_the_trial_in_flight(tuner, tmp_path):
    process, token = tuner("hangs_in_c")
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert "KeyboardInterrupt" in stderr
    assert not marked(token)
    assert trial_in_flight(tmp_path) is None, "it is the user's doing, not the trial's"


def test_a_terminals_interrupt_does_not_reach_the_trial(bare, tmp_path):
    runner = Runner(tmp_path, FAKES / "ways_to_die.py")
    with runner.launcher:
        runner.run("healthy")
        server = runner.launcher._server._process.pid
        assert os.getsid(server) == server != os.getsid(0)


def test_the_death_of_the_server_is_the_trials_crash(tmp_path):
    runner = Runner(tmp_path, FAKES / "ways_to_die.py")
    with runner.launcher:
        record = runner.run("kills_its_parent")
        assert record.state is State.CRASHED
        assert record.outcome.reason.startswith("the process that starts trials died, while building the loop")
        wait_for(lambda: not runner.processes())
        assert runner.run("healthy").state is State.COMPLETED, "a new one was started"


def test_closing_the_launcher_leaves_no_process(tmp_path):
    runner = Runner(tmp_path, FAKES / "ways_to_die.py")
    with runner.launcher:
        runner.run("healthy")
        token = runner.launcher._server._token
        assert marked(token)
    assert not marked(token)


def test_a_record_is_kept_whole(bare):
    record = bare.run("healthy")
    kept = from_plain(TrialRecord, json.loads(bare.text(record, "record.json")))
    assert kept == record


def test_old_answers_are_not_taken_for_new_ones(tmp_path):
    runner = Runner(tmp_path, FAKES / "ways_to_die.py")
    with runner.launcher:
        first = runner.run("healthy")
        again = runner.launcher.run(replace(runner.spec("is_killed"), number=first.number))
    assert again.state is State.CRASHED


def test_nothing_of_the_callers_is_changed(bare):
    def state():
        return dict(os.environ), Path.cwd(), list(sys.path), sys.argv[:], signal.getsignal(signal.SIGINT)

    before = state()
    assert bare.run("healthy").state is State.COMPLETED
    assert state() == before


def test_the_tuner_and_a_bare_trial_do_without_tensorflow(bare, tmp_path):
    record = bare.run("tells_its_modules")
    modules = set(bare.text(record, "timing.stdout.txt").decode().split())
    assert "autotune.worker.child" in modules
    assert not {"tensorflow", "keras", "numpy", "pandas", "optuna", "autotune.trial"} & modules
    script = TUNER.format(tests=str(FAKES.parent), folder=str(tmp_path), way="healthy") + "\nprint(*sys.modules)"
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert not {"tensorflow", "keras", "numpy", "pandas", "optuna", "autotune.worker"} & set(printed.split())
