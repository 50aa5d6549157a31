"""Rows of a plan: for each GPU and count, the best candidate that fits, and what the training takes on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from autotune.core.axes.micro_batch import balanced_sizes
from autotune.core.candidate import Candidate
from autotune.core.gpu_spec import GpuSpec
from autotune.core.plan.parts import Parts, remedies
from autotune.core.plan.peak_curve import PeakForecast
from autotune.core.plan.peaks import PeakModel, Program
from autotune.core.plan.rates import RateModel, energy_from_meter, energy_kwh
from autotune.core.plan.scaling import runs_at_speed
from autotune.core.plan.values import Question, Row, at_confidence
from autotune.core.units import format_bytes, format_seconds

# Half-width of the 90 % error of carrying a peak to another device. Between GPUs kernels and their workspaces differ;
# from a CPU all kernels do. Estimates: no GPU was at hand to measure them.
OTHER_GPU, FROM_CPU = 0.06, 0.15
# Standard deviation of the usable memory itself (within 2 % of TensorFlow's own figure: docs/probe.md).
USABLE_SD = 0.01
SIXTEEN_BIT = ("mixed_float16", "mixed_bfloat16")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A kind of GPU to plan for.

    Attributes:
        name: catalogue id, or the device's own name.
        usable_bytes: what a TensorFlow process may use on it.
        spec: the board; None for the study's own device where the catalogue does not list it.
        own: it is what the study was measured on.
        alignment: multiple that micro-batches prefer.
    """

    name: str
    usable_bytes: int
    spec: GpuSpec | None = None
    own: bool = False
    alignment: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """What a plan is made from.

    Attributes:
        peaks: the memory forecast.
        rates: the throughput forecast; None where the study says nothing about it.
        parts: the built model's bytes, where known.
        from_cpu: peaks were measured on a CPU.
        preferred: the program that decides where throughput is not known.
        loss_scale: initial loss scale by precision, so that the study's own candidates are recognised.
        j_per_sample: joules per sample from the device's meter; None where it has none.
        global_batch: samples of the resident window that the peaks were measured with.
    """

    peaks: PeakModel
    rates: RateModel | None = None
    parts: Parts | None = None
    from_cpu: bool = False
    preferred: Program | None = None
    loss_scale: Mapping[str | None, float | None] = field(default_factory=dict)
    j_per_sample: float | None = None
    global_batch: int | None = None

    def window_bytes(self, replica_batch: int) -> int:
        """What a resident window of ``replica_batch`` samples takes more than the measured one; 0 where not known."""
        if self.parts is None or self.global_batch is None:
            return 0
        return self.parts.sample_bytes * (replica_batch - self.global_batch)


def rows(known: Knowledge, targets: Sequence[Target], question: Question) -> tuple[Row, ...]:
    """Answers ``question`` for every target and count: what fits first, best first."""
    made = [_row(known, target, count, question) for target in targets for count in question.counts]
    return tuple(sorted(made, key=lambda row: _order(row, question)))


def _order(row: Row, question: Question) -> tuple[bool, bool, float, float]:
    by = question.sort or ("cost" if question.prices else "time")
    value = {"time": row.hours, "cost": row.cost, "energy": row.kwh}[by]
    rate = -row.samples_per_s.expected if row.samples_per_s else 0.0
    return not row.fits, row.why_not is not None, value.expected if value else float("inf"), rate


def _row(known: Knowledge, target: Target, count: int, question: Question) -> Row:
    blank = Row(
        gpu=target.name, count=count, fits=False, precision=None, execution=None, jit_compile=None, recompute=None,
        global_batch=question.global_batch, usable_bytes=target.usable_bytes,
    )  # fmt: skip
    if question.global_batch % count:
        return replace(
            blank, why_not=f"the global batch {question.global_batch} cannot be shared evenly by {count} GPUs"
        )
    options = list(_options(known, target, count, question))
    if not options:
        return replace(blank, why_not=_nothing_there(known, target))
    fitting = [option for option in options if option.chance >= question.confidence]
    if not fitting:
        return _misfit(known, target, blank, options, question)
    best = _fastest(known, target, fitting, question) or _preferred(known, fitting)
    return _answer(known, target, best, blank, question)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Option:
    candidate: Candidate
    program: Program
    peak: PeakForecast
    chance: float


