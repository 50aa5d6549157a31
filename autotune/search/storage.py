"""Where a study is kept: a SQLite file in its folder, or a database server. Passwords never leave this file."""

from __future__ import annotations

import os
import re
import time
import warnings
from pathlib import Path

import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.storages import RDBStorage
from sqlalchemy.exc import (
    ArgumentError,
    IntegrityError,
    NoSuchModuleError,
    OperationalError,
    ProgrammingError,
    SQLAlchemyError,
)

from autotune.errors import AutotuneError, UsageError
from autotune.search.liveness import DEAD_AFTER_S, HEARTBEAT_S

DATABASE_FILE = "study.db"
_CREATE_ATTEMPTS = 6
_BUSY_TIMEOUT_S = 60  # another process may be writing the same SQLite file


def resolve_url(storage: str) -> str:
    """Returns a storage URL with the driver that autotune installs; ``env:NAME`` reads it from the environment.

    Raises:
        UsageError: the variable is not set, or it is no URL.
    """
    url = storage
    if storage.startswith("env:"):
        name = storage.removeprefix("env:")
        url = os.environ.get(name, "")
        if not url:
            raise UsageError(f"--storage {storage}: the environment variable {name!r} is not set; set it to the URL")
    if "://" not in url:
        raise UsageError("--storage takes a URL like postgresql://user@host/database, or env:NAME that holds one")
    scheme, rest = url.split("://", 1)
    driver = {"postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}.get(scheme, scheme)
    return f"{driver}://{rest}"


def redact(text: str) -> str:
    """Returns ``text`` with the passwords of all URLs in it replaced by ``***``."""
    hidden = re.sub(r"(\w[\w+.-]*://[^/@\s:]*):[^/\s]*@", r"\1:***@", text)
    return re.sub(r"(?i)([?&](?:password|passwd|sslpassword)=)[^&\s]*", r"\1***", hidden)


def database_url(path: Path) -> str:
    """Returns the URL of a SQLite file."""
    return f"sqlite:///{path.resolve()}"


def connect(url: str) -> RDBStorage:
    """Opens a storage.

    Raises:
        UsageError: not a URL of a database that can be reached with the packages installed.
        AutotuneError: the database refused.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    warnings.filterwarnings("ignore", message="Heartbeat of storage is supposed to be used")  # we beat ourselves
    try:
        return _create(url)
    except (ArgumentError, NoSuchModuleError):
        raise UsageError(f"{redact(url)} is no storage URL; write one like postgresql://user@host/database") from None
    except ImportError:
        raise UsageError(
            f"the driver for {redact(url)} is not installed; pip install 'autotune[postgresql]' brings PostgreSQL's"
        ) from None
    except SQLAlchemyError as problem:
        raise AutotuneError(f"cannot open the study storage {redact(url)}: {_first_line(problem)}") from None
    except RuntimeError as problem:  # Optuna: tables of another version
        raise AutotuneError(f"cannot read the study storage {redact(url)}: {redact(str(problem))}") from None


def _create(url: str) -> RDBStorage:
    connect_args = {"connect_args": {"timeout": _BUSY_TIMEOUT_S}} if url.startswith("sqlite") else None
    for attempt in range(_CREATE_ATTEMPTS):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ExperimentalWarning)  # heartbeats; our tests hold them to what we need
                return RDBStorage(
                    url, engine_kwargs=connect_args, heartbeat_interval=HEARTBEAT_S, grace_period=DEAD_AFTER_S
                )
        except (IntegrityError, OperationalError, ProgrammingError) as problem:
            # Workers that start together on an empty storage all create its tables; one of them comes first. SQLite
            # reports that as it reports a file that cannot be opened, so there the words decide.
            late = not isinstance(problem, OperationalError) or "already exists" in str(problem)
            if not late or attempt == _CREATE_ATTEMPTS - 1:
                raise
            time.sleep(0.2 * (attempt + 1))
    raise AssertionError("unreachable")


def _first_line(problem: SQLAlchemyError) -> str:
    cause = getattr(problem, "orig", None) or problem
    return redact(str(cause).strip().splitlines()[0])
