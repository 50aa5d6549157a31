"""Capacity planning: what fits on which GPU, how fast, for how long and at what cost, from one study's measurements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.callable_module import make_callable
from autotune.core.plan.answers import Knowledge, rows
from autotune.core.plan.needs import Need, needs
from autotune.core.plan.parts import Decomposition, decompose
from autotune.core.plan.values import Question, Row, SortBy
from autotune.core.study import Study
from autotune.core.units import parse_duration
from autotune.errors import UsageError
from autotune.plan_sources import is_study, own_board, read_prices, target_of, targets
from autotune.plan_study import NO_RATES, study_knowledge, with_own
from autotune.plan_validate import Validation, validate

if TYPE_CHECKING:
    import pandas as pd

    from autotune.probe.catalogue import Catalogue


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What :func:`autotune.plan` returns.

    Attributes:
        title: in one line.
        question: what was asked.
        rows: the answers, what fits first, best first.
        needs: memory for one micro-batch, where that was asked.
        boards: for each of ``needs``, catalogue ids of the GPUs that have as much.
        decomposition: the chosen candidate's peak by what it is for, where the model could be looked into.
        notes: sentences about the plan as a whole.
    """

    title: str
    question: Question
    rows: tuple[Row, ...]
    needs: tuple[Need, ...] = ()
    boards: tuple[tuple[str, ...], ...] = ()
    decomposition: Decomposition | None = None
    notes: tuple[str, ...] = ()

    @property
    def table(self) -> pd.DataFrame:
        """One row per answer (columns: ``docs/plan.md``)."""
        from autotune.report.plan_frame import plan_frame

        return plan_frame(self.rows)

    @property
    def needs_table(self) -> pd.DataFrame:
        """One row per program: the memory that the micro-batch needs."""
        from autotune.report.plan_frame import needs_frame

        return needs_frame(self.needs, self.boards)


def plan(
    study: str | Path | Study,
    *,
    gpus: Sequence[str] = (),
    counts: Sequence[int] = (1,),
    global_batch: int | None = None,
    confidence: float = 0.95,
    samples_per_epoch: int | None = None,
    epochs: float | None = None,
    deadline: float | str | None = None,
    budget_cost: float | None = None,
    prices: str | Path | Mapping[str, float] | None = None,
    link_bytes_per_s: float | None = None,
    sort: SortBy | None = None,
    memory_for: int | None = None,
    dry: bool = False,
    name: str | None = None,
    say: Callable[[str], None] = lambda sentence: None,
) -> Plan:
    """Plans a training from a study's measurements, or, with ``dry``, from a workload that was never run.

    Args:
        study: a study's folder, database or storage URL, or the study itself; with ``dry`` a workload as
            :func:`autotune.tune` takes it, which needs ``global_batch``.
        gpus: catalogue ids or aliases; none asks about the study's own device.
        counts: numbers of GPUs that train in step, each tried with each kind.
        global_batch: samples per update over all GPUs; the study's by default.
        confidence: probability with which a micro-batch must fit.
        samples_per_epoch: samples of one epoch; the data set's by default where ``epochs`` is given.
        epochs: how often to go through them.
        deadline: seconds, or ``24h``.
        budget_cost: most that the training may cost.
        prices: price of one GPU-hour, as a TOML file or a mapping by GPU.
        link_bytes_per_s: between GPUs, each direction; the board's own by default.
        sort: ``time``, ``cost`` or ``energy``; cost where there are prices, else time.
        memory_for: the inverse question: how much memory does this micro-batch need?
        dry: plan without a GPU and without a study.
        name: of the study, where its storage holds several.
        say: hears what takes a while.

    Returns:
        The plan, with its table.

    Raises:
        UsageError: a question that cannot be answered from this study, with the reason.
        UserCodeError, AutotuneError: with ``dry``, as for :func:`autotune.tune`.
    """
    from autotune.probe.catalogue import load_catalogue

    catalogue = load_catalogue()
    asked = targets(catalogue, gpus)
    deadline_s = _seconds(deadline)
    price_table = read_prices(prices, catalogue)
    _check(confidence, counts, samples_per_epoch, epochs, budget_cost, price_table, global_batch, memory_for)
    asks_hours = any(value is not None for value in (samples_per_epoch, epochs, deadline, budget_cost, sort))
    if dry and isinstance(study, (str, Path)) and not is_study(str(study)):
        from autotune.plan_dry import dry_knowledge

        if asks_hours:
            raise UsageError(
                "a workload that was not run on a GPU has no throughput, so hours, cost and energy cannot be given: "
                "run 'autotune tune' on a GPU and plan from that study, or ask about memory alone"
            )
        if not asked and memory_for is None:
            raise UsageError("name the GPUs to plan for with --gpus, such as --gpus T4,A100-80GB")
        if global_batch is None:
            raise UsageError("a workload that was not run has no global batch yet; give it with --global-batch")
        known, title, notes = dry_knowledge(str(study), global_batch, say)
    else:
        data = study if isinstance(study, Study) else load(str(study), name)
        if epochs is not None and samples_per_epoch is None:
            samples_per_epoch = data.job.workload.dataset_size
        _check_hours(data, asks_hours, samples_per_epoch)
        known, title, notes = study_knowledge(data, catalogue, asked, counts, say, dry)
        global_batch = global_batch or data.job.global_batch
        asked = with_own(data, own_board(catalogue, data), asked)
    question = Question(
        counts=tuple(dict.fromkeys(counts)), global_batch=global_batch, confidence=confidence,
        samples_per_epoch=samples_per_epoch, epochs=epochs, deadline_s=deadline_s, budget_cost=budget_cost,
        prices=price_table, sort=sort, link_bytes_per_s=link_bytes_per_s,
    )  # fmt: skip
    found = rows(known, asked, question) if memory_for is None else ()
    own = not known.from_cpu and bool(asked) and all(target.own for target in asked)
    wanted = needs(known, memory_for, confidence, own=own) if memory_for is not None else ()
    return Plan(
        title=title,
        question=question,
        rows=found,
        needs=wanted,
        boards=tuple(_boards(catalogue, need) for need in wanted),
        decomposition=_decomposition(known, found),
        notes=notes,
    )


