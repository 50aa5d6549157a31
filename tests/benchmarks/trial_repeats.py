"""Do figures repeat? The same candidate again and again in fresh trials, and the tuner's own memory meanwhile.

    python tests/benchmarks/trial_repeats.py --workload digits --trials 30

Prints peak and median of the first five, their spread, the first against the last, and the tuner's resident memory.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from pathlib import Path

from autotune.core.candidate import Candidate
from autotune.core.trial import Device, MeasurePlan, TrialSpec
from autotune.core.workload import WorkloadRef
from autotune.trial import TrialLauncher

CPU = Device(kind="cpu", name="cpu", memory_usable_bytes=8 << 30)
WORKLOADS = Path(__file__).parents[2] / "autotune" / "workloads"


def resident_kib() -> int:
    """Resident memory of this process, the tuner."""
    return int(re.findall(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())[0])


def spread(values: list[float]) -> float:
    """Largest distance from the middle of the range, in percent."""
    return round(100 * (max(values) - min(values)) / (max(values) + min(values)), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", default="digits")
    parser.add_argument("--micro-batch", type=int, default=64)
    parser.add_argument("--trials", type=int, default=30)
    args = parser.parse_args()
    ref = WorkloadRef(path=str(WORKLOADS / f"{args.workload}.py"), display=args.workload, builtin=True)
    candidate = Candidate(global_batch=256, micro_batch=args.micro_batch)
    peaks: list[float] = []
    medians: list[float] = []
    resident: list[int] = []
    with tempfile.TemporaryDirectory() as folder, TrialLauncher(Path(folder), CPU) as launcher:
        for number in range(args.trials):
            plan = MeasurePlan(max_measure_s=5.0)
            record = launcher.run(TrialSpec(number=number, workload=ref, candidate=candidate, device=CPU, plan=plan))
            assert record.peak_bytes and record.outcome.throughput, record.outcome.reason
            peaks.append(record.peak_bytes)
            medians.append(round(record.outcome.throughput.samples_per_s, 1))
            resident.append(resident_kib())
    figures = {
        "peaks_of_first_five": peaks[:5],
        "samples_per_s_of_first_five": medians[:5],
        "spread_percent": {"peak": spread(peaks[:5]), "samples_per_s": spread(medians[:5])},
        "first_and_last": {"peak": [peaks[0], peaks[-1]], "samples_per_s": [medians[0], medians[-1]]},
        "spread_percent_of_all": {"peak": spread(peaks), "samples_per_s": spread(medians)},
        "tuner_resident_kib": [resident[0], resident[-1]],
    }
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
