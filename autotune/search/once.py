"""One job that several workers of a study must not all do: confirming the choice."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

import optuna
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from autotune.search.liveness import Heartbeat, Worker
from autotune.search.records import OWNER, TURN, TURN_DONE

_POLL_S = 1.0


class Once:
    """A job that one worker does for all who want the same done.

    Whoever wants it enters a turn: a running trial of Optuna without a candidate, whose heartbeat tells that its worker
    lives. Of living turns the lowest number does the job, the others wait; where it fails or its worker is killed, the
    next one does it. No table shows these trials.

    Args:
        study: Optuna's.
        storage: where it is kept.
        worker: who asks.
        key: names the job; turns of another key are other jobs.
    """

    def __init__(self, study: optuna.Study, storage: RDBStorage, worker: Worker, key: str) -> None:
        self._study = study
        self._storage = storage
        self._worker = worker
        self._key = key

    def run(
        self,
        job: Callable[[], None],
        *,
        waiting: Callable[[Worker], None] = lambda worker: None,
        pause: Callable[[float], None] = time.sleep,
    ) -> bool:
        """Does the job, or waits until another worker has done it.

        Args:
            job: what it raises is passed on, and the next worker tries.
            waiting: told once per worker that is waited for.
            pause: waits so many seconds.

        Returns:
            True where this worker did it.
        """
        with self._turn() as mine:
            told: Worker | None = None
            while (first := self._first()) is not None and first.number != mine.number:
                if first.user_attrs.get(TURN_DONE):
                    return False
                owner = Worker.of(first.user_attrs[OWNER])
                if owner is not None and owner != told:
                    waiting(owner)
                    told = owner
                pause(_POLL_S)
            job()
            self._storage.set_trial_user_attr(mine._trial_id, TURN_DONE, True)
            return True

    @contextmanager
    def _turn(self) -> Iterator[FrozenTrial]:
        """A turn of this worker's own, which ends with the block."""
        attributes = {TURN: self._key, OWNER: self._worker.plain()}
        template = create_trial(state=TrialState.RUNNING, user_attrs=attributes)
        template.datetime_start = datetime.now()
        trial_id = self._storage.create_new_trial(self._study._study_id, template)
        heartbeat = Heartbeat(self._storage, trial_id)
        heartbeat.start()
        try:
            yield self._storage.get_trial(trial_id)
        finally:
            heartbeat.stop()
            self._study.tell(Trial(self._study, trial_id), state=TrialState.FAIL)

    def _first(self) -> FrozenTrial | None:
        """The turn that counts: one that did the job, else the lowest of a living worker."""
        turns = [t for t in self._study.get_trials(deepcopy=False) if t.user_attrs.get(TURN) == self._key]
        stale = set(self._storage._get_stale_trial_ids(self._study._study_id))
        done = [t for t in turns if t.user_attrs.get(TURN_DONE)]
        living = [t for t in turns if t.state is TrialState.RUNNING and _alive(t, stale)]
        return min(done or living, key=lambda t: t.number, default=None)


def _alive(turn: FrozenTrial, stale: set[int]) -> bool:
    owner = Worker.of(turn.user_attrs[OWNER])
    here = owner.alive_here() if owner else None
    return turn._trial_id not in stale if here is None else here
