"""Benchmark of the training loop against the full batch, Keras ``fit`` and a public wrapper.

``python -m tests.benchmarks.loop`` measures everything (hours); ``--workloads mlp --steps 4 --variants fused`` a part.
Rows are merged into ``results/benchmarks/loop.csv``, which ``loop.md`` tells. A variant that does not run has its error
in its row. ``gradient-accumulator`` is measured where PYTHONPATH has it (it asks for an old NumPy: install it apart,
without its dependencies).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from tests.benchmarks import loop_ideas
from tests.benchmarks.loop_cells import BATCH, OURS, environment_of
from tests.benchmarks.loop_table import best_of_ours, load, markdown, store

OUT = Path(__file__).parents[2] / "results" / "benchmarks"
VARIANTS = [*OURS, "full-jit", "keras-fit", "gradient-accumulator"]


def child(request):
    """Runs one request in a process of its own; a variant that fails is a row with its error."""
    command = [sys.executable, "-m", "tests.benchmarks.loop_cells", json.dumps(request)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment_of(request), timeout=900)
    except subprocess.TimeoutExpired:
        return {"error": "timed out"}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["no message"])[-1][:200]}
    return json.loads(done.stdout.splitlines()[-1])


def time_pair(rows, path, cell, variant, reference, rounds):
    workload, steps = cell
    asked = {"name": workload, "steps": steps, "variant": variant, "reference": reference, "rounds": rounds}
    told = child({"kind": "time", **asked})
    row = {"kind": "time", "workload": workload, "steps": steps, "variant": variant, **told}
    store(path, rows, {**row, "reference": "full" if reference == "full-legacy" else reference})
    print(f"time {workload} N={steps} {variant} / {reference}: {told.get('ratio', told.get('error'))}", flush=True)


def time_cell(rows, path, cell, variants, rounds):
    for variant in variants:
        if variant in OURS and cell[1] == 1 and variant not in ("fused", "fused-jit"):
            continue  # with one micro-batch every execution is the same program
        time_pair(rows, path, cell, variant, "full-legacy" if variant == "gradient-accumulator" else "full", rounds)
    best = best_of_ours(rows, *cell)
    if best and "keras-fit" in variants:
        time_pair(rows, path, cell, "keras-fit", best, rounds)


def ideas_cell(rows, path, cell, rounds):
    for idea, changed in loop_ideas.pairs():
        time_pair(rows, path, cell, idea, changed, rounds)


def memory_cell(rows, path, cell, variants):
    workload, steps = cell
    for name, count in (("full", 1), *((variant, steps) for variant in variants if variant in OURS and steps > 1)):
        if name == "full" and ("memory", workload, "1", "full", "") in rows:
            continue
        peaks = [
            child({"kind": "memory", "name": workload, "steps": count, "variant": name, "batch": batch})
            for batch in (BATCH[workload], count)
        ]
        row = {"kind": "memory", "workload": workload, "steps": count, "variant": name, "reference": "", **peaks[0]}
        if all("peak_bytes" in told for told in peaks):
            row["growing_bytes"] = peaks[0]["peak_bytes"] - peaks[1]["peak_bytes"]
        store(path, rows, row)
        print(f"memory {workload} N={count} {name}: {row.get('growing_bytes', row.get('error'))}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workloads", default=",".join(BATCH))
    parser.add_argument("--steps", default="1,4,16")
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--what", default="time,memory")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    path = options.out / "loop.csv"
    rows = load(path)
    variants = options.variants.split(",")
    for workload in options.workloads.split(","):
        for steps in map(int, options.steps.split(",")):
            if "time" in options.what:
                time_cell(rows, path, (workload, steps), variants, options.rounds)
            if "ideas" in options.what and steps > 1:
                ideas_cell(rows, path, (workload, steps), options.rounds)
            if "memory" in options.what:
                memory_cell(rows, path, (workload, steps), variants)
    (options.out / "loop.md").write_text(markdown(rows))


if __name__ == "__main__":
    main()
