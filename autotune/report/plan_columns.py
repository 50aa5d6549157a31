"""The columns of a plan's tables: name, type, unit and meaning, and where each value comes from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from autotune.core.plan.needs import Need
from autotune.core.plan.score import Check
from autotune.core.plan.values import Range, Row
from autotune.report.columns import Cell, Column, Dtype

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanColumn(Column, Generic[T]):
    """A column of a plan's table, with the function that reads it."""

    read: Callable[[T], Cell]


def cells(columns: Sequence[PlanColumn[T]], values: Sequence[T]) -> list[dict[str, Any]]:
    """Returns one row per value: cells by column name, None for what is not known."""
    return [{column.name: column.read(value) for column in columns} for value in values]


def _plain(name: str, dtype: Dtype, meaning: str, read: Callable[[T], Cell]) -> PlanColumn[T]:
    return PlanColumn(name=name, dtype=dtype, meaning=meaning, read=read)


def _range(
    name: str, dtype: Dtype, meaning: str, read: Callable[[T], Range | None], whole: bool = False
) -> tuple[PlanColumn[T], ...]:
    """A forecast and the two ends of its 90 % range."""

    def part(of: str) -> Callable[[T], Cell]:
        def cell(value: T) -> Cell:
            found = read(value)
            number = None if found is None else float(getattr(found, of))
            return round(number) if number is not None and whole else number

        return cell

    return (
        _plain(name, dtype, meaning, part("expected")),
        _plain(f"{name}_low", dtype, "Lower end of its 90 % range.", part("low")),
        _plain(f"{name}_high", dtype, "Upper end of its 90 % range.", part("high")),
    )


PLAN_COLUMNS: tuple[PlanColumn[Row], ...] = (
    _plain("gpu", "string", "Catalogue id, or the study's own device.", lambda r: r.gpu),
    _plain("count", "Int64", "GPUs that train in step.", lambda r: r.count),
    _plain("fits", "boolean", "Whether some micro-batch fits with the probability asked for.", lambda r: r.fits),
    _plain("micro_batch", "Int64", "Micro-batch to run on each GPU.", lambda r: r.micro_batch),
    _plain("accumulation_steps", "Int64", "Micro-batches per update and GPU.", lambda r: r.accumulation_steps),
    _plain("global_batch", "Int64", "Samples per update, over all GPUs.", lambda r: r.global_batch),
    _plain("precision", "string", "Keras dtype policy.", lambda r: r.precision),
    _plain("execution", "string", "How an update is compiled.", lambda r: r.execution),
    _plain("jit_compile", "boolean", "Whether it is compiled with XLA.", lambda r: r.jit_compile),
    _plain("recompute", "boolean", "Whether the named blocks are recomputed.", lambda r: r.recompute),
    *_range(
        "peak_bytes", "Int64", "Peak of that micro-batch; of the smallest if none fits.", lambda r: r.peak_bytes, True
    ),
    _plain("usable_bytes", "Int64", "Memory that a TensorFlow process may use there.", lambda r: r.usable_bytes),
    _plain("fit_probability", "Float64", "Probability that the peak keeps within it.", lambda r: r.fit_probability),
    *_range("samples_per_s", "Float64", "Samples per second, over all GPUs.", lambda r: r.samples_per_s),
    *_range("hours", "Float64", "Hours of the whole training.", lambda r: r.hours),
    *_range("cost", "Float64", "Its cost, in the currency of your prices.", lambda r: r.cost),
    *_range(
        "kwh", "Float64", "Its energy: from the device's meter, else at the boards' full power.", lambda r: r.kwh
    ),
    _plain(
        "basis", "string", "`measured` (this candidate, here), `fitted` (here, another size) or `estimated`.",
        lambda r: r.basis,
    ),
    _plain("why_not", "string", "Why it does not fit, or misses the deadline or budget.", lambda r: r.why_not),
)  # fmt: skip

NeedWithBoards = tuple[Need, tuple[str, ...]]

NEED_COLUMNS: tuple[PlanColumn[NeedWithBoards], ...] = (
    _plain("micro_batch", "Int64", "The micro-batch asked about.", lambda n: n[0].micro_batch),
    _plain("precision", "string", "Keras dtype policy.", lambda n: n[0].program.precision),
    _plain("execution", "string", "How an update is compiled; `single` is one step.", lambda n: n[0].program.execution),
    _plain("jit_compile", "boolean", "Whether it is compiled with XLA.", lambda n: n[0].program.jit_compile),
    _plain("recompute", "boolean", "Whether the named blocks are recomputed.", lambda n: n[0].program.recompute),
    *_range("peak_bytes", "Int64", "Its peak.", lambda n: n[0].peak, True),
    _plain(
        "usable_bytes", "Int64", "Memory that must be usable, at the confidence asked for.", lambda n: n[0].usable_bytes
    ),
    _plain("smallest_gpu", "string", "Smallest board of the catalogue with as much.", lambda n: (n[1] or (None,))[0]),
    _plain("gpus", "Int64", "Boards of the catalogue with as much.", lambda n: len(n[1])),
    _plain("basis", "string", "As in the plan's table.", lambda n: n[0].basis),
)

CHECK_COLUMNS: tuple[PlanColumn[Check], ...] = (
    _plain("figure", "string", "`peak` (bytes) or `rate` (samples per second).", lambda c: c.what),
    _plain("candidate", "string", "What was run.", lambda c: c.name),
    _plain("micro_batch", "Int64", "Its micro-batch.", lambda c: c.micro_batch),
    _plain("beyond", "boolean", "Whether it lies outside the fitted sizes.", lambda c: c.beyond),
    *_range("predicted", "Float64", "The forecast.", lambda c: c.predicted),
    _plain("measured", "Float64", "What the run gave.", lambda c: c.measured),
    _plain("error", "Float64", "Predicted less measured, as a share of measured.", lambda c: c.error),
    _plain("held", "boolean", "Whether the 90 % range holds the measured value.", lambda c: c.held),
    _plain("reason", "string", "Why nothing was measured.", lambda c: c.reason),
)
