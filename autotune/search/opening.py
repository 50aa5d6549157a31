"""Opens studies: creates one, goes on with one, joins one on a server, reads one."""

from __future__ import annotations

import warnings
from pathlib import Path

import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.study import StudyDirection

from autotune.core.codec import from_plain, to_plain
from autotune.core.job_check import job_differences
from autotune.core.select import MEMORY_SHARE
from autotune.core.space import SearchSpace
from autotune.core.study import Job, Study
from autotune.errors import UsageError
from autotune.search.sampler import PolicySampler
from autotune.search.storage import DATABASE_FILE, connect, database_url, redact, resolve_url
from autotune.search.store import StudyStore, study_value

_DIRECTIONS = (StudyDirection.MAXIMIZE, StudyDirection.MINIMIZE)
_METRICS = ["samples_per_s", "peak_bytes"]
_SCHEMA_VERSION = 1


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
    store = StudyStore(study, backend, sampler, job, _limit(job))
    store.finish_told()
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
    return study_value(study)


def stored_job(where: Path | str, *, name: str) -> Job | None:
    """Returns what a study was asked for; None where it does not exist yet.

    Args:
        where: the study's folder, a storage URL, or ``env:NAME``.
        name: of the study.

    Raises:
        UsageError: the URL is none.
        AutotuneError: the storage cannot be opened.
    """
    text = str(where)
    remote = "://" in text or text.startswith("env:")
    backend = connect(resolve_url(text) if remote else database_url(Path(where) / DATABASE_FILE))
    if name not in optuna.get_all_study_names(backend):
        return None
    stored = optuna.load_study(study_name=name, storage=backend).user_attrs.get("job")
    return None if stored is None else from_plain(Job, stored)


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
