"""What several workers of a study must not all do: confirming the choice."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

import optuna
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from autotune.search.liveness import Heartbeat, Worker
from autotune.search.records import OWNER, TURN, TURN_DONE, TURN_READY

_POLL_S = 1.0
_BEGINNING_S = 5.0  # from a turn's creation to its first heartbeat; a worker that has given none by then was killed


class Once:
    """A job that one worker does for all who want the same done.

    Whoever wants it enters a turn: a running trial of Optuna without a candidate, whose heartbeat tells that its worker
    lives. Of living turns the lowest number does the job, the others wait; where it fails or its worker is killed, the
    next one does it. No table shows these trials.

    Args:
        study: Optuna's.
        storage: where it is kept.
        worker: who asks.
        known: trials that the job is based on. Turns for fewer are other jobs; what was done for more is done.
    """

    def __init__(self, study: optuna.Study, storage: RDBStorage, worker: Worker, known: int) -> None:
        self._study = study
        self._storage = storage
        self._worker = worker
        self._known = known

    def run(
        self,
        job: Callable[[Callable[[], bool]], None],
        *,
        waiting: Callable[[Worker], None] = lambda worker: None,
        pause: Callable[[float], None] = time.sleep,
    ) -> bool:
        """Does the job, or waits until another worker has done it.

        Args:
            job: gets a function that says whether its turn still counts, to ask before it stores anything: a worker
                that was cut off for too long is taken for dead. What it raises is passed on, and the next worker tries.
            waiting: told once per worker that is waited for.
            pause: waits so many seconds; what it raises ends the waiting.

        Returns:
            True where this worker did it.
        """
        with self._turn() as mine:

            def counts() -> bool:
                first = self._first()
                return first is not None and first.number == mine.number

            told: Worker | None = None
            while not counts():
                first = self._first()
                if first is not None and first.user_attrs.get(TURN_DONE):
                    return False
                owner = Worker.of(first.user_attrs[OWNER]) if first else None
                if owner is not None and owner != told:
                    waiting(owner)
                    told = owner
                pause(_POLL_S)
            job(counts)
            if not counts():
                return False
            self._storage.set_trial_user_attr(mine._trial_id, TURN_DONE, True)
            return True

    @contextmanager
    def _turn(self) -> Iterator[FrozenTrial]:
        """A turn of this worker's own, which ends with the block."""
        attributes = {TURN: self._known, OWNER: self._worker.plain()}
        template = create_trial(state=TrialState.RUNNING, user_attrs=attributes)
        template.datetime_start = datetime.now()
        trial_id = self._storage.create_new_trial(self._study._study_id, template)
        heartbeat = Heartbeat(self._storage, trial_id)
        try:
            heartbeat.start()
            self._storage.set_trial_user_attr(trial_id, TURN_READY, True)
            yield self._storage.get_trial(trial_id)
        finally:
            heartbeat.stop()
            self._study.tell(Trial(self._study, trial_id), state=TrialState.FAIL)

    def _first(self) -> FrozenTrial | None:
        """The turn that counts: one that did the job, else the lowest of a living worker."""
        turns = [t for t in self._study.get_trials(deepcopy=False) if TURN in t.user_attrs]
        stale = set(self._storage._get_stale_trial_ids(self._study._study_id))
        done = [t for t in turns if t.user_attrs.get(TURN_DONE) and t.user_attrs[TURN] >= self._known]
        same = [t for t in turns if t.user_attrs[TURN] == self._known and t.state is TrialState.RUNNING]
        living = [t for t in same if _alive(t, stale)]
        return min(done or living, key=lambda t: t.number, default=None)


def _alive(turn: FrozenTrial, stale: set[int]) -> bool:
    owner = Worker.of(turn.user_attrs[OWNER])
    here = owner.alive_here() if owner else None
    if here is not None:
        return here
    begun = turn.datetime_start
    # Without a heartbeat Optuna never calls a trial stale.
    beginning = begun is not None and abs((datetime.now() - begun).total_seconds()) < _BEGINNING_S
    return turn._trial_id not in stale and (beginning or TURN_READY in turn.user_attrs)