def load(text: str, name: str | None = None) -> Study:
    """Reads a study, by folder, database file or storage URL.

    Raises:
        UsageError: there is none.
    """
    from autotune.search.opening import load_study

    if not is_study(text):
        raise UsageError(f"there is no study at {text}; to plan for a workload that was not run, add --dry")
    return load_study(text if "://" in text or text.startswith("env:") else Path(text), name=name)


def _decomposition(known: Knowledge, found: Sequence[Row]) -> Decomposition | None:
    best = next((row for row in found if row.fits and row.peak_bytes and row.accumulation_steps), None)
    if known.parts is None or best is None or best.peak_bytes is None:
        return None
    accumulates = (best.accumulation_steps or 1) > 1
    like = [
        c for p, c in known.peaks.curves.items() if p.precision == best.precision and p.jit_compile == best.jit_compile
    ]
    return decompose(
        known.parts,
        peak_bytes=best.peak_bytes.expected,
        intercept=min((curve.intercept for curve in like), default=0.0),
        accumulates=accumulates,
        global_batch=best.global_batch // best.count,
    )


def _boards(catalogue: Catalogue, need: Need) -> tuple[str, ...]:
    enough = [t for t in map(target_of, catalogue.boards) if t.usable_bytes >= need.usable_bytes]
    return tuple(t.name for t in sorted(enough, key=lambda t: (t.usable_bytes, t.name)))


def _seconds(value: float | str | None) -> float | None:
    if value is None or isinstance(value, (int, float)):
        return value
    try:
        return parse_duration(value)
    except ValueError as problem:
        raise UsageError(f"the deadline: {problem}") from None


def _check(
    confidence: float,
    counts: Sequence[int],
    samples_per_epoch: int | None,
    epochs: float | None,
    budget_cost: float | None,
    prices: Mapping[str, float] | None,
    global_batch: int | None,
    memory_for: int | None,
) -> None:
    if not 0.5 <= confidence < 1:
        raise UsageError(f"the confidence is a probability from 0.5 to below 1, got {confidence:g}")
    whole = {"a count of GPUs": min(counts, default=0), "samples per epoch": samples_per_epoch}
    whole |= {"the global batch": global_batch, "the micro-batch": memory_for}
    for what, value in whole.items():
        if value is not None and value < 1:
            raise UsageError(f"{what} must be at least 1, got {value}")
    if epochs is not None and not epochs > 0:
        raise UsageError(f"epochs must be above 0, got {epochs:g}")
    if budget_cost is not None and prices is None:
        raise UsageError("a budget needs your prices: give --prices with the price of one hour of each GPU")


def _check_hours(study: Study, asks_hours: bool, samples_per_epoch: int | None) -> None:
    if not asks_hours:
        return
    if study.job.device.kind == "cpu":
        raise UsageError(NO_RATES)
    if samples_per_epoch is None:
        raise UsageError(
            "a deadline, a budget or a sorting needs to know the training: give --samples-per-epoch and --epochs"
        )


__all__ = ["Plan", "Validation", "load", "plan", "validate"]

make_callable(__name__)
