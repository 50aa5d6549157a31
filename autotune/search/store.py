"""A study in an Optuna storage: opened, asked, told, read back."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState

from autotune.core.candidate import Candidate
from autotune.core.codec import from_plain, to_plain
from autotune.core.job_check import job_differences
from autotune.core.policy import Stop
from autotune.core.select import MEMORY_SHARE
from autotune.core.space import SearchSpace
from autotune.core.study import Job, Study
from autotune.core.trial import TrialRecord
from autotune.errors import UsageError
from autotune.search import records as written
from autotune.search.params import distributions
from autotune.search.sampler import PolicySampler
from autotune.search.storage import DATABASE_FILE, connect, database_url, redact, resolve_url

_DIRECTIONS = (StudyDirection.MAXIMIZE, StudyDirection.MINIMIZE)
_METRICS = ["samples_per_s", "peak_bytes"]
_SCHEMA_VERSION = 1
_ANNOUNCE_S = 5.0  # a worker that has not named its new trial by then was killed in between
_NOTES = ("chosen", "confirmed", "confirmation", "pareto", "verdict", "stop_reason", "command", "warnings")


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
    """One study. Made by :func:`open_study`."""

    def __init__(self, study: optuna.Study, sampler: PolicySampler, job: Job) -> None:
        self._study = study
        self._sampler = sampler
        self._trials: dict[int, Trial] = {}
        self.job = job

    @property
    def name(self) -> str:
        """The study's name."""
        return self._study.study_name

    def ask(self, *, seconds_left: float | None = None) -> Asked | Stop:
        """Begins the trial that the policy wants next.

        Args:
            seconds_left: of the budget; None for no budget.
        """
        while True:
            trials = self._study.get_trials(deepcopy=False)
            known = [r for t in trials if (r := written.record_of(t)) is not None]
            pending = [c for t in trials if written.record_of(t) is None and (c := written.candidate_of(t)) is not None]
            decision = self._sampler.decide(known, pending, seconds_left=seconds_left)
            if isinstance(decision, Stop):
                return decision
            trial = self._study.ask(fixed_distributions=distributions(self._sampler.space))
            candidate = self._from_params(trial.params)
            trial.set_user_attr(written.CANDIDATE, to_plain(candidate))
            earlier = self._earlier_twin(trial.number, candidate)
            if earlier is None:
                trial.set_user_attr(written.ATTEMPTS, 1)
                self._trials[trial.number] = trial
                return Asked(number=trial.number, candidate=candidate, why=decision.why)
            # Another worker was faster: storages have no compare-and-set, so the lower number wins.
            trial.set_user_attr(written.DUPLICATE_OF, earlier)
            self._study.tell(trial, state=TrialState.FAIL)

    def tell(self, record: TrialRecord) -> None:
        """Stores what happened in a trial that was asked for, or taken over from :meth:`unfinished`."""
        trial = self._trials.pop(record.number, None) or self._revived(record.number)
        written.write_record(trial, record, _limit(self.job))
        state, values = written.optuna_outcome(record)
        self._study.tell(trial, values, state=state)

    def interrupted(self, number: int) -> None:
        """Notes that a trial was broken off on purpose: it is run again on resume, and nothing is held against it."""
        trial = self._trials.pop(number, None) or self._revived(number)
        trial.set_user_attr(written.ATTEMPTS, 0)

    def records(self) -> tuple[TrialRecord, ...]:
        """Returns the trials whose outcome is known, by number."""
        return _records(self._study)

    def unfinished(self) -> tuple[tuple[Asked, int], ...]:
        """Returns trials that a killed or interrupted tuner left running, each with its count of unknown ends."""
        found = []
        for trial in self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            candidate = written.candidate_of(trial)
            if candidate is not None and written.record_of(trial) is None and trial.number not in self._trials:
                asked = Asked(number=trial.number, candidate=candidate, why="left unfinished by an earlier run")
                found.append((asked, written.attempts(trial)))
        return tuple(found)

    def retry(self, asked: Asked) -> None:
        """Notes that an unfinished trial is being run once more."""
        trial = self._revived(asked.number)
        trial.set_user_attr(written.ATTEMPTS, written.attempts(self._frozen(asked.number)) + 1)
        self._trials[asked.number] = trial

    def trial_count(self) -> int:
        """Returns the number of trials begun, without duplicates."""
        return sum(written.candidate_of(t) is not None for t in self._study.get_trials(deepcopy=False))

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

    def study(self) -> Study:
        """Returns the study as far as it has come."""
        return _study_value(self._study)

    def _from_params(self, params: dict[str, Any]) -> Candidate:
        space = self._sampler.space
        names = [name for name, _ in space.axes]
        return next(c for c in space.candidates() if all(getattr(c, name) == params[name] for name in names))

    def _earlier_twin(self, number: int, candidate: Candidate) -> int | None:
        """The number of an earlier trial of the same candidate, waiting for those that are just being announced."""
        give_up = time.monotonic() + _ANNOUNCE_S
        while True:
            earlier = [t for t in self._study.get_trials(deepcopy=False) if t.number < number]
            twin = next((t.number for t in earlier if written.candidate_of(t) == candidate), None)
            if twin is not None or not any(_being_announced(t) for t in earlier) or time.monotonic() > give_up:
                return twin
            time.sleep(0.02)

    def _frozen(self, number: int) -> FrozenTrial:
        return next(t for t in self._study.get_trials(deepcopy=False) if t.number == number)

    def _revived(self, number: int) -> Trial:
        return Trial(self._study, self._frozen(number)._trial_id)


