"""Times updates: warm-up until steady, then blocks until the median is known well enough."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from autotune.core.outcome import Throughput
from autotune.core.steady import SMALLEST_FOR_95, is_warm, median_interval
from autotune.core.trial import MeasurePlan
from autotune.core.units import format_seconds
from autotune.worker.loops import Loop, Update, read
from autotune.worker.phases import Phases

_BLOCK_S = 0.05
_BLOCK_UPDATES = 1000
_MIN_MEASURE_S = 0.5
_NOTHING_S = 5e-6
_LOOKS = 3
_FAR = 4.0
_COMPILING = 12.0  # times the measuring time that XLA may compile for new shapes meanwhile: there are only so many


class HopelessError(Exception):
    """An update is so much slower than the best one known that measuring it would be a waste."""


class IdleLoopError(Exception):
    """``update()`` returns faster than any training step could."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Updates that were run back to back, with the device synchronized before and after.

    Attributes:
        seconds: wall-clock time of the block.
        updates: what each update reported.
        samples: samples offered.
        input_wait_s: of ``seconds``, time spent waiting for input data; None where unknown.
        compiled: a program was compiled in it, for a shape that had not come before.
    """

    seconds: float
    updates: tuple[Update, ...]
    samples: int
    input_wait_s: float | None
    compiled: bool = False

    @property
    def seconds_per_sample(self) -> float:
        """Time per sample offered, applied or not."""
        return self.seconds / self.samples


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """All that was timed.

    Attributes:
        blocks: measured blocks, the warm-up left out.
        updates: all updates, the warm-up included.
        steady: the warm-up ended because timings were steady, and the interval became narrow enough.
    """

    blocks: tuple[Block, ...]
    updates: tuple[Update, ...]
    steady: bool


class Stopwatch:
    """Runs blocks of updates of one loop.

    Args:
        loop: the loop.
        global_batch: samples of an update that does not say how many it had.
        clock: seconds, monotonic.
    """

    def __init__(self, loop: Loop, *, global_batch: int, clock: Callable[[], float]) -> None:
        self._loop = loop
        self.global_batch = global_batch
        self._clock = clock
        self.updates: list[Update] = []

    def block(self, count: int) -> Block:
        """Times ``count`` updates."""
        self._loop.synchronize()
        waited, shapes = self._loop.input_wait_s, self._loop.shapes_compiled
        started = self._clock()
        raw = [self._loop.update() for _ in range(count)]
        self._loop.synchronize()
        seconds = self._clock() - started
        waited_now = self._loop.input_wait_s
        updates = tuple(read(r) for r in raw)
        self.updates += updates
        return Block(
            seconds=seconds,
            updates=updates,
            samples=sum(self.global_batch if u.samples is None else u.samples for u in updates),
            input_wait_s=None if waited is None or waited_now is None else waited_now - waited,
            compiled=self._loop.shapes_compiled > shapes,
        )


def time_updates(stopwatch: Stopwatch, plan: MeasurePlan, phases: Phases) -> Timing:
    """Runs the loop until its throughput is known.

    Raises:
        HopelessError: an update takes longer than ``plan.give_up_update_s``.
        IdleLoopError: the updates do no work.
        Exception: whatever the loop raises.
    """
    with phases("trace"):
        first = stopwatch.block(1)
    with phases("warm_up"):
        warm_up, warm = _warm_up(stopwatch, plan, first)
    usual = min(b.seconds for b in _whole(warm_up[1:], stopwatch.global_batch))
    with phases("measure"):
        blocks, known = _measure(stopwatch, plan, block_size=_block_size(usual))
    return Timing(blocks=tuple(blocks), updates=tuple(stopwatch.updates), steady=warm and known)


def _block_size(update_s: float) -> int:
    """Updates between two synchronizations: enough of them that waiting for the device does not show."""
    return min(_BLOCK_UPDATES, max(1, math.ceil(_BLOCK_S / max(update_s, 1e-9))))


def _warm_up(stopwatch: Stopwatch, plan: MeasurePlan, first: Block) -> tuple[list[Block], bool]:
    blocks, spent, compiling = [first], 0.0, 0.0
    while True:
        blocks.append(stopwatch.block(1))
        spent, compiling = _add(blocks[-1], spent, compiling)
        over = compiling > _COMPILING * plan.max_measure_s
        later = [b for b in blocks[1:] if not b.compiled]
        if not later:
            if over:
                return blocks, False
            continue
        # One slow update may be the machine's fault: a program is judged by the best of three, or by a hopeless one.
        limit = plan.give_up_update_s
        fastest = min(b.seconds for b in later)
        give_up_if_hopeless(fastest, limit if limit is None or len(later) >= _LOOKS else _FAR * limit)
        whole = [first, *_whole(later, stopwatch.global_batch)]
        if is_warm([b.seconds_per_sample if b.samples else b.seconds for b in whole]):
            return blocks, True
        if over or (spent > plan.max_measure_s and len(later) > 1):
            return blocks, False


def give_up_if_hopeless(update_s: float, limit_s: float | None) -> None:
    """Raises :class:`HopelessError` where one update took longer than ``limit_s``; None never gives up."""
    if limit_s is not None and update_s > limit_s:
        raise HopelessError(
            f"given up: an update takes about {format_seconds(update_s)}; above {format_seconds(limit_s)} it cannot win"
        )


def _measure(stopwatch: Stopwatch, plan: MeasurePlan, *, block_size: int) -> tuple[list[Block], bool]:
    """Returns the blocks, and whether they tell enough: a narrow interval, or one that lies wholly in defeat."""
    fewest = max(plan.min_updates, SMALLEST_FOR_95)
    blocks: list[Block] = []
    spent, compiling = 0.0, 0.0
    while True:
        blocks.append(stopwatch.block(block_size))
        spent, compiling = _add(blocks[-1], spent, compiling)
        _check_that_it_works(blocks[-1].seconds / block_size)
        done = sum(len(b.updates) for b in blocks)
        rates = _per_sample(blocks, stopwatch.global_batch)
        if compiling > _COMPILING * plan.max_measure_s and rates:
            return blocks, False
        if done < plan.min_updates or (len(rates) < fewest and spent < plan.max_measure_s):
            continue
        interval = median_interval(rates)
        beaten = plan.beaten_update_s is not None and interval.low * stopwatch.global_batch > plan.beaten_update_s
        known = interval.share <= plan.interval_share or beaten
        if (known and spent >= _MIN_MEASURE_S) or spent >= plan.max_measure_s:
            return blocks, known


def _add(block: Block, spent: float, compiling: float) -> tuple[float, float]:
    """Adds a block's seconds to those spent measuring, or to those spent compiling."""
    return (spent, compiling + block.seconds) if block.compiled else (spent + block.seconds, compiling)


