"""What the tuner and a trial process say to each other, and the files they leave: the whole wire contract.

A trial is one or two *passes*; each pass is a process of its own. The tuner sends a :class:`PassRequest` to the fork
server, the pass writes an answer beside its final name and renames it, and the server reports the wait status.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePath

from autotune.core.loss_scale_choice import Calibration
from autotune.core.outcome import Outcome
from autotune.core.trial import PassKind, TrialSpec
from autotune.core.workload import WorkloadInfo, WorkloadRef

DISK_EXIT = 74
"""Exit code of a pass that could not write its answer (``EX_IOERR`` of sysexits.h)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRequest:
    """One process to run.

    Attributes:
        kind: what it does.
        workload: where the user's code is.
        spec: the trial; None for ``inspect``.
        folder: where its files go (see :class:`PassFiles`).
        environment: variables set in the child before anything of the user's is loaded.
        sent_s: ``time.monotonic()`` of the sender; one clock for all processes, so the
            child can tell how long it took to start.
        timeout_s: when the tuner will kill it; shortly before, the child writes where every thread stands to stderr.
    """

    kind: PassKind
    workload: WorkloadRef
    spec: TrialSpec | None = None
    folder: str
    environment: dict[str, str] = field(default_factory=dict)
    sent_s: float
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a pass has come: it names the phase in which a process died.

    Attributes:
        phase: the phase it is in.
        phases: seconds of the finished phases.
    """

    phase: str
    phases: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectAnswer:
    """Answer of an ``inspect`` pass: exactly one of ``info``, ``usage_error`` and ``user_error`` is set.

    Attributes:
        usage_error: the file does not offer what it must; one sentence.
        user_error: ``file:line: message`` of an exception in the user's code.
        traceback: its full text.
        environment: variables read at import that the user's file sets, with their values.
        preload: modules that a warm parent for this file should have imported.
    """

    info: WorkloadInfo | None = None
    usage_error: str | None = None
    user_error: str | None = None
    traceback: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    preload: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationAnswer:
    """Answer of a ``calibrate`` pass: exactly one of its fields is set.

    Attributes:
        calibration: the initial loss scale with its evidence.
        failure: how the pass ended instead.
    """

    calibration: Calibration | None = None
    failure: Outcome | None = None


@dataclass(frozen=True, slots=True)
class PassFiles:
    """Names of the files of one pass in its folder."""

    folder: str
    kind: PassKind

    def _named(self, ending: str) -> str:
        return str(PurePath(self.folder) / f"{self.kind}.{ending}")

    @property
    def answer(self) -> str:
        """The outcome (or the :class:`InspectAnswer`); there only once it is whole."""
        return self._named("outcome.json")

    @property
    def progress(self) -> str:
        """The :class:`Progress` so far."""
        return self._named("progress.json")

    @property
    def stdout(self) -> str:
        """All that the process and its children printed."""
        return self._named("stdout.txt")

    @property
    def stderr(self) -> str:
        """All that they wrote to stderr."""
        return self._named("stderr.txt")