def open_study(
    folder: Path,
    job: Job,
    space: SearchSpace,
    *,
    name: str | None = None,
    storage: str | None = None,
    resume: bool = False,
    memory_share: float = MEMORY_SHARE,
) -> StudyStore:
    """Creates a study, or opens one to go on with it.

    Args:
        folder: the study's folder, which holds ``study.db`` unless ``storage`` names a server.
        job: what is asked for; a stored study must have been asked for the same.
        space: what may be run.
        name: of the study; the folder's name by default.
        storage: a storage URL, or ``env:NAME`` that reads it from the environment. On a server an existing study is
            joined, because several machines run the same command.
        resume: go on with an existing study.
        memory_share: share of the best throughput that objective ``memory`` keeps.

    Raises:
        UsageError: the study exists and ``resume`` was not asked for, or it is about something else.
        AutotuneError: the storage cannot be opened.
    """
    name = name or folder.name
    url = resolve_url(storage) if storage else database_url(folder / DATABASE_FILE)
    backend = connect(url)
    sampler = PolicySampler(
        space,
        memory_limit_bytes=_limit(job),
        objective=job.objective,
        memory_share=memory_share,
        seed=job.seed,
    )
    exists = name in optuna.get_all_study_names(backend)
    if exists and storage is None and not resume:
        raise UsageError(f"the study {name!r} exists already; add --resume to go on with it, or choose another --out")
    study = optuna.create_study(
        storage=backend, sampler=sampler, study_name=name, directions=list(_DIRECTIONS), load_if_exists=True
    )
    stored = study.user_attrs.get("job")
    if stored is None:  # new, or its creator was killed at this very point
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)  # a label that dashboards show, nothing we rely on
            study.set_metric_names(_METRICS)
        study.set_user_attr("schema_version", _SCHEMA_VERSION)
        study.set_user_attr("job", to_plain(job))
    else:
        _check_same(name, from_plain(Job, stored), job)
    store = StudyStore(study, sampler, job)
    _finish_told(store)
    return store


def load_study(where: Path | str, *, name: str | None = None) -> Study:
    """Reads a study.

    Args:
        where: the study's folder, its ``study.db``, a storage URL, or ``env:NAME``.
        name: of the study, where the storage holds several.

    Raises:
        UsageError: there is no study, or several and no name.
        AutotuneError: the storage cannot be opened.
    """
    text = str(where)
    if "://" in text or text.startswith("env:"):
        url = resolve_url(text)
    else:
        path = Path(where)
        path = path / DATABASE_FILE if path.is_dir() else path
        if not path.is_file():
            raise UsageError(f"there is no study at {text}: no file {path.name} there")
        url = database_url(path)
    backend = connect(url)
    names = optuna.get_all_study_names(backend)
    if name is None and len(names) != 1:
        held = f"it holds {', '.join(sorted(names))}; name one" if names else "it holds none"
        raise UsageError(f"no single study at {redact(text)}: {held}")
    if name is not None and name not in names:
        raise UsageError(f"no study named {name!r} at {redact(text)}; it holds {', '.join(sorted(names)) or 'none'}")
    study = optuna.load_study(study_name=name or names[0], storage=backend)
    if "job" not in study.user_attrs:
        raise UsageError(f"the study at {redact(text)} was not made by autotune")
    return _study_value(study)


def _limit(job: Job) -> int:
    """The limit that trials meet in fact: the one asked for, else what the device has."""
    return job.device.memory_usable_bytes if job.memory_limit_bytes is None else job.memory_limit_bytes


def _check_same(name: str, stored: Job, asked: Job) -> None:
    differences = job_differences(stored, asked)
    if differences:
        raise UsageError(
            f"the study {name!r} was made under other conditions, and measurements of both must not be mixed: "
            f"{'; '.join(differences)}; choose another --out for a new study"
        )


def _finish_told(store: StudyStore) -> None:
    """Finishes trials whose record was written right before a kill."""
    for trial in store._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        record = written.record_of(trial)
        if record is not None:
            store.tell(record)


def _being_announced(trial: FrozenTrial) -> bool:
    """True for the moment between a trial's creation by another worker and the writing of its candidate."""
    nameless = trial.state is TrialState.RUNNING and written.CANDIDATE not in trial.user_attrs
    started = trial.datetime_start
    return nameless and started is not None and (datetime.now() - started).total_seconds() < _ANNOUNCE_S


def _study_value(study: optuna.Study) -> Study:
    notes = {key: value for key, value in study.user_attrs.items() if key in _NOTES}
    plain = {"name": study.study_name, "job": study.user_attrs["job"], **notes}
    return from_plain(Study, plain | {"records": [to_plain(r) for r in _records(study)]})


def _records(study: optuna.Study) -> tuple[TrialRecord, ...]:
    found: Iterable[TrialRecord | None] = (written.record_of(t) for t in study.get_trials(deepcopy=False))
    return tuple(sorted((r for r in found if r is not None), key=lambda r: r.number))
