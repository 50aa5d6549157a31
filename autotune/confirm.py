"""Runs the winner again, longer, in fresh processes, in turn with its runner-up, before anything is written down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from autotune.core.confirmation import Confirmed, pool
from autotune.core.outcome import State, Throughput
from autotune.core.select import Ranked
from autotune.core.trial import PassKind, TrialRecord, TrialSpec
from autotune.trial import TrialLauncher

ROUNDS = 2  # each candidate runs this often, in turn: A B A B, so that a drifting machine touches both


def confirm(
    launcher: TrialLauncher,
    ranked: Sequence[Ranked],
    spec_of: Callable[[TrialRecord], TrialSpec],
    folder: Path,
    say: Callable[[str], None],
) -> tuple[tuple[Confirmed, ...], tuple[str, ...]]:
    """Confirms the best candidate; one that fails is dropped, and the next best takes its place.

    Args:
        launcher: runs the processes.
        ranked: usable trials, best first.
        spec_of: what to run for a trial.
        folder: the study's folder; confirmation runs go to ``confirm/`` in it and are no rows of the table.
        say: told in a sentence what happens.

    Returns:
        The best candidate and its runner-up, confirmed (empty where every one failed), and sentences about failures.
    """
    waiting = [r.record for r in ranked]
    remarks: list[str] = []
    while waiting:
        pair = waiting[:2]
        names = " and ".join(f"trial {r.number}" for r in pair)
        say(f"confirming {names} in fresh processes")
        rounds: dict[int, list[Throughput]] = {r.number: [] for r in pair}
        failed = _run_rounds(launcher, pair, spec_of, folder, rounds)
        if failed is not None:
            remarks.append(f"trial {failed[0].number} failed when it was run again ({failed[1]}) and was passed over")
            say(remarks[-1])
            waiting.remove(failed[0])
            continue
        return tuple(Confirmed(record=r, throughput=pool(rounds[r.number])) for r in pair), tuple(remarks)
    return (), tuple(remarks)


def _run_rounds(
    launcher: TrialLauncher,
    pair: Sequence[TrialRecord],
    spec_of: Callable[[TrialRecord], TrialSpec],
    folder: Path,
    rounds: dict[int, list[Throughput]],
) -> tuple[TrialRecord, str] | None:
    """Fills ``rounds``; returns the first candidate that failed, with the reason."""
    for turn in range(ROUNDS):
        for record in pair:
            spec = spec_of(record)
            kind: PassKind = "timing" if spec.device.kind == "cpu" else "single"
            outcome = launcher.run_pass(spec, kind, folder / "confirm" / f"{record.number}-{turn}")
            if outcome.state is not State.COMPLETED or outcome.throughput is None:
                return record, outcome.reason or str(outcome.state)
            rounds[record.number].append(outcome.throughput)
    return None


def longer(spec: TrialSpec) -> TrialSpec:
    """Returns the same trial, measured for twice as long and never given up."""
    plan = replace(
        spec.plan,
        min_updates=2 * spec.plan.min_updates,
        max_measure_s=2 * spec.plan.max_measure_s,
        give_up_update_s=None,
        beaten_update_s=None,
    )
    return replace(spec, plan=plan)
