"""Measures every candidate of a workload on this machine and keeps the result as a landscape.

    python -m tests.benchmarks.record digits --global-batch 256 [--limit-share 0.6] [--axis micro_batch=8..256]

Takes half an hour or more and wants a machine that does nothing else. An interrupted run goes on where it stopped.
A candidate five times slower than the plain full batch is given up, as a search would. The fastest ones are then run
again, in turns, and get the middle of their figures: the best of a hundred single figures is the luckiest of them.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from autotune.core.candidate import Candidate
from autotune.core.codec import from_plain
from autotune.core.outcome import State
from autotune.core.trial import MeasurePlan, TrialRecord, TrialSpec
from autotune.prepare import find_machine, parse_restrictions, resolve_workload, settle_job
from autotune.trial import TrialLauncher

ROOT = Path(__file__).parents[2]
GIVE_UP = 5.0  # times slower than the plain full batch


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs every candidate once and writes ``results/landscapes/WORKLOAD-BATCH-DEVICE.parquet``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload")
    parser.add_argument("--global-batch", type=int, required=True)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision")
    parser.add_argument("--axis", action="append", default=[])
    parser.add_argument(
        "--limit-share", type=float, action="append", default=[],
        help="replay with a memory limit as well: this share of the plain full batch's peak",
    )  # fmt: skip
    parser.add_argument("--measure-time", type=float, default=10.0)
    parser.add_argument("--again", type=int, default=10, help="how many of the fastest are run again, twice each")
    parser.add_argument("--trials-folder", type=Path, required=True, help="where the trials are kept meanwhile")
    options = parser.parse_args(arguments)
    ref, machine = resolve_workload(options.workload), find_machine(options.device)
    with TrialLauncher(options.trials_folder, machine.device) as launcher:
        job, space = settle_job(
            ref, launcher.inspect(ref, timeout_s=120), machine, global_batch=options.global_batch, limit=None,
            restrictions=parse_restrictions(options.precision, options.axis), objective="throughput", seed=0,
        )  # fmt: skip
        candidates = sorted(space.candidates(), key=lambda c: not _plain_full(c))
        records: list[TrialRecord] = []
        plan = replace(MeasurePlan(), max_measure_s=options.measure_time)

        def run(number: int, candidate: Candidate) -> TrialRecord:
            spec = TrialSpec(
                number=number, workload=ref, candidate=candidate, device=machine.device, timeout_s=300.0, plan=plan
            )
            return _kept(options.trials_folder, number) or launcher.run(spec)

        for number, candidate in enumerate(candidates):
            records.append(run(number, candidate))
            print(f"{number + 1}/{len(candidates)} {candidate.describe()}: {_told(records[-1])}", flush=True)
            if number == 0:
                slowest = GIVE_UP * candidate.global_batch / (records[0].samples_per_s or 1e-9)
                plan = replace(plan, give_up_update_s=slowest)
        fastest = sorted(records, key=lambda r: r.samples_per_s or 0.0)[-options.again :] if options.again else []
        repeats = {r.number: [r.samples_per_s] for r in fastest if r.samples_per_s}
        for turn in (1, 2):
            for number in repeats:
                again = run(1000 * turn + number, candidates[number])
                print(f"again {again.candidate.describe()}: {_told(again)}", flush=True)
                repeats[number].append(again.samples_per_s or 0.0)
        records = [_middle(r, repeats.get(r.number, [])) for r in records]
    full = next(r for r in records if _plain_full(r.candidate))
    where = (machine.hardware.cpu or "cpu") if machine.device.kind == "cpu" else machine.device.name
    slug = "-".join(re.findall("[a-z0-9]+", where.lower()))
    out = ROOT / "results" / "landscapes" / f"{Path(ref.path).stem}-{options.global_batch}-{slug}.parquet"
    meta = {
        "workload": ref.display,
        "machine": where,
        "global_batch": options.global_batch,
        "limits_bytes": [None, *(int(share * full.peak_bytes) for share in options.limit_share if full.peak_bytes)],
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


def _plain_full(candidate: Candidate) -> bool:
    return candidate.accumulation_steps == 1 and not candidate.jit_compile and not candidate.recompute


def _told(record: TrialRecord) -> str:
    rate, peak = record.samples_per_s, record.peak_bytes
    figures = f"{rate:.4g} samples/s, {peak / 2**20:.4g} MiB" if rate and peak else record.outcome.reason
    return f"{record.state}, {figures}, {record.wall_s:.0f} s"


def _middle(record: TrialRecord, rates: Sequence[float]) -> TrialRecord:
    """The record with the median of several runs' figures, and their range where that is wider than its interval."""
    timing = record.outcome.throughput
    if timing is None or len(rates) < 2:
        return record
    rate = statistics.median(rates)
    low = min(min(rates), rate * timing.samples_per_s_low / timing.samples_per_s)
    high = max(max(rates), rate * timing.samples_per_s_high / timing.samples_per_s)
    middle = replace(timing, samples_per_s=rate, samples_per_s_low=low, samples_per_s_high=high)
    return replace(record, outcome=replace(record.outcome, throughput=middle))


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
