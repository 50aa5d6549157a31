"""Studies made by hand, for tests of everything that shows or stores one."""

from __future__ import annotations

from dataclasses import replace

from autotune.core.candidate import Candidate
from autotune.core.outcome import Memory, Outcome, State, Throughput
from autotune.core.study import Job, Study
from autotune.core.trial import Device, TrialRecord
from autotune.core.tuned import Hardware, Software, WorkloadId

MIB = 2**20
HOSTILE = 'train "<script>alert(1)</script>" & co.py'


def job(**changes) -> Job:
    values = {
        "workload": WorkloadId(entry_point=HOSTILE, source_hash="5f" * 32, kind="workload", dataset_size=1797),
        "device": Device(kind="cpu", name="cpu", memory_usable_bytes=8 * 2**30),
        "hardware": Hardware(device="CPU, 2 cores", kind="cpu", memory_bytes=8 * 2**30, cpu="Example CPU", cpu_cores=2),
        "software": Software(autotune="0.1.0", python="3.11.7", tensorflow="2.21.0", keras="3.15.1"),
        "global_batch": 256,
        "memory_limit_bytes": 200 * MIB,
        "seed": 1,
        "axes": {"precision": ("float32", "mixed_float16"), "micro_batch": ("1..256",)},
    }
    return Job(**(values | changes))


def measured(
    rate: float, *, spread: float = 0.01, batch: int = 256, skipped: int = 0, steady: bool = True
) -> Throughput:
    return Throughput(
        samples_per_s=rate,
        samples_per_s_low=rate * (1 - spread),
        samples_per_s_high=rate * (1 + spread / 2),
        update_s=batch / rate,
        updates_measured=24,
        updates_skipped=skipped,
        input_wait_share=0.03,
        steady=steady,
    )


def completed(number: int, micro: int, rate: float, peak: int | None, **changes) -> TrialRecord:
    options = {k: changes.pop(k) for k in ("skipped", "steady", "spread") if k in changes}
    outcome = Outcome(
        state=State.COMPLETED,
        throughput=measured(rate, **options),
        memory=Memory(peak_bytes=peak, peak_source="tf_bfc_cpu", host_peak_bytes=300 * MIB, input_bytes=3 * MIB),
        phases={"fork": 0.04, "build": 0.5, "trace": 1.25, "warm_up": 0.5, "measure": 3.0, "memory_pass": 2.0},
        effective={"precision": str(changes.get("precision", "float32"))},
        final_loss_scale=changes.pop("final_loss_scale", None),
        warnings=changes.pop("warnings", ()),
    )
    return record(number, micro, outcome, **changes)


def failed(number: int, micro: int, state: State, reason: str | None, **changes) -> TrialRecord:
    outcome = Outcome(
        state=state, reason=reason, phases={"fork": 0.05, "build": 0.4}, user_error=changes.pop("user_error", None)
    )
    return record(number, micro, outcome, **changes)


def record(number: int, micro: int, outcome: Outcome, **changes) -> TrialRecord:
    wall_s = changes.pop("wall_s", 8.5)
    candidate = Candidate(**({"global_batch": 256, "micro_batch": micro} | changes))
    return TrialRecord(
        number=number, candidate=candidate, outcome=outcome, started_unix=1_700_000_000.25 + 10 * number, wall_s=wall_s
    )


def rich_study(**changes) -> Study:
    """Every kind of trial: completed, ties, out of memory, non-finite, timed out, crashed, invalid; no peak."""
    f16 = {"precision": "mixed_float16"}
    records = (
        completed(0, 256, 4000.0, 180 * MIB, execution="fused"),
        completed(1, 64, 5240.5, 76 * MIB + 1, execution="fused", jit_compile=True),
        completed(2, 64, 5240.5, 76 * MIB + 1, execution="stepped", jit_compile=True),
        completed(3, 16, 3100.0, 40 * MIB, execution="unrolled", spread=0.08, steady=False),
        failed(
            4,
            256,
            State.OUT_OF_MEMORY,
            'needs more than 200 MiB (Allocator ran out; "quoted",\nsecond line)',
            **f16,
            initial_loss_scale=2.0**15,
        ),
        failed(
            5,
            128,
            State.NON_FINITE,
            "no update was applied: the loss scale fell to its floor",
            **f16,
            initial_loss_scale=2.0**24,
        ),
        failed(
            6,
            128,
            State.CRASHED,
            "SIGSEGV in <script>alert('x')</script> \x1b[31mred\x1b[0m [bold]",
            execution="stepped",
            user_error="train.py:3: ValueError: <img src=x onerror=alert(1)>",
        ),
        failed(7, 128, State.TIMED_OUT, "not done after 600 s", execution="unrolled"),
        failed(8, 128, State.INVALID, "asked for jit_compile, ran without", jit_compile=True),
        completed(
            9,
            64,
            900.0,
            90 * MIB,
            **f16,
            initial_loss_scale=2.0**15,
            final_loss_scale=2.0**13,
            skipped=3,
            warnings=("clocks throttled", "another process <b>on</b> the device"),
        ),
        completed(10, 256, 1100.0, None, **f16, initial_loss_scale=2.0**10, final_loss_scale=2.0**10),
        completed(11, 86, 4800.25, 95 * MIB, execution="fused"),
    )
    study = Study(
        name="digits-256-cpu",
        job=job(),
        records=records,
        pareto=(1, 2, 3),
        chosen=1,
        confirmed=True,
        verdict="micro-batch 64 x 4 accumulation steps, fused, jitted: 1.31x the throughput of one full batch at 42 % "
        "of its peak memory",
        stop_reason="all 12 trials were run",
        command="autotune tune 'train \"<script>.py' --global-batch 256 --seed 1",
        warnings=("the CPU is shared with other processes",),
    )
    return replace(study, **changes)


def empty_study() -> Study:
    """Nothing was run yet."""
    return Study(name="empty", job=job(memory_limit_bytes=None, device=job().device))


def hopeless_study() -> Study:
    """Nothing fits."""
    records = tuple(failed(i, 2**i, State.OUT_OF_MEMORY, "needs more than 1 MiB") for i in range(4))
    return Study(name="hopeless", job=job(memory_limit_bytes=MIB), records=records)
