import itertools
from pathlib import Path

import pytest

from autotune.core.candidate import Candidate
from autotune.core.trial import Device, MeasurePlan, TrialSpec
from autotune.core.workload import WorkloadRef
from autotune.trial import TrialLauncher
from autotune.trial.stragglers import MARK

FAKES = Path(__file__).parent.parent / "fakes"
CPU = Device(kind="cpu", name="test", memory_usable_bytes=4 << 30)
SHORT = MeasurePlan(min_updates=4, max_measure_s=0.2)


class Runner:
    """A launcher with numbered trials of short measurement, over one file."""

    def __init__(self, folder, file, device=CPU):
        self.folder = folder
        self.launcher = TrialLauncher(folder, device)
        self.file = file
        self._numbers = itertools.count()

    def ref(self, attribute=None):
        shown = self.file.name + (f":{attribute}" if attribute else "")
        return WorkloadRef(path=str(self.file), attribute=attribute, display=shown)

    def spec(self, attribute=None, *, batch=256, micro=64, timeout_s=60.0, limit=None, seed=0, plan=SHORT, **axes):
        own = {"precision": None, "execution": None, "jit_compile": None, "recompute": None}
        return TrialSpec(
            number=next(self._numbers),
            workload=self.ref(attribute),
            candidate=Candidate(global_batch=batch, micro_batch=micro, **{**own, **axes}),
            device=CPU,
            memory_limit_bytes=limit,
            seed=seed,
            timeout_s=timeout_s,
            plan=plan,
        )

    def run(self, attribute=None, **options):
        return self.launcher.run(self.spec(attribute, **options))

    def text(self, record, name):
        return (self.folder / "trials" / str(record.number) / name).read_bytes()

    def processes(self):
        """Processes that belong to this launcher: its server, and whatever is under it."""
        token = f"{MARK}={self.launcher._server._token}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if token in (entry / "environ").read_bytes().split(b"\0"):
                        found.append(int(entry.name))
                except OSError:
                    pass
        return found


@pytest.fixture(scope="session")
def bare(tmp_path_factory):
    """Trials without TensorFlow, all forked from one server."""
    runner = Runner(tmp_path_factory.mktemp("bare"), FAKES / "ways_to_die.py")
    with runner.launcher:
        yield runner


@pytest.fixture(scope="session")
def warm(tmp_path_factory):
    """Trials with TensorFlow, all forked from one server that has it."""
    runner = Runner(tmp_path_factory.mktemp("warm"), FAKES / "tensorflow_ways.py")
    with runner.launcher:
        runner.launcher.inspect(runner.ref("healthy"), timeout_s=120)
        yield runner
