"""A study in an Optuna storage: asked, told, taken over, read back. Several workers may share it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from autotune.core.candidate import Candidate
from autotune.core.codec import from_plain, to_plain
from autotune.core.policy import Stop
from autotune.core.study import Job, Study
from autotune.core.trial import TrialRecord
from autotune.search import records as written
from autotune.search.liveness import DEAD_AFTER_S, Heartbeat, Worker
from autotune.search.once import Once
from autotune.search.params import distributions
from autotune.search.sampler import PolicySampler
from autotune.search.storage import redact

_ANNOUNCE_S = 5.0  # a worker that has not named its new trial by then was killed in between
_NOTES = (
    "chosen",
    "confirmed",
    "confirmation",
    "loss_scale",
    "pareto",
    "verdict",
    "stop_reason",
    "command",
    "warnings",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A trial that was begun in the storage.

    Attributes:
        number: of the trial.
        candidate: what to run.
        why: for people, a few words.
    """

    number: int
    candidate: Candidate
    why: str


class StudyStore:
    """One study, as one worker sees it. Made by :func:`autotune.search.opening.open_study`.

    Args:
        study: Optuna's.
        storage: where it is kept.
        sampler: proposes candidates.
        job: what was asked for.
        limit_bytes: the memory limit that trials meet.
    """

    def __init__(
        self, study: optuna.Study, storage: RDBStorage, sampler: PolicySampler, job: Job, limit_bytes: int
    ) -> None:
        self._study = study
        self._storage = storage
        self._sampler = sampler
        self._limit_bytes = limit_bytes
        self._worker = Worker.this()
        self._trials: dict[int, tuple[Trial, Heartbeat]] = {}
        self.job = job

    @property
    def name(self) -> str:
        """The study's name."""
        return self._study.study_name

    def ask(self, *, most: int | None = None, seconds_left: float | None = None) -> Asked | Stop:
        """Begins the trial that the policy wants next.

        Args:
            most: trials that the study may have; None for any number.
            seconds_left: of the budget; None for no budget.
        """
        while most is None or self.trial_count() < most:
            trials = self._all()
            known = [r for t in trials if (r := written.record_of(t)) is not None]
            pending = [c for t in trials if written.record_of(t) is None and (c := written.candidate_of(t)) is not None]
            decision = self._sampler.decide(known, pending, seconds_left=seconds_left)
            if isinstance(decision, Stop):
                return decision
            trial = self._study.ask(fixed_distributions=distributions(self._sampler.space))
            again = written.CANDIDATE in trial.user_attrs  # Optuna hands out trials that were put back first
            candidate = self._from_params(trial.params)
            self._begin(trial)
            trial.set_user_attr(written.CANDIDATE, to_plain(candidate))
            earlier = None if again else self._earlier_twin(trial.number, candidate)
            if earlier is None and most is not None and self._place(trial.number) >= most:
                earlier = trial.number  # too many workers asked for the last one
            if earlier is None:
                trial.set_user_attr(written.ATTEMPTS, 1)
                return Asked(number=trial.number, candidate=candidate, why=decision.why)
            # Another worker was faster: storages have no compare-and-set, so the lower number wins.
            trial.set_user_attr(written.DUPLICATE_OF, earlier)
            self._end(trial.number)
            self._study.tell(trial, state=TrialState.FAIL)
        return Stop(reason=f"{most} trials were run")

    def tell(self, record: TrialRecord) -> None:
        """Stores what happened in a trial that this worker began, or took over.

        Where the trial was given away meanwhile (this machine had been silent for too long), the other worker's outcome
        counts and this one is dropped.
        """
        trial = self._end(record.number)
        owner = Worker.of(self._frozen(record.number).user_attrs.get(written.OWNER))
        if owner is not None and owner != self._worker:
            return
        try:
            written.write_record(trial, record, self._limit_bytes)
            state, values = written.optuna_outcome(record)
            self._study.tell(trial, values, state=state)
        except UpdateFinishedTrialError:
            return

    def interrupted(self, number: int) -> None:
        """Puts back a trial that was broken off on purpose: it is run again, and nothing is held against it."""
        trial = self._end(number)
        trial.set_user_attr(written.ATTEMPTS, 0)
        trial.set_user_attr(written.OWNER, None)
        self._storage.set_trial_state_values(trial._trial_id, TrialState.WAITING)

    def records(self) -> tuple[TrialRecord, ...]:
        """Returns the trials whose outcome is known, by number."""
        return records_of(self._study)

    def unfinished(self) -> tuple[tuple[Asked, int], ...]:
        """Returns trials that may be taken over, each with its count of unknown ends.

        They were put back by an interrupted worker (0), or their worker was killed.
        """
        found = []
        for trial, _ in self._open(dead=True):
            candidate = written.candidate_of(trial)
            if candidate is not None:
                asked = Asked(number=trial.number, candidate=candidate, why="left unfinished by an earlier run")
                found.append((asked, written.attempts(trial)))
        return tuple(found)

    def others_running(self) -> bool:
        """True while another living worker runs a trial, or is about to."""
        return any(True for _ in self._open(dead=False)) or any(_being_announced(t) for t in self._all())

    def take(self, asked: Asked, unknown_ends: int) -> bool:
        """Takes an unfinished trial over, to run it once more; False where another worker was faster.

        Args:
            asked: the trial.
            unknown_ends: as :meth:`unfinished` gave it.
        """
        before = self._frozen(asked.number)
        if before.state.is_finished() or written.attempts(before) != unknown_ends:
            return False
        if before.state is TrialState.WAITING:
            # The beat comes first: between the next line and the owner's name nothing else says that it is taken.
            self._storage.record_heartbeat(before._trial_id)
            if not self._storage.set_trial_state_values(before._trial_id, TrialState.RUNNING):
                return False
        elif not self._claims(before):
            return False
        trial = Trial(self._study, before._trial_id)
        self._begin(trial)
        trial.set_user_attr(written.ATTEMPTS, unknown_ends + 1)
        return True

    def trial_count(self) -> int:
        """Returns the number of trials begun, without duplicates."""
        return sum(written.candidate_of(t) is not None for t in self._all())

    def update(self, **notes: Any) -> None:
        """Stores facts about the study as a whole.

        Args:
            notes: fields of :class:`~autotune.core.study.Study` beside its name, job and records.

        Raises:
            ValueError: another name.
        """
        for name, value in notes.items():
            if name not in _NOTES:
                raise ValueError(f"a study has no note {name!r}; known: {', '.join(_NOTES)}")
            self._study.set_user_attr(name, redact(value) if isinstance(value, str) else to_plain(value))

    def confirm_once(
        self,
        confirm: Callable[[Callable[[], bool]], None],
        *,
        say: Callable[[str], None] = lambda sentence: None,
        stop_requested: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Runs ``confirm``, unless another worker that knows as many trials does, or did: then waits for it.

        Args:
            confirm: stores the choice, if what it is given says that it still counts.
            say: told in a sentence who is waited for.
            stop_requested: True ends the waiting.

        Returns:
            True where this worker did it.

        Raises:
            KeyboardInterrupt: a stop was requested while waiting.
        """

        def waiting(worker: Worker) -> None:
            say(f"process {worker.pid} on {worker.host} confirms the choice for all; waiting for it")

        def pause(seconds: float) -> None:
            if stop_requested():
                raise KeyboardInterrupt("stopped while another worker confirmed")
            time.sleep(seconds)

        once = Once(self._study, self._storage, self._worker, known=len(self.records()))
        return once.run(confirm, waiting=waiting, pause=pause)

    def study(self) -> Study:
        """Returns the study as far as it has come."""
        return study_value(self._study)

    def finish_told(self) -> None:
        """Finishes trials whose record was written right before their worker was killed."""
        for trial, _ in self._open(dead=True, told=True):
            record = written.record_of(trial)
            if record is not None:
                Trial(self._study, trial._trial_id).set_user_attr(written.OWNER, self._worker.plain())
                self.tell(record)

    def _begin(self, trial: Trial) -> None:
        heartbeat = Heartbeat(self._storage, trial._trial_id)
        heartbeat.start()
        trial.set_user_attr(written.OWNER, self._worker.plain())
        self._trials[trial.number] = trial, heartbeat

    def _end(self, number: int) -> Trial:
        held = self._trials.pop(number, None)
        if held is None:
            return Trial(self._study, self._frozen(number)._trial_id)
        held[1].stop()
        return held[0]

    def _open(self, *, dead: bool, told: bool = False) -> Iterable[tuple[FrozenTrial, Worker | None]]:
        """Trials that are not over and not this worker's, by whether their worker is dead."""
        stale = set(self._storage._get_stale_trial_ids(self._study._study_id))
        for trial in self._all():
            if trial.state not in (TrialState.RUNNING, TrialState.WAITING) or trial.number in self._trials:
                continue
            if written.CANDIDATE not in trial.user_attrs or (written.record_of(trial) is not None) != told:
                continue
            owner = Worker.of(trial.user_attrs.get(written.OWNER))
            alive = owner.alive_here() if owner else None
            if alive is None:
                alive = trial.state is TrialState.RUNNING and trial._trial_id not in stale
            if alive != dead:
                yield trial, owner

    def _claims(self, trial: FrozenTrial) -> bool:
        """Claims a dead worker's trial. A claim is a finished trial of its own: its number says who came first."""
        key = f"{trial.number}/{written.attempts(trial)}"
        mine = {written.CLAIM: key, written.OWNER: self._worker.plain()}
        self._study.add_trial(create_trial(state=TrialState.FAIL, user_attrs=mine))
        claims = [t for t in self._all() if t.user_attrs.get(written.CLAIM) == key and not _outlived(t)]
        first = min(claims, key=lambda t: t.number)
        return Worker.of(first.user_attrs[written.OWNER]) == self._worker

    def _from_params(self, params: dict[str, Any]) -> Candidate:
        space = self._sampler.space
        names = [name for name, _ in space.axes]
        return next(c for c in space.candidates() if all(getattr(c, name) == params[name] for name in names))

    def _earlier_twin(self, number: int, candidate: Candidate) -> int | None:
        """The number of an earlier trial of the same candidate, waiting for those that are just being announced."""
        give_up = time.monotonic() + _ANNOUNCE_S
        while True:
            earlier = [t for t in self._all() if t.number < number]
            twin = next((t.number for t in earlier if written.candidate_of(t) == candidate), None)
            if twin is not None or not any(_being_announced(t) for t in earlier) or time.monotonic() > give_up:
                return twin
            time.sleep(0.02)

    def _place(self, number: int) -> int:
        return sum(written.candidate_of(t) is not None and t.number < number for t in self._all())

    def _all(self) -> list[FrozenTrial]:
        return self._study.get_trials(deepcopy=False)

    def _frozen(self, number: int) -> FrozenTrial:
        return next(t for t in self._all() if t.number == number)


def study_value(study: optuna.Study) -> Study:
    """Returns a study of ours as a value."""
    notes = {key: value for key, value in study.user_attrs.items() if key in _NOTES}
    plain = {"name": study.study_name, "job": study.user_attrs["job"], **notes}
    return from_plain(Study, plain | {"records": [to_plain(r) for r in records_of(study)]})


def records_of(study: optuna.Study) -> tuple[TrialRecord, ...]:
    """Returns the trials whose outcome is known, by number."""
    found: Iterable[TrialRecord | None] = (written.record_of(t) for t in study.get_trials(deepcopy=False))
    return tuple(sorted((r for r in found if r is not None), key=lambda r: r.number))


def _outlived(claim: FrozenTrial) -> bool:
    """True for a claim whose worker died before it could act on it."""
    owner = Worker.of(claim.user_attrs[written.OWNER])
    made = claim.datetime_start
    old = made is not None and (datetime.now() - made).total_seconds() > 2 * DEAD_AFTER_S
    return old or (owner is not None and owner.alive_here() is False)


def _being_announced(trial: FrozenTrial) -> bool:
    """True for the moment between a trial's creation by another worker and the writing of its candidate."""
    named = written.CANDIDATE in trial.user_attrs or written.TURN in trial.user_attrs
    nameless = trial.state is TrialState.RUNNING and not named
    started = trial.datetime_start
    # Its host's clock may run hours ahead of ours.
    return nameless and started is not None and abs((datetime.now() - started).total_seconds()) < _ANNOUNCE_S
