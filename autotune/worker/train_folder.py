"""The folder of a training run: its identity, its lock, its checkpoints, its metrics."""

from __future__ import annotations

import contextlib
import csv
import fcntl
import io
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from autotune.core.codec import from_plain, to_plain
from autotune.core.training_run import RunRecord, changes, conflicts
from autotune.errors import AutotuneError, UsageError

_KEPT = 2
_LOCK_WAIT_S = 10.0  # a process that was killed a moment ago may still be giving back its memory


class RunFolder:
    """Files of one run. Everything is written beside its final name and renamed, so that a kill leaves no half file.

    Args:
        path: the folder; made if it is not there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._checkpoints = path / "checkpoints"
        try:
            self._checkpoints.mkdir(parents=True, exist_ok=True)
            # A record lock: the kernel drops it with this process, and no child of the user's inherits it.
            self._lock = (path / ".lock").open("w")
        except OSError as problem:
            raise AutotuneError(f"cannot write to {path}: {problem.strerror}; name another --out") from None
        self._acquire()

    def _acquire(self) -> None:
        give_up = time.monotonic() + _LOCK_WAIT_S
        while True:
            try:
                fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError:
                if time.monotonic() > give_up:
                    raise UsageError(f"another process is training in {self.path}; name another --out") from None
                time.sleep(0.1)

    def claim(self, asked: RunRecord, *, resume: bool) -> tuple[str, ...]:
        """Makes the folder this run's own, or checks that it is.

        Returns:
            sentences about what has changed since the run began.

        Raises:
            UsageError: it holds another run, or this one and ``resume`` was not asked for.
        """
        file = self.path / "run.json"
        if not file.exists():
            self.write("run.json", json.dumps(to_plain(asked), indent=2) + "\n")
            return ()
        if not resume:
            raise UsageError(f"{self.path} holds a training run; add --resume to continue it, or name another --out")
        stored = from_plain(RunRecord, json.loads(file.read_text(encoding="utf-8")))
        different = conflicts(stored, asked)
        if different:
            raise UsageError(f"{self.path} holds another run: {'; '.join(different)}; name another --out for a new one")
        changed = changes(stored, asked)
        if not changed:
            return ()
        self.write("run.json", json.dumps(to_plain(asked), indent=2) + "\n")
        return (
            f"since the run began: {'; '.join(changed)}; its weights will differ from an unbroken run's by rounding",
        )

    def write(self, name: str, text: str) -> None:
        """Writes a text file."""
        with _writing(self.path / name):
            beside = self.path / f".{name}.part"
            beside.write_text(text, encoding="utf-8")
            beside.replace(self.path / name)

    def write_metrics(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Writes ``metrics.csv``: one row per epoch, every column that any of them has."""
        text = io.StringIO()
        columns = list(dict.fromkeys(name for row in rows for name in row))
        writer = csv.DictWriter(text, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        self.write("metrics.csv", text.getvalue())

    def save(self, epoch: int, updates: int, save_state: Callable[[Path], Any], position: Mapping[str, Any]) -> None:
        """Writes a checkpoint, and removes older ones but one.

        Args:
            epoch: epochs that are done.
            updates: updates done in the present one.
            save_state: writes the loop's state under the path it is given.
            position: what else training needs to go on, as JSON values.
        """
        final = self._checkpoints / f"{epoch:05d}-{updates:08d}"
        if final.exists():
            return
        part = self._checkpoints / ".part"
        with _writing(final):
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir()
            save_state(part / "state")
            (part / "position.json").write_text(json.dumps(dict(position)), encoding="utf-8")
            for file in [*part.iterdir(), part]:
                _to_disk(file)
            part.rename(final)
            _to_disk(self._checkpoints)
        for old in self._saved()[:-_KEPT]:
            shutil.rmtree(old)

    def latest(self) -> tuple[Path, dict[str, Any]] | None:
        """Returns the newest checkpoint's state and position; None where nothing was saved yet."""
        saved = self._saved()
        if not saved:
            return None
        position: dict[str, Any] = json.loads((saved[-1] / "position.json").read_text(encoding="utf-8"))
        return saved[-1] / "state", position

    def _saved(self) -> list[Path]:
        return sorted(path for path in self._checkpoints.iterdir() if not path.name.startswith("."))


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Says of a disk that is full, or any other failure to write, what it was about."""
    try:
        yield
    except Exception as problem:  # TensorFlow's writer has errors of its own
        words = problem.strerror if isinstance(problem, OSError) else str(problem).strip().splitlines()[0]
        raise AutotuneError(f"cannot write {path}: {words}; the run goes on from its latest checkpoint") from problem


def _to_disk(path: Path) -> None:
    """Has the kernel write a file or folder out, so that a power cut cannot leave a name without its content."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
