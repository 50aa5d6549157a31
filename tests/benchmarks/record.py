"""Measures every candidate of a workload on this machine and keeps the result as a landscape.

    python -m tests.benchmarks.record digits --global-batch 256 [--limit-share 0.6] [--axis micro_batch=8..256]

Takes an hour or more and wants a machine that does nothing else. An interrupted run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from autotune.core.codec import from_plain
from autotune.core.outcome import State
from autotune.core.trial import MeasurePlan, TrialRecord, TrialSpec
from autotune.prepare import find_machine, parse_restrictions, resolve_workload, settle_job
from autotune.trial import TrialLauncher

ROOT = Path(__file__).parents[2]


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs every candidate once and writes ``results/landscapes/WORKLOAD-BATCH-DEVICE.parquet``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload")
    parser.add_argument("--global-batch", type=int, required=True)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision")
    parser.add_argument("--axis", action="append", default=[])
    parser.add_argument("--limit-share", type=float, help="memory limit for replays, of the plain full batch's peak")
    parser.add_argument("--measure-time", type=float, default=10.0)
    parser.add_argument("--trials-folder", type=Path, required=True, help="where the trials are kept meanwhile")
    options = parser.parse_args(arguments)
    ref, machine = resolve_workload(options.workload), find_machine(options.device)
    with TrialLauncher(options.trials_folder, machine.device) as launcher:
        job, space = settle_job(
            ref, launcher.inspect(ref, timeout_s=120), machine, global_batch=options.global_batch, limit=None,
            restrictions=parse_restrictions(options.precision, options.axis), objective="throughput", seed=0,
        )  # fmt: skip
        records = []
        for number, candidate in enumerate(space.candidates()):
            spec = TrialSpec(
                number=number, workload=ref, candidate=candidate, device=machine.device, timeout_s=900.0,
                plan=replace(MeasurePlan(), max_measure_s=options.measure_time),
            )  # fmt: skip
            records.append(_kept(options.trials_folder, number) or launcher.run(spec))
            print(f"{number + 1}/{len(space.candidates())} {candidate.describe()}: {records[-1].state}", flush=True)
    full = next(r for r in records if r.candidate.accumulation_steps == 1 and not r.candidate.jit_compile)
    share = options.limit_share
    where = machine.device.kind if machine.device.kind == "cpu" else machine.device.name.replace(" ", "-").lower()
    out = ROOT / "results" / "landscapes" / f"{Path(ref.path).stem}-{options.global_batch}-{where}.parquet"
    meta = {
        "workload": ref.display,
        "machine": machine.hardware.cpu if machine.device.kind == "cpu" else machine.device.name,
        "global_batch": options.global_batch,
        "limit_bytes": int(share * full.peak_bytes) if share and full.peak_bytes else None,
        "axes": {name: list(values) for name, values in space.axes if name != "micro_batch"},
        "software": {"tensorflow": job.software.tensorflow, "keras": job.software.keras},
    }
    write(out, meta, records)
    print(f"wrote {out}")


def write(path: Path, meta: dict[str, Any], records: Sequence[TrialRecord]) -> None:
    """Writes a landscape: one row per candidate, and what it holds for in the file's metadata."""
    table = pa.Table.from_pandas(pd.DataFrame([_row(r) for r in records]), preserve_index=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table.replace_schema_metadata({"autotune": json.dumps(meta)}), path)


def _kept(folder: Path, number: int) -> TrialRecord | None:
    path = folder / "trials" / str(number) / "record.json"
    record = from_plain(TrialRecord, json.loads(path.read_text())) if path.exists() else None
    return None if record is None or record.state is State.TIMED_OUT else record


def _row(record: TrialRecord) -> dict[str, Any]:
    candidate, timing = record.candidate, record.outcome.throughput
    phases = record.outcome.phases
    return {
        "state": str(record.state),
        "micro_batch": candidate.micro_batch,
        "precision": candidate.precision,
        "execution": candidate.execution,
        "jit_compile": candidate.jit_compile,
        "recompute": candidate.recompute,
        "samples_per_s": timing.samples_per_s if timing else None,
        "samples_per_s_low": timing.samples_per_s_low if timing else None,
        "samples_per_s_high": timing.samples_per_s_high if timing else None,
        "peak_bytes": record.peak_bytes,
        "first_call_s": sum(phases.get(name, 0.0) for name in ("build", "trace", "memory_pass")),
        "wall_s": record.wall_s,
    }


if __name__ == "__main__":
    main()
