"""One trial pass, from loaded user code to outcome: conditions, build, run, check, judge."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from autotune.core.outcome import Memory, Outcome, State, Throughput
from autotune.core.peaks import REORDERED, confirmed
from autotune.core.trial import MeasurePlan, PassKind, TrialSpec
from autotune.worker.asked import check_samples
from autotune.worker.loops import Loop, Update
from autotune.worker.meters import Meter
from autotune.worker.meters.host import HostMeter, give_freed_memory_back
from autotune.worker.phases import Phases
from autotune.worker.timing import Stopwatch, throughput, time_updates

# One executor thread and no graph optimizer: a memory pass runs slower than training does.
_SETTLED_IS_SLOWER = 2.0
_ORDERS, _ENOUGH_ORDERS, _MOST_ORDERS = 3, 6, 12  # beside the one that ran before
_ORDERS_S = 3.0
_REPEATS = 3  # of an order that seems to need more than all before


SpanOf = Callable[[str], contextlib.AbstractContextManager[None]]


class Subject(Protocol):
    """What is tried: the user's workload under our loop, or a loop of their own.

    Attributes:
        input_bytes: device memory that the data set itself takes, None where unknown.
    """

    input_bytes: int | None

    def build(self, kind: PassKind) -> Loop:
        """Builds the loop as the candidate asks."""

    def exercise(
        self, windows: int, give_up_update_s: float | None, span: SpanOf, peak: Callable[[], int | None]
    ) -> list[Update]:
        """Runs what peaks: full windows, the tail window, evaluation and a checkpoint, as far as the loop has them.

        Args:
            windows: full windows.
            give_up_update_s: an update that takes longer is not worth its memory figure; None never gives up.
            span: covers each part by name, for the meters.
            peak: bytes that the parts so far have needed; None where nothing says.

        Raises:
            HopelessError: an update takes longer than ``give_up_update_s``.
        """

    def again(self) -> Callable[[], object]:
        """Prepares one more window, after :meth:`exercise`, that needs as much as a full one; the result runs it."""

    def effective(self) -> tuple[dict[str, str], list[str]]:
        """Reads back what took effect, with warnings; raises ``NotAsAskedError`` where it is not what was asked."""


def conduct(subject: Subject, kind: PassKind, spec: TrialSpec, phases: Phases) -> Outcome:
    """Runs one pass.

    Raises:
        Exception: whatever the user's code or TensorFlow raises, and the refusals of ``asked`` and ``timing``.
    """
    meters, warnings = _conditions(kind, spec)
    with phases("build"), _span(meters, "build"):
        loop = subject.build(kind)
    rate, updates = None, []
    if kind != "memory":
        stopwatch = Stopwatch(loop, global_batch=spec.candidate.global_batch, clock=time.perf_counter)
        timing = time_updates(stopwatch, spec.plan, phases)
        updates = stopwatch.updates
        rate = throughput(timing, global_batch=spec.candidate.global_batch)
    memory = None
    if kind != "timing":
        with phases("exercise"):
            updates = updates + subject.exercise(
                spec.plan.memory_windows,
                _patience_s(spec.plan),
                lambda name: _span(meters, name, loop),
                meters[0].peak_bytes,
            )
            if kind == "memory" and _graphs_are_reordered(spec):
                _run_in_other_orders(subject, loop, meters)
        memory = _read(meters, subject.input_bytes, on_gpu=spec.device.kind == "gpu")
    effective, more = subject.effective()
    check_samples(spec.candidate, updates)
    state, reason = _judge(kind, updates, rate)
    return Outcome(
        state=state,
        reason=reason,
        throughput=rate,
        memory=memory,
        effective=effective,
        final_loss_scale=next((u.loss_scale for u in reversed(updates) if u.loss_scale is not None), None),
        warnings=(*warnings, *more),
    )


def _run_in_other_orders(subject: Subject, loop: Loop, meters: Sequence[Meter]) -> None:
    """Runs the window in other orders until the largest need has been seen twice, or the time for it is over."""
    run_window, meter = subject.again(), meters[0]
    started = time.perf_counter()
    for number in range(_MOST_ORDERS):
        known = meter.order_peaks()
        if number >= _ENOUGH_ORDERS and known and confirmed(known) == max(known):
            return
        if number >= _ORDERS and time.perf_counter() - started > _ORDERS_S:
            return
        if not all(m.has_room() for m in meters):
            return
        for _ in range(_REPEATS):
            with _span(meters, f"{REORDERED} {number}", loop):
                run_window()
            if max(meter.order_peaks(), default=0) == max(known, default=0):
                break  # only what seems to need more is worth a repeat


def _graphs_are_reordered(spec: TrialSpec) -> bool:
    """True where equal graphs may run in different orders: XLA has one of its own, and would compile again."""
    return "tensorflow" in sys.modules and not spec.candidate.jit_compile


def _patience_s(plan: MeasurePlan) -> float | None:
    return None if plan.give_up_update_s is None else _SETTLED_IS_SLOWER * plan.give_up_update_s


@contextlib.contextmanager
def _span(meters: Sequence[Meter], name: str, loop: Loop | None = None) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for meter in meters:
            stack.enter_context(meter.span(name))
        yield
        if loop is not None:
            loop.synchronize()


def _conditions(kind: PassKind, spec: TrialSpec) -> tuple[list[Meter], list[str]]:
    """Brings the process into the conditions of its pass; the first meter's peak is held to the limit."""
    if kind == "timing":
        return [], []
    meters: list[Meter] = [HostMeter()]
    warnings: list[str] = []
    on_gpu = spec.device.kind == "gpu"
    if not on_gpu:
        give_freed_memory_back()
    if "tensorflow" in sys.modules and not {"torch", "jax"} & set(sys.modules):
        from autotune.worker import runtime
        from autotune.worker.meters.holes import Holes
        from autotune.worker.meters.tf_allocator import TfAllocatorMeter

        limit = spec.memory_limit_bytes
        if on_gpu:
            warnings = runtime.limit_gpu(limit)
            meters.insert(0, TfAllocatorMeter("GPU:0"))
        else:
            region, warnings = runtime.settle_cpu(limit, spec.device.memory_usable_bytes)
            meters.insert(0, TfAllocatorMeter("CPU:0", Holes(region), reorder=_graphs_are_reordered(spec)))
    for meter in meters:
        meter.start()
    return meters, warnings


