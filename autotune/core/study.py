"""All trials of one tuning job, with what they hold for: the value that tables, pictures and files are made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from autotune.core.loss_scale_choice import Calibration
from autotune.core.outcome import Throughput
from autotune.core.trial import Device, TrialRecord
from autotune.core.tuned import Hardware, Software, WorkloadId

Objective = Literal["throughput", "memory", "pareto"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What was asked for. On resume a job must equal the stored one, else the study would mix measurements.

    Attributes:
        global_batch: samples per update, exact.
        memory_limit_bytes: the limit every trial is held to; None is the device's usable memory.
        objective: what the chosen candidate is best at.
        seed: seeds the search and every trial.
        axes: the values searched, by axis name, as text.
    """

    workload: WorkloadId
    device: Device
    hardware: Hardware
    software: Software
    global_batch: int
    memory_limit_bytes: int | None = None
    objective: Objective = "throughput"
    seed: int = 0
    axes: dict[str, tuple[str, ...]]

    @property
    def batch_text(self) -> str:
        """The global batch for people, as a range where it was let vary."""
        searched = sorted(map(int, self.axes.get("global_batch", ())))
        return f"global batch {searched[0]} to {searched[-1]}" if searched else f"global batch {self.global_batch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A study as far as it has come.

    Attributes:
        name: name of the study (its folder's name).
        job: what was asked for.
        records: trials in order of their numbers.
        pareto: numbers of the trials on the memory/throughput front.
        chosen: number of the chosen trial; None while nothing is chosen.
        confirmed: True once the chosen candidate was run again, longer, in a fresh process.
        confirmation: what those confirmation runs measured.
        verdict: the choice in one sentence.
        loss_scale: how the initial loss scale of float16 candidates was found; None where it was not looked for.
        stop_reason: why the search ended, in one sentence.
        command: the command line that reproduces the study.
        warnings: sentences about the study as a whole.
    """

    name: str
    job: Job
    records: tuple[TrialRecord, ...] = ()
    pareto: tuple[int, ...] = ()
    chosen: int | None = None
    confirmed: bool = False
    confirmation: Throughput | None = None
    verdict: str | None = None
    loss_scale: Calibration | None = None
    stop_reason: str | None = None
    command: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def chosen_record(self) -> TrialRecord | None:
        """The chosen trial."""
        return next((r for r in self.records if r.number == self.chosen), None)
