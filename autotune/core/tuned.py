"""The tuned config: the chosen candidate with its evidence and provenance, as a value.

Reading and writing the file is ``autotune/config.py``'s work.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from autotune.core.candidate import Candidate
from autotune.core.settings import TrainSettings

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Why this candidate was chosen: what was measured, and by which meter."""

    samples_per_s: float
    samples_per_s_low: float
    samples_per_s_high: float
    peak_bytes: int | None = None
    peak_source: str | None = None
    updates_measured: int
    trials_run: int
    confirmed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """The machine the figures hold for."""

    device: str
    kind: str
    memory_bytes: int | None = None
    compute_capability: str | None = None
    driver_version: str | None = None
    cpu: str | None = None
    cpu_cores: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """The versions the figures hold for; a package that the workload never loads is None."""

    autotune: str
    python: str
    tensorflow: str | None = None
    keras: str | None = None
    cuda: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadId:
    """Which code was tuned."""

    entry_point: str
    source_hash: str
    kind: str = "workload"
    dataset_size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedRecord:
    """The content of a tuned config file, section by section."""

    schema_version: int = SCHEMA_VERSION
    config: Candidate
    evidence: Evidence
    hardware: Hardware
    software: Software
    workload: WorkloadId
    seed: int = 0
    notes: tuple[str, ...] = field(default_factory=tuple)

    def settings(self) -> TrainSettings:
        """Returns the settings a training loop takes."""
        return self.config.settings(seed=self.seed)
