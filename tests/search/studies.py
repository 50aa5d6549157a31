"""A job, a space and a landscape that fit together, for tests of the search."""

from __future__ import annotations

import subprocess
from dataclasses import replace

import optuna
from optuna.trial import TrialState

from autotune.core.outcome import Outcome, State
from autotune.core.trial import Device, TrialRecord
from autotune.search.liveness import Worker
from autotune.search.opening import open_study
from autotune.search.records import OWNER
from autotune.search.store import StudyStore
from tests.fakes.landscapes import MIB, Landscape, measured_ratios
from tests.sample_studies import job as sample_job

optuna.logging.set_verbosity(optuna.logging.WARNING)


def landscape(name: str = "cnn", limit: int | None = 200 * MIB) -> Landscape:
    return measured_ratios(name, limit=limit)


def job_for(scene: Landscape, **changes):
    values = {
        "axes": scene.space.axes_text(),
        "memory_limit_bytes": scene.limit,
        "device": Device(kind="cpu", name="cpu", memory_usable_bytes=8 * 2**30),
        "global_batch": scene.space.global_batch,
    }
    return sample_job(**(values | changes))


def opened(folder, scene: Landscape, *, resume: bool = False, **changes) -> StudyStore:
    folder.mkdir(exist_ok=True)
    return open_study(folder, job_for(scene, **changes), scene.space, resume=resume)


def dead_worker() -> Worker:
    """A worker of this machine whose process is gone."""
    process = subprocess.Popen(["true"])
    worker = replace(Worker.this(), pid=process.pid, started=1)
    process.wait()
    return worker


def kill(store: StudyStore) -> None:
    """Leaves of a store what a killed process leaves: trials whose owner is gone, and nobody who writes."""
    for _, heartbeat in store._trials.values():
        heartbeat.stop()
    for number in {t.number for t in store._all() if t.state is TrialState.RUNNING}:
        store._study._storage.set_trial_user_attr(store._frozen(number)._trial_id, OWNER, dead_worker().plain())
    store.interrupted = lambda number: None


class Trials:
    """Runs trials on a landscape, on a clock of its own, and remembers what it was asked."""

    def __init__(self, scene: Landscape, seed: int = 0) -> None:
        self.scene = scene
        self.seed = seed
        self.now = 0.0
        self.records: list[TrialRecord] = []
        self.numbers: list[int] = []
        self.timeouts: list[float | None] = []
        self.give_ups: list[float | None] = []
        self.then = lambda record: record

    def __call__(self, number, candidate, *, give_up_update_s, timeout_s) -> TrialRecord:
        self.numbers.append(number)
        self.timeouts.append(timeout_s)
        self.give_ups.append(give_up_update_s)
        record = self.scene.trial(number, candidate, self.seed, give_up_update_s)
        record = self.then(replace(record, started_unix=self.now))
        if timeout_s is not None and record.wall_s > timeout_s:
            outcome = Outcome(state=State.TIMED_OUT, reason="not done in time")
            record = replace(record, outcome=outcome, wall_s=timeout_s)
        self.now += record.wall_s
        self.records.append(record)
        return record

    def clock(self) -> float:
        return self.now
