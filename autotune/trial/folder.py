"""The folder of a trial: what is written to it, and how a half-written or missing answer is told from a whole one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, TypeVar

from autotune.core.codec import from_plain, to_plain
from autotune.core.passes import PassFiles, Progress
from autotune.core.trial import PassKind
from autotune.errors import AutotuneError

T = TypeVar("T")

_RUNNING = "running"
_STDERR_TAIL = 4 << 20  # an allocator that fails dumps its state, a line per chunk, after saying so


class TrialFolder:
    """``trials/N/`` of a study, or a folder beside the trials for a confirmation run.

    Args:
        path: the folder; made where it is not there.
        kinds: passes whose earlier files are removed, so that no old answer is taken for a new one.

    Raises:
        AutotuneError: it cannot be written (a full disk, a folder without permission).
    """

    def __init__(self, path: Path, kinds: tuple[PassKind, ...]) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            for kind in kinds:
                Path(PassFiles(str(path), kind).answer).unlink(missing_ok=True)
                Path(PassFiles(str(path), kind).progress).unlink(missing_ok=True)
        except OSError as problem:
            raise _unwritable(path, problem) from problem

    def write(self, name: str, value: Any) -> None:
        """Writes a value as JSON beside its name and renames it.

        Raises:
            AutotuneError: it cannot be written.
        """
        beside = self.path / f"{name}.part"
        try:
            beside.write_text(json.dumps(to_plain(value), indent=1))
            beside.replace(self.path / name)
        except OSError as problem:
            raise _unwritable(self.path, problem) from problem

    def mark_running(self) -> None:
        """Leaves a mark that is there for as long as the trial is in flight, and after a tuner that died in it."""
        (self.path / _RUNNING).write_text(str(os.getpid()))

    def unmark_running(self) -> None:
        """Takes the mark away."""
        (self.path / _RUNNING).unlink(missing_ok=True)


def trial_in_flight(study_folder: Path) -> int | None:
    """Returns the number of the trial that was running when the tuner died, None where it ended in order.

    That trial may be what killed the tuner, so a resumed study runs it last, and once.
    """
    for mark in sorted((study_folder / "trials").glob(f"*/{_RUNNING}")):
        if mark.parent.name.isdigit():
            return int(mark.parent.name)
    return None


def read_answer(files: PassFiles, cls: type[T]) -> T | None:
    """Returns the answer of a pass; None where there is none.

    Raises:
        ValueError: it cannot be read, in one sentence.
    """
    try:
        return from_plain(cls, json.loads(Path(files.answer).read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as problem:
        raise ValueError(f"its outcome file cannot be read: {problem}") from problem


def read_progress(files: PassFiles) -> Progress | None:
    """Returns how far a pass came, where it is known."""
    try:
        return from_plain(Progress, json.loads(Path(files.progress).read_bytes()))
    except (OSError, ValueError):
        return None


def stderr_tail(files: PassFiles) -> str:
    """Returns the end of what a pass wrote to stderr, whatever bytes are in it."""
    try:
        with Path(files.stderr).open("rb") as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(max(0, stream.tell() - _STDERR_TAIL))
            return stream.read().decode(errors="replace")
    except OSError:
        return ""


def _unwritable(path: Path, problem: OSError) -> AutotuneError:
    return AutotuneError(f"cannot write to {path}: {problem.strerror or problem}; free it or choose another --out")