def _read(meters: Sequence[Meter], input_bytes: int | None, *, on_gpu: bool) -> Memory:
    peaks = {meter.source: meter.peak_bytes() for meter in meters}
    first = meters[0].source
    # On a GPU the host's memory says nothing about the device: the tuner's own NVML meter gives the peak there.
    peak = None if on_gpu and first == HostMeter.source else peaks[first]
    return Memory(
        # A data set in host memory is no part of what a device needs; whether this allocator holds it hangs on how
        # NumPy happened to align it.
        peak_bytes=None if peak is None else peak - (input_bytes or 0),
        peak_source=None if peak is None else first,
        host_peak_bytes=peaks[HostMeter.source],
        input_bytes=input_bytes,
    )


def _judge(kind: PassKind, updates: Sequence[Update], rate: Throughput | None) -> tuple[State, str | None]:
    if kind == "memory":  # too short to say anything about divergence
        return State.COMPLETED, None
    diverged = next((u for u in updates if u.diverged), None)
    if diverged is not None:
        return State.NON_FINITE, f"the loss of an applied update was {diverged.loss}"
    if rate is None:
        scales = [u.loss_scale for u in updates if u.loss_scale is not None and math.isfinite(u.loss_scale)]
        last = f"; the loss scale came down to {scales[-1]:g}" if scales else ""
        return State.NON_FINITE, f"no update was applied: the gradients of all measured updates were not finite{last}"
    return State.COMPLETED, None
