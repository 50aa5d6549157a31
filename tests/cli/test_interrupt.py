"""Ctrl-C and kill -9: the study is kept, nothing is left running, and --resume goes on with it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from tests.cli.conftest import autotune

TUNE = ["tune", "own.py", "--global-batch", "512", "--measure-time", "1s", "--out", "s", "--objective", "pareto"]


@pytest.fixture
def running(own_loop):
    """A study in its own process, past its first trial."""
    process = subprocess.Popen(
        [sys.executable, "-m", "autotune", *TUNE, "--trials", "8"],
        cwd=own_loop,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    for line in process.stderr:
        if line.startswith("[1/8]"):
            break
    yield process
    process.kill()
    process.wait()


def _children(pid):
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == pid:
                found += [int(entry.name), *_children(int(entry.name))]
    return found


def _gone(pids, within_s=10):
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        alive = [p for p in pids if Path(f"/proc/{p}/cmdline").exists() and Path(f"/proc/{p}/cmdline").read_bytes()]
        if not alive:
            return True
        time.sleep(0.05)
    return False


def test_ctrl_c_once_ends_after_the_trial_in_flight_and_resume_continues(running, own_loop):
    children = _children(running.pid)
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 130, errors
    assert "--resume" in errors
    assert _gone(children)
    before = pd.read_csv(own_loop / "s" / "trials.csv")
    assert 1 <= len(before) < 8
    assert before.state[0] == "completed"
    stamps = {p: p.stat().st_mtime_ns for p in (own_loop / "s" / "trials").glob("*/record.json")}
    done = autotune(*TUNE, "--trials", len(before) + 1, "--resume", cwd=own_loop)
    assert done.returncode == 0, done.stderr
    assert len(pd.read_csv(own_loop / "s" / "trials.csv")) == len(before) + 1
    assert all(p.stat().st_mtime_ns == stamp for p, stamp in stamps.items())


def test_ctrl_c_twice_ends_now(running, own_loop):
    children = _children(running.pid)
    running.send_signal(signal.SIGINT)
    time.sleep(0.2)
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=30)
    assert running.returncode == 130, errors
    assert "Traceback" not in errors
    assert _gone(children)
    assert (own_loop / "s" / "trials.csv").is_file()


def test_kill_9_leaves_no_orphan_and_resume_repeats_no_finished_trial(running, own_loop):
    children = _children(running.pid)
    assert children
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    assert _gone(children)
    finished = {p: p.stat().st_mtime_ns for p in (own_loop / "s" / "trials").glob("*/record.json")}
    assert finished
    done = autotune(*TUNE, "--trials", 3, "--resume", cwd=own_loop)
    assert done.returncode == 0, done.stderr
    assert all(p.stat().st_mtime_ns == stamp for p, stamp in finished.items())
    trials = pd.read_csv(own_loop / "s" / "trials.csv")
    assert not trials.duplicated(["micro_batch"]).any()
