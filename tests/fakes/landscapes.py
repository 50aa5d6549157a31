"""Synthetic measurements to replay a search on, in microseconds instead of minutes. NOT measured on any device.

Two kinds. ``measured_ratios`` spreads the table of executions (times relative to a full batch, measured on a CPU) over
all sizes. ``drawn_gpu`` builds a device and a network kernel by kernel: tiles that fill waves of multiprocessors,
bytes through a memory bus, launches, an allocator that rounds. Neither knows the search's models: there is no curve
over the micro-batch in here, only sums over kernels, and tables.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from autotune.core.candidate import Candidate
from autotune.core.outcome import Memory, Outcome, State, Throughput
from autotune.core.space import SearchSpace, build_space
from autotune.core.trial import TrialRecord

MIB = 2**20
OUT_OF_MEMORY_S = 12.0


@dataclass(frozen=True, kw_only=True)
class Landscape:
    """A space with a throughput, a peak and a duration for every candidate."""

    name: str
    space: SearchSpace
    update_s: Callable[[Candidate], float]
    peak: Callable[[Candidate], float]
    first_call_s: Callable[[Candidate], float]
    limit: int | None = None
    noise: float = 0.006

    def rate(self, candidate: Candidate) -> float:
        """True samples per second."""
        return candidate.global_batch / self.update_s(candidate)

    def fits(self, candidate: Candidate) -> bool:
        return self.limit is None or self.peak(candidate) <= self.limit

    def best(self) -> Candidate:
        """The exhaustive optimum."""
        return max((c for c in self.space.candidates() if self.fits(c)), key=self.rate)

    def trial(
        self, number: int, candidate: Candidate, seed: int = 0, give_up_update_s: float | None = None
    ) -> TrialRecord:
        """What a trial of ``candidate`` would record, with repeatable noise."""
        if not self.fits(candidate):
            outcome = Outcome(state=State.OUT_OF_MEMORY, reason="ran out of memory (synthetic)")
            return _record(number, candidate, outcome, OUT_OF_MEMORY_S + 2)
        draw = random.Random(hashlib.sha256(f"{self.name}{seed}{candidate}".encode()).digest())
        update = self.update_s(candidate) * math.exp(draw.gauss(0, self.noise))
        rate, width = candidate.global_batch / update, draw.uniform(0.5, 2.0) * self.noise
        timing = Throughput(
            samples_per_s=rate, samples_per_s_low=rate * (1 - width), samples_per_s_high=rate * (1 + width),
            update_s=update, updates_measured=20, updates_skipped=0,
        )  # fmt: skip
        peak = int(self.peak(candidate) * math.exp(draw.gauss(0, 0.004)))
        memory = Memory(peak_bytes=min(peak, self.limit or peak), peak_source="synthetic")
        if give_up_update_s is not None and update > give_up_update_s:
            outcome = Outcome(state=State.TIMED_OUT, reason="given up (synthetic)")
            return _record(number, candidate, outcome, 1.0 + self.first_call_s(candidate) + 2 * update)
        wall = 1.0 + self.first_call_s(candidate) + 2 * update + min(max(4.0, 5 * update), 10.0)
        return _record(number, candidate, Outcome(state=State.COMPLETED, throughput=timing, memory=memory), wall)


def _record(number: int, candidate: Candidate, outcome: Outcome, wall_s: float) -> TrialRecord:
    return TrialRecord(number=number, candidate=candidate, outcome=outcome, started_unix=0.0, wall_s=wall_s)


# Times relative to one plain full batch, by (execution, jitted): at 1, 4 and 16 accumulation steps.
RATIOS = {
    "mlp": {
        (None, False): (1.0,), (None, True): (0.91,),
        ("stepped", False): (1.37, 2.93), ("stepped", True): (1.11, 2.83),
        ("fused", False): (1.26, 2.64), ("fused", True): (1.04, 2.04),
        ("unrolled", False): (1.20, 2.41), ("unrolled", True): (1.01, 2.94),
    },
    "cnn": {
        (None, False): (1.0,), (None, True): (1.13,),
        ("stepped", False): (1.23, 2.09), ("stepped", True): (0.91, 1.98),
        ("fused", False): (1.07, 1.68), ("fused", True): (13.0, 15.0),
        ("unrolled", False): (1.12, 1.07), ("unrolled", True): (1.21, 1.4),
    },
    "transformer": {
        (None, False): (1.0,), (None, True): (0.80,),
        ("stepped", False): (1.19, 2.14), ("stepped", True): (0.64, 1.28),
        ("fused", False): (1.11, 1.69), ("fused", True): (0.55, 0.62),
        ("unrolled", False): (1.09, 1.3), ("unrolled", True): (0.82, 1.0),
    },
}  # fmt: skip


def measured_ratios(name: str, *, global_batch: int = 256, full_s: float = 0.1, limit: int | None = None) -> Landscape:
    """A CPU landscape through the measured ratios, straight between them over the logarithm of the steps."""
    axes = {"precision": ("float32",), "execution": ("fused", "stepped", "unrolled"), "jit_compile": (False, True)}
    table = RATIOS[name]

    def update_s(c: Candidate) -> float:
        key = (c.execution if c.accumulation_steps > 1 else None, bool(c.jit_compile))
        ratios = table[key] if key[0] is None else (table[None, key[1]][0], *table[key])
        place = math.log(c.accumulation_steps, 4)
        low = min(int(place), len(ratios) - 2) if len(ratios) > 1 else 0
        if len(ratios) == 1:
            return full_s * ratios[0]
        if key == ("fused", True) and low == 0 and ratios[1] > 5:
            return full_s * ratios[1]  # the loop itself is what is slow: there is no half a loop
        return full_s * (ratios[low] + (place - low) * (ratios[low + 1] - ratios[low]))

    def peak(c: Candidate) -> float:
        whole = 2.0 * MIB * (0.85 if c.jit_compile else 1.0)
        held = c.micro_batch if c.execution != "unrolled" else max(c.micro_batch, 0.9 * c.global_batch)
        return 12 * MIB + (4 * MIB if c.accumulation_steps > 1 else 0) + whole * (held + 3 * math.sin(held))

    def first_call(c: Candidate) -> float:
        copies = c.accumulation_steps if c.execution == "unrolled" else 1
        return (3.0 + 0.9 * copies) if c.jit_compile else (1.0 + 0.15 * copies)

    return Landscape(
        name=f"cpu {name}", space=build_space(global_batch, axes=axes), update_s=update_s, peak=peak,
        first_call_s=first_call, limit=limit, noise=0.012,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class _Kernel:
    tiles: float  # per sample
    bytes: float  # per sample, float32
    weights: float  # bytes, float32
    elementwise: bool


def drawn_gpu(seed: int, *, limit_share: float | None = None) -> Landscape:
    """A made-up GPU and a made-up network, drawn from ``seed``.

    Args:
        seed: of the draw.
        limit_share: memory limit as a share of what the plain full batch needs; drawn where None.
    """
    draw = random.Random(seed)
    sms = draw.choice((40, 80, 108, 132))
    bus = draw.uniform(0.5e12, 3e12)
    tile_s = draw.uniform(2e-6, 12e-6)
    launch_s = draw.uniform(3e-6, 9e-6)
    kernels = []
    for _ in range(draw.randint(12, 90)):
        heavy = draw.random() < 0.6
        kernels.append(
            _Kernel(
                tiles=draw.uniform(0.3, 14) if heavy else draw.uniform(0.02, 0.5),
                bytes=draw.uniform(0.1, 3.0) * 1e6, weights=draw.uniform(0.05, 6) * 1e6 if heavy else 0.0,
                elementwise=not heavy,
            )
        )  # fmt: skip
    half_gain = draw.uniform(0.35, 0.9)  # tile time in 16 bit against float32
    xla_bytes = draw.uniform(0.5, 1.0)
    xla_tiles = draw.uniform(0.85, 1.15)
    loop_s = draw.uniform(20e-6, 400e-6)
    call_s = draw.uniform(200e-6, 1.5e-3)
    xla_loop = draw.choice((1.0, 1.0, 1.02, 1.3, 2.5))
    dip = draw.choice((None, None, draw.randint(5, 60)))  # sizes in a band for which the library has a poor kernel
    step_at = draw.choice((None, draw.randint(8, 128)))  # size from which a larger workspace is taken
    workspace = draw.uniform(20, 400) * MIB
    batch = draw.choice((256, 256, 384, 512, 1000, 1024))
    with_recompute = draw.random() < 0.3
    weights = sum(k.weights for k in kernels)
    axes: dict[str, tuple[object, ...]] = {
        "precision": draw.choice((("mixed_float16", "float32"), ("mixed_bfloat16", "float32"), ("float32",))),
        "execution": ("fused", "stepped", "unrolled"),
        "jit_compile": (False, True),
    }
    if with_recompute:
        axes["recompute"] = (False, True)

    def pass_s(c: Candidate, m: int) -> float:
        small = c.precision != "float32"
        total = 0.0
        for k in kernels:
            waves = math.ceil(math.ceil(m * k.tiles) / sms)
            compute = waves * tile_s * (half_gain if small else 1.0) * (xla_tiles if c.jit_compile else 1.0)
            moved = (m * k.bytes * (0.55 if small else 1.0) + k.weights * (0.75 if small else 1.0)) / bus
            if c.jit_compile and k.elementwise:
                moved *= xla_bytes
            launches = launch_s * (0.3 if c.jit_compile and k.elementwise else 1.0)
            total += max(compute, moved) + launches
        if dip is not None and dip <= m < 1.4 * dip:
            total *= 1.18
        return total * 3 * (1.27 if c.recompute else 1.0)

    def update_s(c: Candidate) -> float:
        steps = c.accumulation_steps
        last = c.global_batch - (steps - 1) * c.micro_batch
        # XLA compiles one shape for a loop: there the last micro-batch is padded. The others run it as it is.
        padded = c.jit_compile and c.execution != "unrolled" and steps > 1
        passes = [c.micro_batch] * (steps - 1) + [c.micro_batch if padded else last]
        cost = {m: pass_s(c, m) for m in set(passes)}
        work = sum(cost[m] for m in passes)
        gather = 3 * weights / bus * steps if steps > 1 else 0.0
        update = 6 * weights / bus + 40e-6
        if steps == 1:
            return work + update + call_s
        if c.execution == "fused":
            return (work * (xla_loop if c.jit_compile else 1.0)) + gather + steps * loop_s + update + call_s
        if c.execution == "stepped":
            return work + gather + update + (steps + 1) * call_s
        return work + gather * 0.7 + update + call_s

    def peak(c: Candidate) -> float:
        small = c.precision != "float32"
        held = c.micro_batch
        if c.execution == "unrolled" and c.accumulation_steps > 1:
            held = max(held, int(0.6 * c.global_batch))
        kept = sum(k.bytes for k in kernels) * (0.55 if small else 1.0) * (0.85 if c.jit_compile else 1.0)
        kept *= 0.35 if c.recompute else 1.0
        fixed = weights * (4 + (1 if c.accumulation_steps > 1 else 0) + (0.5 if small else 0))
        extra = workspace if step_at is not None and c.micro_batch >= step_at else 0.0
        return math.ceil((fixed + kept * held + extra) / (2 * MIB)) * 2 * MIB

    def first_call(c: Candidate) -> float:
        copies = c.accumulation_steps if c.execution == "unrolled" else 1
        return (4 + 0.05 * len(kernels) * (1 + 0.4 * copies)) if c.jit_compile else (1.5 + 0.01 * len(kernels) * copies)

    share = limit_share if limit_share is not None else draw.choice((0.12, 0.3, 0.55, 0.8, 1.5))
    plain = Candidate(global_batch=batch, micro_batch=batch)
    return Landscape(
        name=f"drawn GPU {seed}", space=build_space(batch, alignment=8, axes=axes), update_s=update_s, peak=peak,
        first_call_s=first_call, limit=int(share * peak(plain)),
    )  # fmt: skip
