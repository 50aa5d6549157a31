"""The columns of the trials table: name, type, unit and meaning, and where each value comes from.

Tables, CSV, Parquet and ``docs/columns.md`` are made from this one list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from autotune.core.outcome import Memory, Throughput
from autotune.core.study import Study
from autotune.core.trial import TrialRecord

Dtype = Literal["Int64", "Float64", "string", "boolean"]
Cell = int | float | str | bool | None
ReadCell = Callable[[Study, TrialRecord], Cell]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a table.

    Attributes:
        name: the column's name, with its unit.
        dtype: pandas' nullable dtype; a value that was not measured is missing, never 0.
        meaning: one sentence for the reference.
    """

    name: str
    dtype: Dtype
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialColumn(Column):
    """A column of the trials table, with the function that reads it from a record."""

    read: ReadCell


def trial_columns(study: Study) -> tuple[TrialColumn, ...]:
    """Returns the columns of ``study``'s trials table: the fixed ones, then one per phase that any trial recorded."""
    phases = dict.fromkeys(name for record in study.records for name in record.outcome.phases)
    return TRIAL_COLUMNS + tuple(_phase_column(name) for name in phases)


def trial_rows(study: Study, records: Iterable[TrialRecord]) -> list[dict[str, Cell]]:
    """Returns one row per record: values by column name, None for what was not measured."""
    columns = trial_columns(study)
    return [{column.name: _one_line_end(column.read(study, record)) for column in columns} for record in records]


def _one_line_end(value: Cell) -> Cell:
    # A lone carriage return inside a CSV field ends the line for many readers, quoted or not.
    return value.replace("\r\n", "\n").replace("\r", "\n") if isinstance(value, str) else value


def front_records(study: Study) -> list[TrialRecord]:
    """Returns the trials on the memory/throughput front, smallest peak first."""
    front = [record for record in study.records if record.number in study.pareto]
    return sorted(front, key=lambda r: (r.peak_bytes or 0, r.number))


def _phase_column(phase: str) -> TrialColumn:
    def read(_: Study, record: TrialRecord) -> Cell:
        return record.outcome.phases.get(phase)

    return TrialColumn(name=f"phase_{phase}_s", dtype="Float64", meaning=f"Seconds in the phase `{phase}`.", read=read)


def _plain(name: str, dtype: Dtype, meaning: str, read: Callable[[TrialRecord], Cell]) -> TrialColumn:
    return TrialColumn(name=name, dtype=dtype, meaning=meaning, read=lambda _, record: read(record))


def _candidate(name: str, dtype: Dtype, meaning: str) -> TrialColumn:
    return _plain(name, dtype, meaning, lambda record: getattr(record.candidate, name))


def _throughput(name: str, dtype: Dtype, meaning: str) -> TrialColumn:
    def read(record: TrialRecord) -> Cell:
        measured: Throughput | None = record.outcome.throughput
        return getattr(measured, name) if measured is not None else None

    return _plain(name, dtype, meaning, read)


def _memory(name: str, dtype: Dtype, meaning: str) -> TrialColumn:
    def read(record: TrialRecord) -> Cell:
        measured: Memory | None = record.outcome.memory
        return getattr(measured, name) if measured is not None else None

    return _plain(name, dtype, meaning, read)


# The first 26 are part of the outside contract: exact names, in this order. More may follow them.
TRIAL_COLUMNS: tuple[TrialColumn, ...] = (
    _plain("trial", "Int64", "Number of the trial within its study; its files lie in `trials/N/`.", lambda r: r.number),
    _plain(
        "state",
        "string",
        "How the trial ended: `completed`, `out_of_memory`, `non_finite`, `timed_out`, `crashed` or `invalid`.",
        lambda r: str(r.state),
    ),
    _plain("reason", "string", "Why it ended so, in one sentence.", lambda r: r.outcome.reason),
    _candidate("micro_batch", "Int64", "Samples in one forward and backward pass on one replica."),
    _candidate("accumulation_steps", "Int64", "Micro-batches per update and replica; the last may be smaller."),
    _candidate("global_batch", "Int64", "Samples per optimizer update, over all replicas."),
    _candidate("replicas", "Int64", "Devices that train in step."),
    _candidate("precision", "string", "Keras dtype policy; missing where the loop does not offer a choice."),
    _candidate("initial_loss_scale", "Float64", "Loss scale at the start; float16 only."),
    _candidate("jit_compile", "boolean", "Whether the update was compiled with XLA."),
    _candidate("execution", "string", "How an update was compiled: `stepped`, `fused` or `unrolled`."),
    _candidate("recompute", "boolean", "Whether the named blocks were recomputed in the backward pass."),
    _throughput("samples_per_s", "Float64", "Goodput: samples of applied updates per second, from the median update."),
    _throughput("samples_per_s_low", "Float64", "Lower end of its 95 % interval."),
    _throughput("samples_per_s_high", "Float64", "Upper end of its 95 % interval."),
    _throughput("update_s", "Float64", "Median seconds of one update."),
    _memory("peak_bytes", "Int64", "Highest bytes the device allocator held during measured updates."),
    _memory(
        "peak_source",
        "string",
        "The meter behind it: `tf_bfc_cpu`, `tf_allocator_gpu`, `nvml_process`, `nvml_device` or `host_vmhwm`.",
    ),
    _memory("nvml_peak_bytes", "Int64", "NVML's peak for the process, else the device's increase."),
    _memory("host_peak_bytes", "Int64", "Highest resident set of the process above what it started with."),
    _throughput("updates_measured", "Int64", "Updates behind the median."),
    _throughput("updates_skipped", "Int64", "Of those, updates not applied because their gradients were not finite."),
    _throughput("energy_j_per_sample", "Float64", "Joules per sample, where the device's meter gives them."),
    TrialColumn(
        name="pareto",
        dtype="boolean",
        meaning="Whether no other trial is both faster and smaller.",
        read=lambda study, record: record.number in study.pareto,
    ),
    TrialColumn(
        name="chosen",
        dtype="boolean",
        meaning="Whether this is the trial the tuned config was made from.",
        read=lambda study, record: record.number == study.chosen,
    ),
    _plain("wall_s", "Float64", "Seconds from start to recorded outcome, all passes included.", lambda r: r.wall_s),
    _memory("input_bytes", "Int64", "Bytes of the input pipeline, not part of `peak_bytes`."),
    _throughput("input_wait_share", "Float64", "Share of the measured time spent waiting for input data, 0 to 1."),
    _throughput("steady", "boolean", "False where time was up before timings were steady or their interval narrow."),
    _plain("final_loss_scale", "Float64", "Loss scale at the end; float16 only.", lambda r: r.outcome.final_loss_scale),
    _plain(
        "effective",
        "string",
        "What really ran, where it could be read back, as `axis=value` separated by spaces.",
        lambda r: " ".join(f"{axis}={value}" for axis, value in r.outcome.effective.items()) or None,
    ),
    _plain("warnings", "string", "Remarks on it, separated by `; `.", lambda r: "; ".join(r.outcome.warnings) or None),
    _plain("user_error", "string", "`file:line: message` of a user's error.", lambda r: r.outcome.user_error),
    _plain("started_unix", "Float64", "When the trial started, in seconds since 1970.", lambda r: r.started_unix),
)