def _options(known: Knowledge, target: Target, count: int, question: Question) -> Iterator[_Option]:
    share = 0.0 if target.own else FROM_CPU if known.from_cpu else OTHER_GPU
    sizes = balanced_sizes(question.global_batch // count, target.alignment)
    for program in _programs(known):
        if known.from_cpu and not target.own and program.precision in SIXTEEN_BIT:
            continue  # a CPU computes 16-bit types in float32: its peaks are no forecast of a GPU's
        if target.spec is not None and not runs_at_speed(target.spec, program.precision):
            continue
        for size in sizes:
            candidate = candidate_of(program, size, count, question.global_batch, known.loss_scale)
            found = known.peaks.predict(candidate) if candidate else None
            if candidate is None or found is None:
                continue
            moved = found.bytes.plus(known.window_bytes(question.global_batch // count))
            peak = replace(found, bytes=moved.widened(share))
            chance = peak.bytes.chance_within(target.usable_bytes, USABLE_SD)
            yield _Option(candidate=candidate, program=program, peak=peak, chance=chance)


def _programs(known: Knowledge) -> tuple[Program, ...]:
    """The study's programs, and each of them at one step."""
    measured = known.peaks.programs
    single = (replace(p, execution="single") for p in measured if p.execution != "unrolled")
    return tuple(dict.fromkeys((*measured, *single)))


def candidate_of(
    program: Program, size: int, count: int, global_batch: int, loss_scale: Mapping[str | None, float | None]
) -> Candidate | None:
    """The candidate of ``program`` at one micro-batch; None where that size makes it another program.

    Args:
        program: what to run; ``single`` is the one of one accumulation step, whatever the execution.
        size: its micro-batch.
        count: GPUs that train in step.
        global_batch: samples per update, over all of them.
        loss_scale: initial loss scale by precision.
    """
    single = size == global_batch // count
    if single != (program.execution == "single"):
        return None
    own_loop = program.jit_compile is None and program.recompute is None
    return Candidate(
        global_batch=global_batch,
        micro_batch=size,
        replicas=count,
        precision=program.precision,  # type: ignore[arg-type]
        execution=program.execution if not single else None if own_loop else "fused",  # type: ignore[arg-type]
        jit_compile=program.jit_compile,
        recompute=program.recompute,
        initial_loss_scale=loss_scale.get(program.precision),
    )


def _fastest(known: Knowledge, target: Target, fitting: Sequence[_Option], question: Question) -> _Option | None:
    if known.rates is None:
        return None
    timed = [
        (forecast.samples_per_s.expected, option.candidate.micro_batch, i)
        for i, option in enumerate(fitting)
        if (forecast := known.rates.on(option.candidate, target.spec, question.link_bytes_per_s)) is not None
    ]
    return fitting[max(timed)[2]] if timed else None


def _preferred(known: Knowledge, fitting: Sequence[_Option]) -> _Option:
    """Without throughput: the largest micro-batch of the study's own choice of program."""

    def liking(option: _Option) -> tuple[bool, int, bool]:
        like = known.preferred
        same = like is not None and replace(option.program, execution=None) == replace(like, execution=None)
        return same, option.candidate.micro_batch, like is not None and option.program.execution == like.execution

    return max(fitting, key=liking)


def _nothing_there(known: Knowledge, target: Target) -> str:
    measured = {program.precision for program in known.peaks.programs}
    slow = {p for p in measured if target.spec is not None and not runs_at_speed(target.spec, p)}
    if measured and slow == measured:
        names = " and ".join(sorted(p or "its own precision" for p in slow))
        return f"the study holds {names} alone, which this GPU does not compute at speed: tune with --precision as well"
    return "no program of the study can be forecast there"


def _misfit(known: Knowledge, target: Target, blank: Row, options: Sequence[_Option], question: Question) -> Row:
    smallest = min(options, key=lambda o: (o.peak.bytes.expected, o.candidate.micro_batch))
    peak, candidate = smallest.peak.bytes, smallest.candidate
    ways = remedies(
        known.parts,
        needed=at_confidence(peak, question.confidence),
        usable=target.usable_bytes,
        activation_bytes=max(0.0, peak.expected - known.peaks.intercept(candidate)),
    )
    needs = f"micro-batch {candidate.micro_batch} needs {format_bytes(peak.expected)}"
    has = f"{format_bytes(target.usable_bytes)} are usable"
    return replace(
        _described(blank, smallest),
        micro_batch=None,
        accumulation_steps=None,
        why_not=f"{needs}, {has} ({100 * smallest.chance:.0f} % sure to fit): {'; '.join(ways)}",
    )


def _described(blank: Row, option: _Option) -> Row:
    candidate = option.candidate
    return replace(
        blank,
        precision=candidate.precision,
        execution=candidate.execution,
        jit_compile=candidate.jit_compile,
        recompute=candidate.recompute,
        micro_batch=candidate.micro_batch,
        accumulation_steps=candidate.accumulation_steps,
        peak_bytes=option.peak.bytes,
        fit_probability=option.chance,
        memory_basis=option.peak.basis,
    )


def _answer(known: Knowledge, target: Target, best: _Option, blank: Row, question: Question) -> Row:
    row = replace(_described(blank, best), fits=True)
    if not target.own or best.candidate.replicas > 1:
        row = replace(row, memory_basis="estimated")
    if known.rates is None:
        return row
    forecast = known.rates.on(best.candidate, target.spec, question.link_bytes_per_s)
    if forecast is None:
        return replace(row, why_not="the size of the gradients, and so their exchange between GPUs, is not known")
    row = replace(row, samples_per_s=forecast.samples_per_s, rate_basis=forecast.basis)
    return _with_totals(known, target, row, question)


def _with_totals(known: Knowledge, target: Target, row: Row, question: Question) -> Row:
    if question.samples is None or row.samples_per_s is None:
        return row
    hours = row.samples_per_s.inverted(question.samples / 3600)
    price = (question.prices or {}).get(target.name)
    cost = hours.times(row.count * price) if price is not None else None
    kwh = None
    if target.own and known.j_per_sample is not None:
        kwh = energy_from_meter(known.j_per_sample, question.samples)
    elif target.spec is not None:
        kwh = energy_kwh(hours, row.count, target.spec)
    reasons = []
    if question.deadline_s is not None and hours.expected * 3600 > question.deadline_s:
        late, limit = format_seconds(3600 * hours.expected), format_seconds(question.deadline_s)
        reasons.append(f"takes {late}, the deadline is {limit}")
    if question.budget_cost is not None and cost is not None and cost.expected > question.budget_cost:
        reasons.append(f"costs {cost.expected:.0f}, the budget is {question.budget_cost:.0f}")
    if question.prices is not None and price is None:
        reasons.append(f"the prices have no {target.name}")
    return replace(row, hours=hours, cost=cost, kwh=kwh, why_not="; ".join(reasons) or None)
