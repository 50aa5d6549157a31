"""Several workers on one study: a real PostgreSQL server, real processes, real kills."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import optuna
import pytest

from autotune.core.outcome import State
from autotune.core.select import select, ties
from autotune.search.liveness import Worker
from autotune.search.opening import load_study, open_study
from autotune.search.run import search
from autotune.search.storage import resolve_url
from autotune.search.together import search_together
from tests.search.postgres import PASSWORD, server
from tests.search.studies import Trials, job_for, landscape, opened

ROOT = Path(__file__).parents[2]
_LONG_S = 60.0


@pytest.fixture(scope="module")
def database():
    with server() as url:
        yield url


@pytest.fixture
def storage(database, monkeypatch):
    monkeypatch.setenv("STUDY_DB", database)
    yield "env:STUDY_DB"
    backend = resolve_url(database)
    for name in optuna.get_all_study_names(backend):
        optuna.delete_study(study_name=name, storage=backend)


class Workers:
    def __init__(self, folder, storage, count, trial_s):
        self.logs = [folder / f"log-{i}.jsonl" for i in range(count)]
        self.processes = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.search.replaying_worker", storage, str(folder), str(log), str(trial_s)],
                cwd=ROOT,
                stderr=subprocess.PIPE,
                text=True,
            )
            for log in self.logs
        ]

    def lines(self, index):
        log = self.logs[index]
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def began(self, index):
        return [line["began"] for line in self.lines(index) if "began" in line]

    def until_began(self, index, count):
        deadline = time.monotonic() + 60
        while len(self.began(index)) < count:
            assert self.processes[index].poll() is None, self.processes[index].stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def wait(self):
        errors = [process.communicate(timeout=120)[1] for process in self.processes]
        return [process.returncode for process in self.processes], "".join(errors)


def alone(tmp_path):
    scene = landscape()
    store, trials = opened(tmp_path / "alone", scene), Trials(scene)
    search(store, trials, trials=24, clock=trials.clock)
    return select(store.records())[0].record


def test_three_workers_one_of_them_killed(tmp_path, storage):
    workers = Workers(tmp_path, storage, 3, trial_s=0.4)
    for index in range(3):
        workers.until_began(index, 1)
    workers.until_began(1, 2)
    workers.processes[1].send_signal(signal.SIGKILL)
    codes, errors = workers.wait()
    assert codes == [0, -signal.SIGKILL, 0], errors
    assert PASSWORD not in errors
    study = load_study(storage, name="shared")

    # The killed worker's trial was taken over by one other, and every trial has an outcome.
    lost = workers.began(1)[-1]
    survivors = workers.began(0) + workers.began(2)
    assert survivors.count(lost) == 1
    everything = survivors + workers.began(1)
    assert {r.number for r in study.records} == set(everything)
    assert len(everything) == len(set(everything)) + 1
    # No candidate was measured twice.
    assert len({r.candidate for r in study.records}) == len(study.records)
    # The study ended everywhere, for the last one with all outcomes.
    ends = [workers.lines(index)[-1] for index in (0, 2)]
    assert all("likely to improve" in end["ended"] or "trials were run" in end["ended"] for end in ends)
    assert max(end["trials"] for end in ends) == len(study.records)
    # What three find is what one finds.
    best, expected = select(study.records)[0].record, alone(tmp_path)
    assert best.candidate == expected.candidate or ties(best, expected)


def joined(folder, storage):
    scene = landscape()
    folder.mkdir(exist_ok=True)
    return open_study(folder, job_for(scene), scene.space, name="shared", storage=storage)


def elsewhere(store):
    """Makes a store the worker of another machine."""
    store._worker = replace(Worker.this(), host="other", system="another boot")
    return store


def test_a_living_worker_keeps_its_trial_on_this_host_and_on_another(tmp_path, storage):
    here, there, third = (joined(tmp_path / name, storage) for name in ("here", "there", "third"))
    elsewhere(there)
    here.ask(), there.ask()
    assert not third.unfinished()
    assert third.others_running()


def test_a_silent_worker_of_another_host_loses_its_trial_to_exactly_one(tmp_path, storage):
    there, second, third = (joined(tmp_path / name, storage) for name in ("there", "second", "third"))
    asked = elsewhere(there).ask()
    there._trials[asked.number][1].stop()
    for store in (second, third):
        store._storage.grace_period = 0  # as if the silence had lasted
    deadline = time.monotonic() + 10
    while not (second.unfinished() and third.unfinished()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    orphan = second.unfinished()[0]
    assert orphan == (replace(asked, why=orphan[0].why), 1)
    assert [second.take(*orphan), third.take(*orphan)] == [True, False]
    # The worker was not dead, only cut off: what it says now counts no more.
    late = landscape().trial(asked.number, asked.candidate, seed=1)
    there.tell(late)
    assert not third.records()
    in_time = landscape().trial(asked.number, asked.candidate, seed=2)
    second.tell(in_time)
    there.tell(late)
    assert third.records() == (in_time,)


def test_a_trial_that_was_put_back_goes_to_exactly_one(tmp_path, storage):
    first, second, third = (joined(tmp_path / name, storage) for name in ("first", "second", "third"))
    asked = first.ask()
    first.interrupted(asked.number)
    back = second.unfinished()[0]
    assert [third.take(*back), second.take(*back)] == [True, False]
    assert not second.unfinished()


def test_the_password_reaches_no_output_no_file_and_no_command_line(tmp_path, storage):
    """The whole command, on a loop that writes down the command lines of its process and of all above it."""
    spy = tmp_path / "spy.py"
    spy.write_text(
        "import pathlib, time\n"
        "def lines(pid):\n"
        "    while pid > 1:\n"
        "        proc = pathlib.Path('/proc') / str(pid)\n"
        "        yield proc.joinpath('cmdline').read_bytes()\n"
        "        pid = int(proc.joinpath('stat').read_text().rpartition(')')[2].split()[1])\n"
        f"seen = pathlib.Path({str(tmp_path / 'command-lines')!r})\n"
        "def make_loop(settings):\n"
        "    import os\n"
        "    seen.write_bytes(b'\\n'.join(lines(os.getpid())))\n"
        "    class Loop:\n"
        "        def update(self):\n"
        "            time.sleep(0.0005 * settings.accumulation_steps)\n"
        "    return Loop()\n"
    )
    out = tmp_path / "study"
    done = subprocess.run(
        [
            sys.executable, "-m", "autotune", "tune", str(spy), "--global-batch", "4", "--trials", "2",
            "--measure-time", "0.2s", "--device", "cpu", "--storage", storage, "--out", str(out), "--json",
        ],
        cwd=ROOT, env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["trials"]) == 2
    assert b"autotune.worker.server" in (tmp_path / "command-lines").read_bytes()
    assert PASSWORD not in done.stdout + done.stderr
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 10
    assert not [path for path in files if PASSWORD.encode() in path.read_bytes()]
    study = load_study(storage, name="study")
    assert PASSWORD not in repr(study)


def test_several_devices_of_one_process(tmp_path):
    """As many workers as devices, in threads: no candidate twice, not one trial too many, the best is found."""
    scene = landscape()
    stores = [opened(tmp_path / "s", scene, resume=index > 0) for index in range(3)]
    busy, two_at_once = set(), threading.Event()

    def worker(index):
        def run_trial(number, candidate, *, give_up_update_s, timeout_s):
            busy.add(index)
            if len(busy) > 1:
                two_at_once.set()
            two_at_once.wait(_LONG_S)  # however slow the machine is at asking for the other one's candidate
            busy.discard(index)
            return scene.trial(number, candidate)

        return run_trial

    events = []
    reason = search_together(
        [(store, worker(index)) for index, store in enumerate(stores)], trials=5, on_event=events.append
    )
    assert reason == "5 trials were run"
    records = stores[0].records()
    assert len(records) == len({r.candidate for r in records}) == 5
    assert two_at_once.is_set()
    assert len(events) == 10
    search_together([(store, worker(index)) for index, store in enumerate(stores)], trials=24)
    best, expected = select(stores[0].records())[0].record, alone(tmp_path)
    assert best.candidate == expected.candidate or ties(best, expected)


def test_what_one_worker_raises_ends_all(tmp_path):
    scene = landscape()
    stores = [opened(tmp_path / "s", scene, resume=index > 0) for index in range(2)]

    def fine(number, candidate, *, give_up_update_s, timeout_s):
        time.sleep(0.1)
        return scene.trial(number, candidate)

    def broken(number, candidate, *, give_up_update_s, timeout_s):
        raise OSError("the device fell off the bus")

    with pytest.raises(OSError, match="fell off the bus"):
        search_together([(stores[0], fine), (stores[1], broken)], trials=24)
    assert len(stores[0].records()) < 10
    # The broken device's trial was put back for somebody with a working one, who may have run it by now.
    put_back = stores[0].unfinished()
    assert len(put_back) <= 1
    assert stores[0].trial_count() == len(stores[0].records()) + len(put_back)
    assert all(record.outcome.state is not State.CRASHED for record in stores[0].records())


def test_one_worker_confirms_for_all(tmp_path, storage):
    stores = [joined(tmp_path / str(index), storage) for index in range(3)]
    search(stores[0], Trials(landscape()), trials=3)
    confirming, said, done = threading.Event(), [], []

    def confirm(index):
        def job(counts):
            confirming.set()
            waited = time.monotonic() + _LONG_S
            while len(said) < 2 and time.monotonic() < waited:  # until both others have come and wait
                time.sleep(0.01)
            assert counts()
            stores[index].update(chosen=index, confirmed=True)

        done.append((stores[index].confirm_once(job, say=said.append), stores[index].study().chosen))

    threads = [threading.Thread(target=confirm, args=(index,)) for index in range(3)]
    for thread in threads:
        thread.start()
        confirming.wait(_LONG_S)
    for thread in threads:
        thread.join()
    assert sorted(done) == [(False, 0), (False, 0), (True, 0)]
    assert len(said) == 2
    assert all("confirms the choice for all" in sentence for sentence in said)
    # One that comes when all is over takes what is there; more trials ask for a confirmation of their own.
    late = joined(tmp_path / "late", storage)
    assert not late.confirm_once(lambda counts: pytest.fail("confirmed twice"))
    search(late, Trials(landscape()), trials=4)
    assert late.confirm_once(lambda counts: None)
    # Turns are no trials.
    assert late.trial_count() == len(late.records()) == 4
    assert not late.unfinished() and not late.others_running()


def test_a_confirmation_that_fails_or_is_killed_is_done_by_the_next_worker(tmp_path, storage):
    here, there, third = (joined(tmp_path / name, storage) for name in ("here", "there", "third"))

    def broken(counts):
        raise OSError("the device fell off the bus")

    with pytest.raises(OSError, match="fell off"):
        here.confirm_once(broken)
    # A worker of another host that is in its turn, and then silent for too long.
    began, over = threading.Event(), threading.Event()
    elsewhere(there)
    late = []

    def hangs(counts):
        began.set()
        over.wait(_LONG_S)
        late.append(counts())

    silent = threading.Thread(target=there.confirm_once, args=(hangs,))
    silent.start()
    began.wait(_LONG_S)
    waited, did = [], []

    def say(sentence):
        waited.append(sentence)
        third._storage.grace_period = -1  # as if the silence had lasted

    with pytest.raises(KeyboardInterrupt):
        third.confirm_once(lambda counts: pytest.fail("out of turn"), stop_requested=lambda: True)
    assert third.confirm_once(lambda counts: did.append(counts()), say=say)
    assert did == [True] and len(waited) == 1 and "on other confirms" in waited[0]
    # The silent one was not dead, only cut off: it is told that its turn is over.
    over.set()
    silent.join()
    assert late == [False]
