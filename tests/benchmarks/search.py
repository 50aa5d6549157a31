"""Compares ways to search on replayed landscapes and writes ``results/benchmarks/search.md``.

    python -m tests.benchmarks.search [--seeds 20] [--out results/benchmarks/search.md]

Landscapes are measured ones (Parquet files in ``results/landscapes``, recorded by ``tests.benchmarks.record``) and
synthetic ones, which say so. Synthetic GPUs from seed 1000 on were not looked at while the policy was made.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import optuna

from autotune.core.candidate import Candidate
from autotune.core.outcome import State
from autotune.core.trial import TrialRecord
from tests.benchmarks import rivals
from tests.benchmarks.measured import load_landscapes
from tests.fakes.landscapes import MIB, Landscape, drawn_gpu, measured_ratios

ROOT = Path(__file__).parents[2]
ENOUGH = 0.98
FEW = 12
SEEN, HELD_OUT = range(4), range(1000, 1004)
UNSEEN = range(1100, 1160)
WAYS: dict[str, Callable[..., None]] = {
    "autotune": rivals.ours,
    "random": rivals.uniform,
    "plain TPE": rivals.plain_tpe,
    "GP": rivals.gaussian_process,
    "doubling": rivals.doubling,
    "x0.9 shrinking": rivals.shrinking,
    "DeepSpeed-like": rivals.plateau,
}
SLOW = ("GP",)  # seconds per run


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What one way came to on one landscape with one seed.

    Attributes:
        share: true throughput of the best trial, of the exhaustive best.
        trials, out_of_memory: how many were run, and how many of them ran out of memory.
        seconds: all trials'.
        trials_to_enough, seconds_to_enough: until a trial reached 98 % of the best; None where none did.
    """

    share: float
    trials: int
    out_of_memory: int
    seconds: float
    trials_to_enough: int | None
    seconds_to_enough: float | None


def score(scene: Landscape, way: Callable[..., None], seed: int) -> Score:
    """Runs one way on one landscape; every trial costs what the landscape says, repeats included."""
    best = scene.rate(scene.best())
    records: list[TrialRecord] = []

    def run(candidate: Candidate, give_up_update_s: float | None = None) -> TrialRecord:
        records.append(scene.trial(len(records), candidate, seed, give_up_update_s))
        return records[-1]

    way(scene.space, scene.limit, run, seed)
    shares = [scene.rate(r.candidate) / best if r.completed else 0.0 for r in records]
    first = next((i for i, share in enumerate(shares) if share >= ENOUGH), None)
    return Score(
        share=max(shares, default=0.0),
        trials=len(records),
        out_of_memory=sum(r.state is State.OUT_OF_MEMORY for r in records),
        seconds=sum(r.wall_s for r in records),
        trials_to_enough=None if first is None else first + 1,
        seconds_to_enough=None if first is None else sum(r.wall_s for r in records[: first + 1]),
    )


def landscapes() -> list[tuple[str, Landscape]]:
    """Returns all landscapes, each with what it is."""
    found = [("measured", scene) for scene in load_landscapes(ROOT / "results" / "landscapes")]
    for name in ("mlp", "cnn", "transformer"):
        found.append(("synthetic, through measured ratios", measured_ratios(name)))
        found.append(("synthetic, through measured ratios", measured_ratios(name, limit=200 * MIB)))
    found += [("synthetic GPU", drawn_gpu(seed)) for seed in SEEN]
    return found + [("synthetic GPU, held out", drawn_gpu(seed)) for seed in HELD_OUT]


def table(seeds: int, slow_seeds: int) -> list[str]:
    """Returns the tables as Markdown lines; ways of ``SLOW`` get fewer seeds."""
    scenes = landscapes()
    ways = {n: w for n, w in WAYS.items() if n != "GP" or _gp_runs()}
    scores: dict[tuple[str, int], list[Score]] = {}
    for index, (_, scene) in enumerate(scenes):
        for name, way in ways.items():
            scores[name, index] = [score(scene, way, seed) for seed in range(slow_seeds if name in SLOW else seeds)]
        print(f"{scene.name}: done", file=sys.stderr, flush=True)
    return [*_summary(list(ways), len(scenes), scores), "", *_by_landscape(scenes, list(ways), scores)]


def _gp_runs() -> bool:
    return all(importlib.util.find_spec(name) for name in ("torch", "scipy"))


