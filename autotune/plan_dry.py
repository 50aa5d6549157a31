"""Peaks of a workload that was never run on a GPU: from the compiler where it is jitted, from a CPU where it is not."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from autotune.core.candidate import Candidate
from autotune.core.outcome import State
from autotune.core.plan.answers import Knowledge
from autotune.core.plan.dry import DryRequest
from autotune.core.plan.parts import Parts
from autotune.core.plan.peaks import PeakModel, PeakPoint, program_of
from autotune.core.trial import Device, TrialSpec
from autotune.core.workload import WorkloadInfo, WorkloadRef
from autotune.errors import AutotuneError, UsageError
from autotune.prepare import find_machine, resolve_workload
from autotune.trial import TrialLauncher
from autotune.trial.dry import DryResult, run_dry

INSPECT_TIMEOUT_S = 120.0
COMPILE_TIMEOUT_S = 300.0
PASS_TIMEOUT_S = 120.0
# A plain update is run on the CPU, smallest micro-batch first; no further size is begun after this long.
RUNNING_S = 60.0
SIZES = 4

NOTE = (
    "nothing was run on a GPU: jitted peaks are XLA's own buffer assignment (for a CPU), the others come from one "
    "update on this CPU; on a GPU kernels and their workspaces differ"
)


def dry_knowledge(
    workload: str, global_batch: int, say: Callable[[str], None]
) -> tuple[Knowledge, str, tuple[str, ...]]:
    """Compiles (jitted) and runs on the CPU (plain) a few sizes of a workload, in processes of their own.

    Args:
        workload: as :func:`autotune.tune` takes it.
        global_batch: samples per update.
        say: hears what takes a while.

    Returns:
        what a plan can be made from, a title, and notes.

    Raises:
        UsageError: no such workload, a loop of the user's own, or nothing that could be forecast.
        UserCodeError: the workload's own code raised.
    """
    ref = resolve_workload(workload)
    device = find_machine("cpu").device
    with (
        tempfile.TemporaryDirectory(prefix="autotune-") as scratch,
        TrialLauncher(Path(scratch), device, say=say) as launcher,
    ):
        say(f"looking at {ref.display}")
        info = launcher.inspect(ref, timeout_s=INSPECT_TIMEOUT_S)
        _check(ref, info, global_batch)
        sizes = dry_sizes(global_batch)
        say(f"compiling micro-batches {', '.join(map(str, sizes))}, without running them")
        jitted = _candidates(sizes, global_batch, jit=True)
        result = run_dry(
            DryRequest(
                workload=ref,
                candidates=jitted,
                usable_bytes=device.memory_usable_bytes,
                preload=not info.import_environment,
            ),
            timeout_s=COMPILE_TIMEOUT_S,
        )
        points, notes = _compiled(jitted, result)
        say("running one plain update of each on this CPU")
        plain = _candidates(sizes, global_batch, jit=False)
        ran, remarks = _run(launcher, ref, device, plain, result.parts, Path(scratch))
    try:
        peaks = PeakModel([*points, *ran], result.parts)
    except ValueError:
        reasons = "; ".join((*notes, *remarks)) or f"a global batch of {global_batch} leaves too few sizes"
        raise UsageError(f"{ref.display} cannot be forecast: {reasons}") from None
    known = Knowledge(peaks=peaks, parts=result.parts, from_cpu=True, preferred=program_of(jitted[0]))
    return known, f"{ref.display}, not run on a GPU", (NOTE, *notes, *remarks)


def dry_sizes(global_batch: int) -> list[int]:
    """Returns micro-batches to look at: halves of the global batch, smallest first, then all of it."""
    sizes = [global_batch]
    while len(sizes) <= SIZES and sizes[-1] > 1:
        sizes.append(max(1, sizes[-1] // 2))
    return sorted(set(sizes))


def _check(ref: WorkloadRef, info: WorkloadInfo, global_batch: int) -> None:
    if info.kind != "workload":
        raise UsageError(f"{ref.display} is a loop of its own (make_loop), which must be run: plan from a study of it")
    if info.dataset_size is not None and info.dataset_size < global_batch:
        raise UsageError(
            f"the global batch {global_batch} is larger than the data set ({info.dataset_size} samples); use at most "
            f"{info.dataset_size}"
        )


def _candidates(sizes: Sequence[int], global_batch: int, *, jit: bool) -> tuple[Candidate, ...]:
    return tuple(Candidate(global_batch=global_batch, micro_batch=size, jit_compile=jit) for size in sizes)


def _compiled(candidates: Sequence[Candidate], result: DryResult) -> tuple[list[PeakPoint], list[str]]:
    notes = [result.remark] if result.remark else []
    points = []
    for answer in result.answers:
        candidate = candidates[answer.index or 0]
        if answer.compiled is None:
            notes.append(f"{candidate.describe()} was not compiled: {answer.reason}")
        else:
            points.append(_point(candidate, answer.compiled.peak_bytes))
    return points, notes


def _run(
    launcher: TrialLauncher,
    ref: WorkloadRef,
    device: Device,
    candidates: Sequence[Candidate],
    parts: Parts,
    folder: Path,
) -> tuple[list[PeakPoint], list[str]]:
    """Memory passes on the CPU, smallest first, as far as time and memory allow.

    Each runs an update of two micro-batches at most, so that its time follows the micro-batch; what the whole resident
    window takes is added.
    """
    started = time.monotonic()
    points: list[PeakPoint] = []
    for candidate in candidates:
        if points and time.monotonic() - started > RUNNING_S:
            return points, [
                f"plain micro-batches from {candidate.micro_batch} on were not run: they take too long here"
            ]
        batch = min(candidate.global_batch, 2 * candidate.micro_batch)
        short = Candidate(global_batch=batch, micro_batch=candidate.micro_batch, jit_compile=False)
        spec = TrialSpec(number=0, workload=ref, candidate=short, device=device, timeout_s=PASS_TIMEOUT_S)
        try:
            outcome = launcher.run_pass(spec, "memory", folder / str(candidate.micro_batch))
        except AutotuneError as problem:
            return points, [f"plain updates were not run: {problem}"]
        if outcome.state is not State.COMPLETED or outcome.memory is None or outcome.memory.peak_bytes is None:
            return points, [f"{candidate.describe()} was not measured: {outcome.reason or outcome.state}"]
        rest = parts.sample_bytes * (candidate.global_batch - batch)
        points.append(_point(candidate, outcome.memory.peak_bytes + rest))
    return points, []


def _point(candidate: Candidate, peak_bytes: int) -> PeakPoint:
    return PeakPoint(program=program_of(candidate), micro_batch=candidate.micro_batch, peak_bytes=float(peak_bytes))
