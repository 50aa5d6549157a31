"""Scores capacity planning: peaks against runs it has not seen, XLA's prediction, ratios between GPUs.

    python tests/benchmarks/plan.py                    everything (about 15 minutes on 2 quiet cores)
    python tests/benchmarks/plan.py --cases mlp        one workload (about 3 minutes)
    python tests/benchmarks/plan.py --ratios           the public tables alone (no runs)

Peaks are deterministic, so a busy machine changes nothing but the time. ``--keep FILE`` remembers them between calls.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import tempfile
import tomllib
from pathlib import Path

from autotune.core.candidate import Candidate
from autotune.core.plan.dry import DryRequest
from autotune.core.plan.peak_curve import PeakCurve
from autotune.core.plan.scaling import Work, time_ratio
from autotune.core.plan.score import Check, score
from autotune.core.trial import Device, TrialSpec
from autotune.core.units import format_bytes
from autotune.probe.catalogue import load_catalogue
from autotune.trial import TrialLauncher
from autotune.trial.dry import run_dry
from autotune.workloads import resolve

DATA = Path(__file__).parent.parent / "plan" / "data"
DEVICE = Device(kind="cpu", name="cpu", memory_usable_bytes=12 << 30)
# (workload, global batch, execution when plain, when jitted, fitted, unseen). XLA runs a convolution inside a loop 35
# times slower than outside one on a CPU, so digits is stepped when jitted. All sizes divide the batch.
CASES = (
    ("mlp", 1536, "fused", "fused", (24, 48, 96, 192), (32, 64, 128, 384, 768)),
    ("digits", 1536, "fused", "stepped", (24, 48, 96, 192), (32, 64, 128, 384, 768)),
    ("charlm", 192, "fused", "fused", (2, 4, 8, 16), (3, 6, 12, 32, 64)),
)


class Peaks:
    """Measured and compiled peaks, remembered in a file."""

    def __init__(self, launcher: TrialLauncher, folder: Path, keep: Path | None) -> None:
        self._launcher, self._folder, self._keep = launcher, folder, keep
        self.known = json.loads(keep.read_text()) if keep and keep.exists() else {}

    def measured(self, name: str, candidate: Candidate) -> int:
        key = f"{name} {candidate.describe()}"
        if key not in self.known:
            spec = TrialSpec(number=0, workload=resolve(name), candidate=candidate, device=DEVICE, timeout_s=600)
            outcome = self._launcher.run_pass(spec, "memory", self._folder)
            if outcome.memory is None or outcome.memory.peak_bytes is None:
                raise SystemExit(f"{key}: {outcome.reason or outcome.state}")
            self._note(key, outcome.memory.peak_bytes)
        return self.known[key]

    def compiled(self, name: str, candidates: list[Candidate]) -> list[int | None]:
        missing = [c for c in candidates if f"xla {name} {c.describe()}" not in self.known]
        if missing:
            request = DryRequest(workload=resolve(name), candidates=tuple(missing), usable_bytes=12 << 30)
            result = run_dry(request, timeout_s=1200)
            for answer in result.answers:
                if answer.compiled:
                    self._note(f"xla {name} {missing[answer.index or 0].describe()}", answer.compiled.peak_bytes)
            self._note(f"parts {name}", [result.parts.static_bytes(accumulates=True), result.parts.gradient_bytes])
        return [self.known.get(f"xla {name} {c.describe()}") for c in candidates]

    def static(self, name: str) -> int:
        if f"parts {name}" not in self.known:
            result = run_dry(DryRequest(workload=resolve(name), usable_bytes=12 << 30), timeout_s=300)
            self._note(f"parts {name}", [result.parts.static_bytes(accumulates=True), result.parts.gradient_bytes])
        return self.known[f"parts {name}"][0]

    def _note(self, key: str, value: object) -> None:
        self.known[key] = value
        print(f"  {key}: {value}", file=sys.stderr, flush=True)
        if self._keep:
            self._keep.write_text(json.dumps(self.known, indent=1))


def candidates(case: tuple, jit: bool) -> dict[int, Candidate]:
    _, batch, plain, jitted, fitted, unseen = case
    execution = jitted if jit else plain
    return {
        size: Candidate(global_batch=batch, micro_batch=size, execution=execution, jit_compile=jit)
        for size in (*fitted, *unseen)
    }


def peaks_table(peaks: Peaks, cases: list[tuple]) -> None:
    """Predicted against measured, for each workload and both executions."""
    print("| workload | execution | micro-batch | where | predicted | 90 % range | measured | error | held |")
    print("|---|---|---:|---|---:|---|---:|---:|---|")
    everything: list[Check] = []
    for case in cases:
        name, _, plain, jitted, fitted, unseen = case
        static = peaks.static(name)
        for jit in (False, True):
            wanted = candidates(case, jit)
            real = {size: peaks.measured(name, candidate) for size, candidate in wanted.items()}
            curve = PeakCurve([(size, real[size]) for size in fitted], static)
            for size in sorted(unseen):
                found = curve.at(size).bytes
                check = Check(
                    what="peak", name=name, micro_batch=size, beyond=size > fitted[-1], predicted=found,
                    measured=float(real[size]),
                )  # fmt: skip
                everything.append(check)
                print(f"| {name} | {jitted + ' jit' if jit else plain} | {size} | {_checked(check)} |", flush=True)
    print()
    for what, checks in (
        ("between", [c for c in everything if not c.beyond]),
        ("beyond", [c for c in everything if c.beyond]),
        ("all", everything),
    ):
        print(f"- {score(checks).sentence(what)}")


def _checked(check: Check) -> str:
    found = check.predicted
    cells = (
        "beyond" if check.beyond else "between",
        format_bytes(found.expected),
        f"{format_bytes(found.low)} to {format_bytes(found.high)}",
        format_bytes(check.measured),
        f"{100 * check.error:+.1f} %",
        "yes" if check.held else "no",
    )
    return " | ".join(cells)


def xla_table(peaks: Peaks, cases: list[tuple]) -> None:
    """XLA's buffer assignment against the measured peak of the jitted update."""
    print("\n| workload | micro-batch | XLA says | measured | error |\n|---|---:|---:|---:|---:|")
    worst = 0.0
    for case in cases:
        wanted = candidates(case, True)
        said = peaks.compiled(case[0], list(wanted.values()))
        least = min(peaks.measured(case[0], candidate) for candidate in wanted.values())
        for (size, candidate), compiled in zip(wanted.items(), said, strict=True):
            real = peaks.measured(case[0], candidate)
            if compiled is None:
                print(f"| {case[0]} | {size} | not compiled | {format_bytes(real)} | - |")
                continue
            error = compiled / real - 1
            if error < -0.05 and real < 1.1 * least:  # a plateau that the workload's own evaluation sets, not an update
                print(
                    f"| {case[0]} | {size} | {format_bytes(compiled)} | {format_bytes(real)} | evaluation is larger |"
                )
                continue
            worst = max(worst, abs(error))
            print(f"| {case[0]} | {size} | {format_bytes(compiled)} | {format_bytes(real)} | {100 * error:+.2f} % |")
    print(f"\n- worst error of XLA's prediction: {100 * worst:.2f} %")


