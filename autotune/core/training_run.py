"""A training run: what identifies it, what its process is told, and what it says. The wire contract of ``train``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from autotune.core.candidate import Candidate
from autotune.core.codec import from_plain, to_plain
from autotune.core.settings import TrainSettings
from autotune.core.tuned import Software, WorkloadId
from autotune.core.workload import WorkloadRef

# The same update up to the rounding of the precision: a run may be moved to another GPU with these.
_FREE = ("micro_batch", "replicas", "execution", "jit_compile", "recompute")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """What a training run is; ``run.json`` in its folder.

    Attributes:
        workload: the user's code.
        config: the tuned settings.
        seed: seeds weights, shuffling and dropout.
        device: where it trains, for people.
        software: versions; None until the training process has looked.
    """

    schema_version: int = 1
    workload: WorkloadId
    config: Candidate
    seed: int
    device: str
    software: Software | None = None

    def settings(self) -> TrainSettings:
        """Returns the settings of the loop."""
        return self.config.settings(seed=self.seed)


def conflicts(stored: RunRecord, asked: RunRecord) -> tuple[str, ...]:
    """Returns what makes ``asked`` another run than ``stored``: it must not go on from its state."""
    pairs = [
        ("workload", stored.workload.entry_point, asked.workload.entry_point),
        ("seed", stored.seed, asked.seed),
        *_config_pairs(stored, asked, free=False),
    ]
    return tuple(f"{name} ({old} stored, {new} now)" for name, old, new in pairs if old != new)


def changes(stored: RunRecord, asked: RunRecord) -> tuple[str, ...]:
    """Returns what differs without making it another run; its weights will not be bit-equal to an unbroken run's."""
    pairs = [("device", stored.device, asked.device), *_config_pairs(stored, asked, free=True)]
    if stored.software and asked.software:
        old, new = to_plain(stored.software), to_plain(asked.software)
        pairs += [(name, old[name], new[name]) for name in old]
    found = [f"{name} ({old} stored, {new} now)" for name, old, new in pairs if old != new]
    if stored.workload.source_hash != asked.workload.source_hash:
        found.append(f"{asked.workload.entry_point} has been edited")
    return tuple(found)


def _config_pairs(stored: RunRecord, asked: RunRecord, *, free: bool) -> list[tuple[str, Any, Any]]:
    # As settings, so that an axis that was not offered equals its default.
    old, new = to_plain(stored.settings()), to_plain(asked.settings())
    return [(name, old[name], new[name]) for name in old if name != "seed" and (name in _FREE) == free]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainRequest:
    """All that a training process is told, as JSON on its standard input.

    Attributes:
        workload: where the user's code is.
        run: what to train.
        folder: of the run.
        epochs: in all, those of an earlier part of the run included.
        resume: go on where the folder holds a run.
        checkpoint_every_s: save at least this often, beside the end of every epoch.
        parent: process number that it must not outlive.
        events: descriptor to write events to.
    """

    workload: WorkloadRef
    run: RunRecord
    folder: str
    epochs: int
    resume: bool
    checkpoint_every_s: float
    parent: int
    events: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Began:
    """The model is built, and training begins or goes on.

    Attributes:
        epoch: epochs that are done.
        updates: updates done in the present epoch.
        updates_per_epoch: None where the data set does not say.
        notes: sentences for the user.
    """

    epoch: int
    updates: int
    updates_per_epoch: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far the present epoch (counted from 1) is; a few times a second."""

    epoch: int
    updates: int
    loss: float | None
    samples_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEnded:
    """An epoch (counted from 1) is trained, validated and saved.

    Attributes:
        numbers: one row of ``metrics.csv``; None where it is not finite.
        notes: sentences for the user.
    """

    epoch: int
    numbers: dict[str, float | int | None]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The last word of a training process.

    Attributes:
        exit_code: that of the command.
        message: one sentence.
        traceback: of the user's code.
        files: what was written, relative to the folder.
    """

    exit_code: int
    message: str = ""
    traceback: str = ""
    files: tuple[str, ...] = field(default_factory=tuple)


Event = Began | Progress | EpochEnded | Ended
_KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in (Began, Progress, EpochEnded, Ended)}


def event_to_plain(event: Event) -> dict[str, Any]:
    """Returns an event as plain values."""
    return {"event": type(event).__name__, "value": to_plain(event)}


def event_from_plain(data: dict[str, Any]) -> Event:
    """Returns the event that :func:`event_to_plain` wrote."""
    event: Event = from_plain(_KINDS[data["event"]], data["value"])
    return event