def _check_that_it_works(update_s: float) -> None:
    if update_s < _NOTHING_S:
        raise IdleLoopError(f"update() returned after {update_s * 1e6:.2g} microseconds; it does nothing")


def _per_sample(blocks: Sequence[Block], global_batch: int) -> list[float]:
    return [b.seconds_per_sample for b in _whole(blocks, global_batch) if b.samples]


def _uncompiled(blocks: Sequence[Block]) -> Sequence[Block]:
    """Blocks in which nothing was compiled, where there are such."""
    return [b for b in blocks if not b.compiled] or blocks


def _whole(blocks: Sequence[Block], global_batch: int) -> Sequence[Block]:
    """Blocks without a compilation and without the tail window of an epoch, where there are such: a few samples that
    may cost a full micro-batch say nothing of the rate, and make the interval of a short measurement as wide as can be.
    """
    steady = _uncompiled(blocks)
    return [b for b in steady if b.samples >= global_batch * len(b.updates)] or steady


def throughput(timing: Timing, *, global_batch: int) -> Throughput | None:
    """Summarizes measured blocks; None where no update was applied.

    The median is taken of the time per sample *offered*, over blocks of full windows where there are such; the share of
    samples that were applied then turns it into goodput.
    """
    updates = [u for b in timing.blocks for u in b.updates]
    sizes = [(global_batch if u.samples is None else u.samples, u.applied) for u in updates]
    offered = sum(size for size, _ in sizes)
    applied = sum(size for size, was_applied in sizes if was_applied)
    if not applied:
        return None
    interval = median_interval(_per_sample(timing.blocks, global_batch))
    good = applied / offered
    waited = _uncompiled(timing.blocks)
    waits = [b.input_wait_s for b in waited if b.input_wait_s is not None]
    return Throughput(
        samples_per_s=good / interval.median,
        samples_per_s_low=good / interval.high,
        samples_per_s_high=good / interval.low,
        update_s=interval.median * global_batch,
        updates_measured=len(updates),
        updates_skipped=sum(not was_applied for _, was_applied in sizes),
        input_wait_share=min(1.0, sum(waits) / sum(b.seconds for b in waited)) if waits else None,
        steady=timing.steady,
    )
