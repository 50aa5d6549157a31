"""``autotune tune`` on a terminal: progress while it runs, Ctrl-C, the result at the end."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from typing import Any

from autotune.cli.ctrl_c import counted_interrupts
from autotune.core.space import SearchSpace
from autotune.core.study import Job
from autotune.core.trial import TrialRecord
from autotune.core.units import format_bytes, format_seconds
from autotune.report.terminal import Progress
from autotune.search.run import Event, TrialEnded, TrialStarted
from autotune.study import Study
from autotune.tune import tune
from autotune.watcher import Watcher

# What a trial on the CPU took beside its measuring: two processes that build, trace and compile (docs/trials.md).
_OVERHEAD_S = 6.0


def run_and_print(args: argparse.Namespace) -> int:
    """Runs the study that ``args`` ask for; returns the exit code."""
    with (
        counted_interrupts("ending after this trial; press Ctrl-C again to end now") as interrupts,
        Progress(budget_s=args.budget) as progress,
    ):
        view = _View(progress, args, interrupts)
        study = tune(
            args.workload,
            global_batch=args.global_batch,
            trials=args.trials,
            budget=args.budget,
            trial_timeout=args.trial_timeout,
            memory_limit=args.memory_limit,
            device=args.device,
            precision=args.precision,
            axes=args.axis,
            objective=args.objective,
            out=args.out,
            study=args.study,
            storage=args.storage,
            seed=args.seed,
            resume=args.resume,
            measure_time=args.measure_time,
            watcher=Watcher(
                prepared=view.prepared,
                event=view.event,
                say=progress.message,
                stop_requested=lambda: bool(interrupts),
                stop_now=lambda: len(interrupts) > 1,
            ),
        )
    if args.dry_run:
        return 0
    print(_as_json(study) if args.json else _as_text(study))
    return 0


class _View:
    """Turns what a study tells into lines of progress."""

    def __init__(self, progress: Progress, args: argparse.Namespace, interrupts: list[int]) -> None:
        self._progress = progress
        self._args = args
        self._best: TrialRecord | None = None

    def prepared(self, job: Job, space: SearchSpace) -> bool:
        """Prints the candidates of a dry run, which ends there."""
        if self._args.dry_run:
            print(_plan(job, space, self._args.trials, self._args.measure_time))
        return not self._args.dry_run

    def event(self, event: Event) -> None:
        """One trial has begun or ended."""
        if isinstance(event, TrialStarted):
            self._progress.trial_started(event.number, event.candidate, self._args.trials)
        elif isinstance(event, TrialEnded):
            record = event.record
            if record.completed and _rate(record) > (_rate(self._best) if self._best else 0.0):
                self._best = record
            self._progress.trial_finished(record, self._best)


def _rate(record: TrialRecord) -> float:
    return record.samples_per_s or 0.0


def _plan(job: Job, space: SearchSpace, trials: int, measure_s: float) -> str:
    """What a dry run prints."""
    candidates = space.candidates()
    count = min(len(candidates), trials)
    batches = job.axes.get("global_batch", (str(job.global_batch),))
    lines = [f"{len(candidates)} candidates with a global batch of exactly {' or '.join(batches)}:"]
    lines += [f"  {c.describe()}" for c in candidates]
    lines += ["axes:", *(f"  {name}: {', '.join(values)}" for name, values in space.axes_text().items())]
    seconds = format_seconds(count * (_OVERHEAD_S + measure_s))
    lines.append(f"at most {count} are run, in at most about {seconds}; the search ends when nothing left can improve")
    return "\n".join(lines)


def _as_text(study: Study) -> str:
    from autotune.report.loss_scale import loss_scale_table
    from autotune.report.text import trade_off_table

    data = study.data
    width = shutil.get_terminal_size((80, 24)).columns if sys.stdout.isatty() else 80
    color = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    parts = [trade_off_table(data, width=max(width, 60), color=color), ""]
    scales = loss_scale_table(data, width=max(width, 60))
    parts += [scales, ""] if scales else []
    parts += [f"note: {warning}" for warning in data.warnings]
    if data.verdict:
        parts.append(f"chosen: {data.verdict}")
    if data.confirmation:
        peak = data.chosen_record.peak_bytes if data.chosen_record else None
        parts.append(
            f"        {data.confirmation.samples_per_s:,.0f} samples/s confirmed in fresh processes"
            + (f", peak {format_bytes(peak)}" if peak else "")
        )
    parts.append("wrote:  " + "\n        ".join(str(path) for path in study.files))
    return "\n".join(parts)


def _as_json(study: Study) -> str:
    from autotune.core.codec import to_plain

    data = study.data
    tuned = study.tuned
    result: dict[str, Any] = {
        "schema_version": 1,
        "study": data.name,
        "verdict": data.verdict,
        "stop_reason": data.stop_reason,
        "chosen": data.chosen,
        "tuned": to_plain(tuned.record) if tuned else None,
        "trials": json.loads(study.trials.to_json(orient="records")),
        "warnings": list(data.warnings),
        "files": [str(path) for path in study.files],
    }
    return json.dumps(result, indent=2)