def unseen() -> str:
    """Returns a sentence about this package's policy on draws that nobody looked at, however it fares."""
    found = [score(drawn_gpu(seed), rivals.ours, 0) for seed in UNSEEN]
    reached = sum(s.trials_to_enough is not None and s.trials_to_enough <= FEW for s in found)
    return (
        f"`autotune` on {len(found)} further drawn GPUs (seeds {UNSEEN[0]} to {UNSEEN[-1]}): {reached} within 98 % "
        f"after at most {FEW} trials; the worst ended at {_percent(min(s.share for s in found))}; "
        f"{sum(s.out_of_memory > 1 for s in found)} with more than one out-of-memory trial, "
        f"{statistics.mean(s.trials for s in found):.1f} trials in the mean."
    )


def _summary(names: Sequence[str], count: int, scores: dict[tuple[str, int], list[Score]]) -> list[str]:
    lines = [
        "| | best found / exhaustive best: median, worst | trials | out of memory: mean, most "
        f"| reached {100 * ENOUGH:.0f} % within {FEW} trials "
        f"| seconds to {100 * ENOUGH:.0f} %: median of all runs |",
        "|---|---|---|---|---|---|",
    ]
    for name in names:
        every = [s for index in range(count) for s in scores[name, index]]
        reached = [s for s in every if s.trials_to_enough is not None and s.trials_to_enough <= FEW]
        seconds = statistics.median(s.seconds_to_enough or math.inf for s in every)
        shares = [s.share for s in every]
        lines.append(
            f"| {name} | {_percent(statistics.median(shares))}, {_percent(min(shares))} "
            f"| {statistics.mean(s.trials for s in every):.1f} "
            f"| {statistics.mean(s.out_of_memory for s in every):.2f}, {max(s.out_of_memory for s in every)} "
            f"| {_percent(len(reached) / len(every))} "
            f"| {f'{seconds:.0f}' if math.isfinite(seconds) else 'never'} |"
        )
    return lines


def _by_landscape(
    scenes: Sequence[tuple[str, Landscape]], names: Sequence[str], scores: dict[tuple[str, int], list[Score]]
) -> list[str]:
    head = "best found (median), share of seeds at 98 % within 12 trials, median seconds to it"
    lines = [f"By landscape: {head}.", "", f"| landscape | what | its best | {' | '.join(names)} |"]
    lines.append("|---|---|---|" + "---|" * len(names))
    for index, (what, scene) in enumerate(scenes):
        limit = "" if scene.limit is None else f", limit {scene.limit / MIB:.0f} MiB"
        cells = []
        for name in names:
            own = scores[name, index]
            reached = [s for s in own if s.trials_to_enough is not None and s.trials_to_enough <= FEW]
            seconds = [s.seconds_to_enough for s in reached if s.seconds_to_enough is not None]
            quick = f", {statistics.median(seconds):.0f} s" if seconds else ""
            share = _percent(statistics.median(s.share for s in own))
            cells.append(f"{share}, {_percent(len(reached) / len(own))}{quick}")
        lines.append(f"| {scene.name}{limit} | {what} | {scene.best().describe()} | {' | '.join(cells)} |")
    return lines


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if share < 1 else "100 %"


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the comparison and writes the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "benchmarks" / "search.md")
    parser.add_argument("--slow-seeds", type=int, default=3, help=f"seeds for {', '.join(SLOW)}")
    options = parser.parse_args(arguments)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    started = time.perf_counter()
    lines = table(options.seeds, options.slow_seeds)
    gp = " GP (Optuna's GPSampler) needs torch and scipy, which were absent."
    if _gp_runs():
        gp = f" GP is Optuna's GPSampler (needs torch and scipy), {options.slow_seeds} seeds."
    text = "\n".join(
        [
            "# Ways to search, compared",
            "",
            f"Replayed landscapes, {options.seeds} seeds (of the noise and of what is drawn), at most "
            f"{rivals.MOST_TRIALS} trials each; `python -m tests.benchmarks.search` writes this file. A trial costs "
            "what its landscape says (an out-of-memory trial 14 s)." + gp,
            "",
            *lines,
            "",
            unseen(),
            "",
            "`autotune`: the package's policy. `plain TPE`: Optuna's default sampler, failures told as failed. "
            "`doubling`: one program at 1, 2, 4 ... until out of memory. `x0.9 shrinking`: one program from the full "
            "batch down by a tenth until it fits. `DeepSpeed-like`: predicted largest size, three sizes, 5 % plateau.",
            "",
        ]
    )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(text)
    print(f"{options.out}: written in {time.perf_counter() - started:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
