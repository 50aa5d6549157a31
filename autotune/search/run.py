"""The loop: ask, run, tell, until there is a reason to stop."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from autotune.core.candidate import Candidate
from autotune.core.outcome import Outcome, State
from autotune.core.policy import Stop, give_up_update_s
from autotune.core.trial import TrialRecord
from autotune.errors import UserCodeError
from autotune.search.store import Asked, StudyStore

_UNKNOWN_ENDS = 2  # a trial whose tuner died this often is not tried again
_POLL_S = 1.0


class RunTrial(Protocol):
    """Runs one trial to its end.

    Every failure of the candidate is in the record; an exception means that the study cannot go on.
    """

    def __call__(
        self, number: int, candidate: Candidate, *, give_up_update_s: float | None, timeout_s: float | None
    ) -> TrialRecord:
        """Runs ``candidate`` as trial ``number`` (whose folder may exist: a trial can be run again after a kill).

        Args:
            number: of the trial.
            candidate: what to run.
            give_up_update_s: for the measuring plan: an update slower than this is hopeless.
            timeout_s: seconds left of the budget, on top of the trial's own limit; None for no budget.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialStarted:
    """A trial begins.

    Attributes:
        number: of the trial.
        candidate: what is run.
        why: for people, a few words.
    """

    number: int
    candidate: Candidate
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialEnded:
    """A trial is over and stored.

    Attributes:
        record: what happened.
    """

    record: TrialRecord


Event = TrialStarted | TrialEnded


def search(
    store: StudyStore,
    run_trial: RunTrial,
    *,
    trials: int,
    budget_s: float | None = None,
    on_event: Callable[[Event], None] = lambda event: None,
    clock: Callable[[], float] = time.monotonic,
    wall_clock: Callable[[], float] = time.time,
    stop_requested: Callable[[], bool] = lambda: False,
    pause: Callable[[float], None] = time.sleep,
) -> str:
    """Runs trials until ``trials`` are in the study, the budget is spent, the policy stops, or a stop was requested.

    Other workers may run the same loop on the same study. None of them ends while another one's trial is running: its
    outcome may open something up, and if that worker is killed, its trial is taken over.

    Args:
        store: the study; it decides what comes next.
        run_trial: runs one trial.
        trials: most trials of the study, those of earlier runs included.
        budget_s: seconds from now, the trial in flight included; None for none.
        on_event: told of every trial.
        clock: monotonic seconds.
        wall_clock: seconds since the epoch.
        stop_requested: asked between trials; True ends the search after the current trial.
        pause: waits so many seconds for other workers.

    Returns:
        Why the search ended, in one sentence; also stored.

    Raises:
        UserCodeError: the user's code raised, and nothing has completed in this study.
        KeyboardInterrupt: passed on; the trial in flight will be run again on resume.
    """
    deadline = None if budget_s is None else clock() + budget_s
    loop = _Loop(store, run_trial, deadline, clock, on_event, stop_requested)
    company, quiet_since = False, -1
    while True:
        alone = not store.others_running()  # before the policy decides: then it decides on all there is to know
        company = company or not alone
        reason = loop.run_put_back() or loop.run_next(trials)
        # Nobody knows whether these killed their worker, so they come last, once; after that they count as crashed.
        if reason is None or loop.run_orphan():
            continue
        if loop.reason_to_stop() is not None or (alone and not company):
            break
        # Another worker may be about to begin what it decided on before our last outcome was known.
        count = store.trial_count()
        if alone and count == quiet_since:
            break
        quiet_since = count if alone else -1
        pause(_POLL_S)
    for asked, unknown_ends in store.unfinished():
        if unknown_ends >= _UNKNOWN_ENDS and store.take(asked, unknown_ends):
            loop.end(_given_up(asked, wall_clock()))
    store.update(stop_reason=reason)
    return reason


class _Loop:
    def __init__(
        self,
        store: StudyStore,
        run_trial: RunTrial,
        deadline: float | None,
        clock: Callable[[], float],
        on_event: Callable[[Event], None],
        stop_requested: Callable[[], bool],
    ) -> None:
        self._store = store
        self._run_trial = run_trial
        self._deadline = deadline
        self._clock = clock
        self._on_event = on_event
        self._stop_requested = stop_requested

    def run_next(self, trials: int) -> str | None:
        """Runs the trial that the policy wants, or says why there is none."""
        reason = self.reason_to_stop()
        if reason is not None:
            return reason
        asked = self._store.ask(most=trials, seconds_left=self._left())
        if isinstance(asked, Stop):
            return asked.reason
        self._run(asked)
        return None

    def run_put_back(self) -> str | None:
        """Runs trials that were broken off on purpose, or says why not all."""
        for asked in (asked for asked, unknown_ends in self._store.unfinished() if unknown_ends == 0):
            reason = self.reason_to_stop()
            if reason is not None:
                return reason
            if self._store.take(asked, 0):
                self._run(asked)
        return None

    def run_orphan(self) -> bool:
        """Runs one trial whose worker was killed; False where there is none, or no time."""
        for asked, unknown_ends in self._store.unfinished():
            if (
                0 < unknown_ends < _UNKNOWN_ENDS
                and self.reason_to_stop() is None
                and self._store.take(asked, unknown_ends)
            ):
                self._run(asked)
                return True
        return False

    def end(self, record: TrialRecord) -> None:
        """Stores an outcome."""
        self._store.tell(record)
        self._on_event(TrialEnded(record=record))

    def _run(self, asked: Asked) -> None:
        known = self._store.records()
        try:
            self._on_event(TrialStarted(number=asked.number, candidate=asked.candidate, why=asked.why))
            record = self._run_trial(
                asked.number,
                asked.candidate,
                give_up_update_s=give_up_update_s(known, asked.candidate, self._store.job.objective),
                timeout_s=self._left(),
            )
        except BaseException:  # Ctrl-C, or a machine that cannot go on: not the candidate's fault
            self._store.interrupted(asked.number)
            raise
        self.end(record)
        if record.outcome.user_error and not any(r.completed for r in (*known, record)):
            raise UserCodeError(record.outcome.user_error, record.outcome.traceback or "")

    def _left(self) -> float | None:
        return None if self._deadline is None else self._deadline - self._clock()

    def reason_to_stop(self) -> str | None:
        """Why no further trial may begin, whatever the policy says; None where one may."""
        if self._stop_requested():
            return "stopped on request after the trial in flight"
        left = self._left()
        return "the time budget is spent" if left is not None and left <= 0 else None


def _given_up(asked: Asked, now_unix: float) -> TrialRecord:
    reason = "the tuner ended twice while this trial ran, so it is not tried again"
    outcome = Outcome(state=State.CRASHED, reason=reason)
    return TrialRecord(number=asked.number, candidate=asked.candidate, outcome=outcome, started_unix=now_unix, wall_s=0)