def ratios_table() -> None:
    """Ratios of throughput between GPUs, predicted against the public tables."""
    public = tomllib.loads((DATA / "public_throughput.toml").read_text())
    catalogue = load_catalogue()
    counted = {name: Work(**values) for name, values in public["work"].items()}
    print("\n| table | model | precision | pairs | mean error | median | worst | held |")
    print("|---|---|---|---:|---:|---:|---:|---:|")
    total: list[tuple[float, bool]] = []
    for table in public["table"]:
        for column, model in enumerate(table["columns"]):
            found = []
            for a in table["gpus"]:
                for b in table["gpus"]:
                    if a == b:
                        continue
                    source, target = catalogue.find(a), catalogue.find(b)
                    work = counted.get(public["like"].get(model, model))
                    ratio = time_ratio(source, target, table["precision"], work)
                    real = table["gpus"][a][column] / table["gpus"][b][column]
                    found.append((math.exp(abs(math.log(ratio.expected / real))) - 1, ratio.holds(real)))
            total += found
            print(f"| {table['source'].split(',')[0]} | {model} | {table['precision']} | {_summary(found)}")
    print(f"| all | | | {_summary(total)}")


def _summary(found: list[tuple[float, bool]]) -> str:
    errors = [error for error, _ in found]
    held = sum(h for _, h in found) / len(found)
    return (
        f"{len(found)} | {100 * statistics.mean(errors):.1f} % | {100 * statistics.median(errors):.1f} % "
        f"| {100 * max(errors):.0f} % | {100 * held:.0f} % |"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", default="mlp,digits,charlm", help="workloads, separated by commas")
    parser.add_argument("--ratios", action="store_true", help="only the public tables")
    parser.add_argument("--keep", type=Path, help="remember peaks in this file")
    args = parser.parse_args()
    if not args.ratios:
        chosen = [case for case in CASES if case[0] in args.cases.split(",")]
        with tempfile.TemporaryDirectory() as scratch, TrialLauncher(Path(scratch), DEVICE) as launcher:
            peaks = Peaks(launcher, Path(scratch) / "pass", args.keep)
            peaks_table(peaks, chosen)
            xla_table(peaks, chosen)
    ratios_table()


if __name__ == "__main__":
    main()
