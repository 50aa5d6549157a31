"""Runs the winner again, longer, in fresh processes, in turn with its runner-up, before anything is written down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from autotune.core.confirmation import Confirmation, Confirmed, pool
from autotune.core.outcome import State, Throughput
from autotune.core.select import Ranked
from autotune.core.trial import PassKind, TrialRecord, TrialSpec
from autotune.trial import TrialLauncher


def confirm(
    launcher: TrialLauncher,
    ranked: Sequence[Ranked],
    reference: TrialRecord | None,
    spec_of: Callable[[TrialRecord], TrialSpec],
    folder: Path,
    say: Callable[[str], None],
) -> Confirmation:
    """Confirms the best candidate; one that fails is dropped, and the next best takes its place.

    Args:
        launcher: runs the processes.
        ranked: usable trials, best first.
        reference: one plain full batch, which runs once in between: the verdict compares like with like.
        spec_of: what to run for a trial.
        folder: the study's folder; confirmation runs go to ``confirm/`` in it and are no rows of the table.
        say: told in a sentence what happens.
    """
    waiting = [r.record for r in ranked]
    remarks: list[str] = []
    while waiting:
        pair = waiting[:2]
        names = " and ".join(f"trial {r.number}" for r in pair)
        say(f"confirming {names} in fresh processes")
        extra = [reference] if reference is not None and reference not in pair else []
        # In turn (A B R A B), so that a drifting machine touches all of them.
        turns = [*pair, *extra, *pair]
        rounds: dict[int, list[Throughput]] = {}
        failed = _run(launcher, turns, spec_of, folder, rounds)
        if failed is None:
            confirmed = {r.number: Confirmed(record=r, throughput=pool(rounds[r.number])) for r in (*pair, *extra)}
            return Confirmation(
                contenders=tuple(confirmed[r.number] for r in pair),
                reference=confirmed[extra[0].number] if extra else None,
                remarks=tuple(remarks),
            )
        remarks.append(f"trial {failed[0].number} failed when it was run again ({failed[1]}) and was passed over")
        say(remarks[-1])
        if failed[0] in waiting:
            waiting.remove(failed[0])
        if failed[0] == reference:
            reference = None
    return Confirmation(remarks=tuple(remarks))


def _run(
    launcher: TrialLauncher,
    turns: Sequence[TrialRecord],
    spec_of: Callable[[TrialRecord], TrialSpec],
    folder: Path,
    rounds: dict[int, list[Throughput]],
) -> tuple[TrialRecord, str] | None:
    """Fills ``rounds``; returns the first candidate that failed, with the reason."""
    for turn, record in enumerate(turns):
        spec = spec_of(record)
        kind: PassKind = "timing" if spec.device.kind == "cpu" else "single"
        outcome = launcher.run_pass(spec, kind, folder / "confirm" / f"{turn}-trial-{record.number}")
        if outcome.state is not State.COMPLETED or outcome.throughput is None:
            return record, outcome.reason or str(outcome.state)
        rounds.setdefault(record.number, []).append(outcome.throughput)
    return None


def in_full(spec: TrialSpec) -> TrialSpec:
    """Returns the same trial, measured at length whatever is known of others."""
    plan = replace(spec.plan, min_updates=2 * spec.plan.min_updates, give_up_update_s=None, beaten_update_s=None)
    return replace(spec, plan=plan)
