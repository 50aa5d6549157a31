"""The main job: find the machine, search, confirm, choose, write. Read this first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from autotune.callable_module import make_callable
from autotune.core import study as core_study
from autotune.core.study import Job, Objective
from autotune.core.trial import MeasurePlan
from autotune.core.units import MemoryLimit, parse_duration, parse_memory_limit
from autotune.errors import UsageError
from autotune.prepare import (
    check_folder,
    default_folder,
    find_machine,
    parse_global_batch,
    parse_restrictions,
    resolve_workload,
    settle_job,
)
from autotune.study import Study
from autotune.watcher import Watcher

T = TypeVar("T")

INSPECT_TIMEOUT_S = 120.0


def tune(
    workload: str | Path,
    *,
    global_batch: int | str,
    trials: int = 24,
    budget: float | str | None = None,
    trial_timeout: float | str = 600.0,
    memory_limit: int | str | MemoryLimit | None = None,
    device: str = "auto",
    precision: str | None = None,
    axes: Sequence[str] = (),
    objective: Objective = "throughput",
    out: str | Path | None = None,
    study: str | None = None,
    storage: str | None = None,
    seed: int = 0,
    resume: bool = False,
    measure_time: float | str = 10.0,
    watcher: Watcher | None = None,
) -> Study:
    """Finds the settings that train ``workload`` fastest with ``global_batch`` samples per update, by running it.

    Trials run one after another, each in processes of its own; nothing of the caller's process is changed, and no
    TensorFlow is loaded into it.

    Args:
        workload: a built-in name, ``path/to/train.py`` or ``train.py:name``.
        global_batch: samples per optimizer update, kept exactly; ``256..2048`` lets it vary by factors of two, and
            learning-rate advice relative to the smaller one comes with the result.
        trials: at most this many, those of a resumed study included.
        budget: seconds (or ``10m``) from now for the whole search; None for no limit.
        trial_timeout: seconds (or ``45s``) for one trial.
        memory_limit: bytes, ``8GiB``, or ``90%`` of what the device offers; None for all of it.
        device: ``auto``, ``cpu``, ``gpu``, ``gpu:N`` (CUDA's order) or a UUID.
        precision: dtype policies to search, with commas; None by device.
        axes: restrictions such as ``micro_batch=8..128`` or ``jit_compile=off``.
        objective: ``throughput``, ``memory`` or ``pareto``.
        out: folder of the study; ``results/WORKLOAD-BATCH-DEVICE`` by default.
        study: its name in the storage; the folder's name by default.
        storage: an Optuna storage URL, or ``env:NAME``; ``study.db`` in the folder by default.
        seed: seeds the search and every trial.
        resume: continue the study in the folder.
        measure_time: longest measuring of one trial, in seconds.
        watcher: hears what happens.

    Returns:
        The study; its ``tuned`` is the config to train with.

    Raises:
        UsageError: bad input; nothing was written.
        UserCodeError: the workload's own code raised.
        AutotuneError: nothing fits, or no GPU where one was demanded.
    """
    hears = watcher or Watcher()
    limit = _limit(memory_limit)
    budget_s, timeout_s, measure_s = _seconds(budget), _seconds(trial_timeout), _seconds(measure_time)
    base_batch, varied = parse_global_batch(global_batch)
    restrictions = parse_restrictions(precision, (*axes, *varied))
    ref = resolve_workload(workload)
    if out is not None:
        check_folder(Path(out), resume=resume)
    machine = find_machine(device)
    folder = Path(out) if out is not None else default_folder(ref, base_batch, machine.device)
    check_folder(folder, resume=resume)
    hears.say(machine.sentence)
    from autotune.loss_scale import calibrate
    from autotune.session import Session
    from autotune.trial import TrialLauncher

    stored = _stored_job(folder, study, storage, resume)
    with TrialLauncher(folder, machine.device, stop_now=hears.stop_now, say=hears.say) as launcher:
        info = launcher.inspect(ref, timeout_s=INSPECT_TIMEOUT_S)
        job, space = settle_job(
            ref, info, machine, global_batch=base_batch, limit=limit, restrictions=restrictions,
            objective=objective, seed=seed, stored_limit_bytes=stored.memory_limit_bytes if stored else None,
        )  # fmt: skip
        if not hears.prepared(job, space):
            return Study(data=core_study.Study(name=study or folder.name, job=job), folder=folder)
        found = calibrate(launcher, ref, job, space, hears.say, stored=stored)
        plan = MeasurePlan(max_measure_s=measure_s or MeasurePlan().max_measure_s)
        with Session(launcher, ref, found.job, plan, timeout_s or 600.0, folder, hears, machine.twins) as session:
            session.open(
                found.space, name=study, storage=storage, resume=resume, loss_scale=found.calibration,
                notes=(*machine.warnings, *info.warnings, *found.notes),
            )  # fmt: skip
            session.search(trials=trials, budget_s=budget_s)
            session.choose()
            return session.write()


def _limit(value: int | str | MemoryLimit | None) -> MemoryLimit | None:
    if value is None or isinstance(value, MemoryLimit):
        return value
    return _parsed(parse_memory_limit, str(value), "memory_limit")


def _seconds(value: float | str | None) -> float | None:
    if value is None or isinstance(value, (int, float)):
        return value
    return _parsed(parse_duration, value, "a duration")


def _parsed(parse: Callable[[str], T], text: str, what: str) -> T:
    try:
        return parse(text)
    except ValueError as problem:
        raise UsageError(f"{what}: {problem}") from None


def _stored_job(folder: Path, name: str | None, storage: str | None, resume: bool) -> Job | None:
    """The job of the study that is resumed, or joined on a server; None where there is none yet."""
    if storage is None and not (resume and (folder / "study.db").is_file()):
        return None
    from autotune.search.opening import stored_job

    return stored_job(storage or folder, name=name or folder.name)


make_callable(__name__)
