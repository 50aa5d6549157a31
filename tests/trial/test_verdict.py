"""Policy of the tuner's side of a trial, on values."""

import signal

import pytest

from autotune.core.outcome import Memory, Outcome, State
from autotune.core.passes import DISK_EXIT, Progress
from autotune.core.trial import Device
from autotune.probe.monitor import Snapshot
from autotune.trial import kernel
from autotune.trial.environment import pass_environment
from autotune.trial.meters.nvml import peak_seen
from autotune.trial.server import Ended
from autotune.trial.verdict import combine, held_to_limit, outcome_of_death

CPU = Device(kind="cpu", name="c", memory_usable_bytes=1 << 30)


def death(ended, *, stderr="", kills=0, phase="measure"):
    return outcome_of_death(
        ended,
        progress=Progress(phase=phase, phases={"fork": 0.1}),
        stderr_tail=stderr,
        kernel_oom_kills=kills,
        timeout_s=90.0,
        last_words="exit code 1",
    )


@pytest.mark.parametrize(
    ("ended", "options", "state", "reason"),
    [
        (Ended(status=-9, timed_out=True), {}, State.TIMED_OUT, "stopped after 1m 30s, while measuring"),
        (Ended(status=-9), {"kills": 1}, State.OUT_OF_MEMORY, "killed by the kernel's out-of-memory killer"),
        (Ended(status=-9), {}, State.CRASHED, "the process was killed by SIGKILL"),
        (Ended(status=-signal.SIGABRT), {"stderr": "what():  std::bad_alloc\n"}, State.OUT_OF_MEMORY, "std::bad_alloc"),
        (Ended(status=-signal.SIGABRT), {"stderr": "I talked of memory"}, State.CRASHED, "killed by SIGABRT"),
        (Ended(status=-signal.SIGRTMIN), {}, State.CRASHED, "killed by SIGRTMIN"),
        (Ended(status=3), {}, State.CRASHED, "ended with exit code 3 before it had an outcome"),
        (Ended(status=None), {}, State.CRASHED, "the process that starts trials died, while measuring: exit code 1"),
        (Ended(status=DISK_EXIT), {"stderr": "x\nNo space left on device\n"}, State.CRASHED, "No space left on device"),
    ],
)
def test_deaths(ended, options, state, reason):
    outcome = death(ended, **options)
    assert outcome.state is state
    assert reason in outcome.reason
    assert outcome.phases == {"fork": 0.1}


def test_both_passes_make_one_outcome():
    memory = Outcome(
        state=State.COMPLETED, memory=Memory(peak_bytes=7), phases={"build": 1.0, "exercise": 2.0}, warnings=("a", "b")
    )
    timing = Outcome(state=State.TIMED_OUT, reason="late", phases={"build": 0.5}, warnings=("b", "c"))
    both = combine([("memory", memory), ("timing", timing)])
    assert (both.state, both.reason, both.memory) == (State.TIMED_OUT, "late", Memory(peak_bytes=7))
    assert both.phases == {"memory_pass": 3.0, "build": 0.5}
    assert both.warnings == ("a", "b", "c")


def test_the_limit_judges_what_completed():
    done = Outcome(state=State.COMPLETED, memory=Memory(peak_bytes=11 << 20))
    assert held_to_limit(done, 11 << 20) == done
    assert held_to_limit(done, None) == done
    over = held_to_limit(done, 10 << 20)
    assert (over.state, over.reason) == (State.OUT_OF_MEMORY, "the peak of 11.0 MiB is above the limit of 10.0 MiB")
    unknown = Outcome(state=State.COMPLETED, memory=Memory())
    assert held_to_limit(unknown, 1) == unknown


def test_environment_of_passes():
    assert pass_environment("timing", CPU, 1 << 30) == {"CUDA_VISIBLE_DEVICES": ""}
    assert pass_environment("memory", CPU, 200 << 20) == {
        "CUDA_VISIBLE_DEVICES": "",
        "TF_CPU_ALLOCATOR_USE_BFC": "1",
        "TF_CPU_BFC_MEM_LIMIT_IN_MB": "200",
    }
    gpu = Device(kind="gpu", cuda_index=1, name="g", memory_usable_bytes=1)
    assert pass_environment("single", gpu, 1 << 30, visible="4, 2") == {"CUDA_VISIBLE_DEVICES": "2"}
    assert pass_environment("single", gpu, None) == {"CUDA_VISIBLE_DEVICES": "1"}
    with_uuid = Device(kind="gpu", cuda_index=1, uuid="GPU-ab", name="g", memory_usable_bytes=1)
    assert pass_environment("single", with_uuid, None, visible="4,2") == {"CUDA_VISIBLE_DEVICES": "GPU-ab"}


def test_nvmls_peak_is_the_processs_where_it_is_given():
    before = Snapshot(time_s=0, used_bytes=100, processes={})
    during = [Snapshot(time_s=1, used_bytes=400, processes={7: 250, 8: 10}), Snapshot(time_s=2, used_bytes=300)]
    assert peak_seen(before, during, [7]) == ("nvml_process", 250)
    assert peak_seen(before, during, [9]) == ("nvml_device", 300)
    assert peak_seen(before, [Snapshot(time_s=1)], [7]) == ("nvml_device", None)
    assert peak_seen(Snapshot(time_s=0), during[1:], [7]) == ("nvml_device", None)


def test_swapping_is_said():
    quiet, busy = kernel.Counters(pages_swapped=5), kernel.Counters(pages_swapped=5000)
    assert kernel.warnings(quiet, quiet) == ()
    assert "swapping" in kernel.warnings(quiet, busy)[0]
    assert kernel.counters().oom_kills >= 0


def test_a_gpu_gets_one_pass_and_no_peak_that_was_not_measured(tmp_path):
    from dataclasses import replace

    from .conftest import FAKES, Runner

    gpu = Device(kind="gpu", cuda_index=0, name="none", memory_usable_bytes=1 << 30)
    runner = Runner(tmp_path, FAKES / "ways_to_die.py", gpu)
    with runner.launcher:
        record = runner.launcher.run(replace(runner.spec("healthy"), device=gpu))
    assert record.state is State.COMPLETED
    assert record.outcome.memory.peak_bytes is None
    assert record.outcome.memory.host_peak_bytes is not None
    assert {p.name.split(".")[0] for p in (tmp_path / "trials" / "0").glob("*outcome*")} == {"single"}
