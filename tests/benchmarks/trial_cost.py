"""What a trial costs: a study of ``mlp`` with warm trials against the same trials in cold interpreters, in one run.

    python tests/benchmarks/trial_cost.py --trials 20

A warm trial is forked from a server that has imported TensorFlow; a cold one is forked from a bare server and imports
it itself, in each of its two passes. Both are measured through the same launcher, on the same candidates. Prints
both wall times, their ratio, and where a trial's time goes.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from statistics import median

from autotune.core.candidate import Candidate
from autotune.core.trial import Device, MeasurePlan, TrialRecord, TrialSpec
from autotune.core.workload import WorkloadRef
from autotune.trial import TrialLauncher

CPU = Device(kind="cpu", name="cpu", memory_usable_bytes=8 << 30)
MLP = Path(__file__).parents[2] / "autotune" / "workloads" / "mlp.py"
PLAN = MeasurePlan(max_measure_s=1.0)


def specs(count: int, builtin: bool) -> list[TrialSpec]:
    """The same candidates for both: micro-batches, executions."""
    ref = WorkloadRef(path=str(MLP), display="mlp", builtin=builtin)
    executions = ("fused", "stepped", "unrolled")
    return [
        TrialSpec(
            number=n,
            workload=ref,
            candidate=Candidate(global_batch=256, micro_batch=(64, 128, 256)[n % 3], execution=executions[n // 3 % 3]),
            device=CPU,
            plan=PLAN,
        )
        for n in range(count)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--json", type=Path, help="also write the figures there")
    args = parser.parse_args()
    walls: dict[str, float] = {}
    records: dict[str, list[TrialRecord]] = {}
    for name in ("warm", "cold"):
        # Where nothing has been inspected, only a built-in workload gets a server that has TensorFlow.
        with tempfile.TemporaryDirectory() as folder, TrialLauncher(Path(folder), CPU) as launcher:
            started = time.monotonic()
            records[name] = [launcher.run(spec) for spec in specs(args.trials, builtin=name == "warm")]
            walls[name] = time.monotonic() - started
        failed = [r for r in records[name] if not r.completed]
        assert not failed, failed[0].outcome.reason
    phases = {
        name: {phase: round(median(r.outcome.phases.get(phase, 0.0) for r in of), 3) for phase in of[0].outcome.phases}
        for name, of in records.items()
    }
    figures = {
        "trials": args.trials,
        "warm_study_s": round(walls["warm"], 1),
        "cold_study_s": round(walls["cold"], 1),
        "cold_over_warm": round(walls["cold"] / walls["warm"], 2),
        "median_trial_s": {name: round(median(r.wall_s for r in of), 2) for name, of in records.items()},
        "median_phases_s": phases,
    }
    print(json.dumps(figures, indent=1))
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
