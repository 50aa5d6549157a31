from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import pytest

from autotune.core.trial import Device
from autotune.probe import DeviceMonitor, disturbances
from autotune.probe.monitor import Snapshot
from autotune.probe.recorded import RecordedProcess, load_recording

MIB = 2**20
QUIET = Snapshot(time_s=0.0, used_bytes=100 * MIB, processes={}, thermal_violation_ns=0, power_violation_ns=0)


def later(**changes) -> Snapshot:
    return dataclasses.replace(QUIET, time_s=10.0, **changes)


def test_a_quiet_trial():
    assert disturbances(QUIET, later()) == ()
    assert disturbances(QUIET, later(used_bytes=110 * MIB, throttle_reasons=("idle", "power_cap"))) == ()


@pytest.mark.parametrize(
    ("after", "says"),
    [
        ({"used_bytes": 1100 * MIB}, "took 1000 MiB"),
        ({"used_bytes": 0}, "gave back 100 MiB"),
        ({"processes": {77: 5}}, "pid 77"),
        ({"processes": {77: None}}, "pid 77"),
        ({"thermal_violation_ns": 4_000_000_000}, "heat held the clocks down for 40%"),
        ({"power_violation_ns": 10_000_000_000}, "the power cap held the clocks down for 100%"),
        ({"throttle_reasons": ("thermal_hardware",)}, "thermal_hardware"),
        ({"throttle_reasons": ("power_brake", "idle")}, "power_brake"),
    ],
)
def test_what_disturbs(after, says):
    (sentence,) = disturbances(QUIET, later(**after))
    assert says in sentence


def test_the_trials_own_process_is_no_stranger():
    during = [later(processes={5: 10, 6: 10}, throttle_reasons=("thermal_software",))]
    found = disturbances(QUIET, later(), during=during, own_pids=[5])
    assert any("pid 6" in s for s in found)
    assert not any("pid 5" in s for s in found)
    assert any("thermal_software" in s for s in found)


def test_foreign_process_numbers_tell_nothing():
    """In a container NVML lists the host's numbers: none is ours, so none can be called a stranger's."""
    assert disturbances(QUIET, later(), during=[later(processes={90001: 10})], own_pids=[5]) == ()


def test_unreadable_tells_nothing():
    empty = Snapshot(time_s=0.0)
    assert disturbances(empty, dataclasses.replace(empty, time_s=5.0)) == ()
    assert disturbances(empty, later(used_bytes=10**10, thermal_violation_ns=10**10)) == ()


def test_cpu_has_empty_snapshots():
    with DeviceMonitor(Device(kind="cpu", name="CPU", memory_usable_bytes=1)) as monitor:
        assert monitor.snapshot().used_bytes is None


CHILD = """
import dataclasses, json, sys
from autotune.core.trial import Device
from autotune.probe import DeviceMonitor, disturbances
device = Device(kind="gpu", uuid=sys.argv[1], name="GPU", memory_usable_bytes=1)
with DeviceMonitor(device) as monitor:
    before = monitor.snapshot()
    print(json.dumps(dataclasses.asdict(before)), flush=True)
    for line in sys.stdin:
        after = monitor.snapshot()
        after = dataclasses.replace(after, time_s=before.time_s + 10)
        print(json.dumps(disturbances(before, after)), flush=True)
"""


@pytest.fixture
def watched(machine):
    """A real process with an open monitor on a machine that changes under it."""

    def start(name: str, uuid: str):
        fake = machine(name)
        command = [sys.executable, "-c", CHILD, uuid]
        child = subprocess.Popen(
            command, env=fake.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        children.append(child)
        return fake, child, json.loads(child.stdout.readline())

    children: list[subprocess.Popen[str]] = []
    yield start
    for child in children:
        child.stdin.close()
        assert child.wait(timeout=30) == 0
        child.stdout.close()


def ask(child) -> list[str]:
    child.stdin.write("now\n")
    child.stdin.flush()
    return json.loads(child.stdout.readline())


def test_through_the_real_pynvml(watched):
    recording = load_recording("h100")
    fake, child, before = watched("h100", recording.gpu[0].uuid)
    assert (before["used_bytes"], before["processes"]) == (0, {})
    assert ask(child) == []

    gpu = recording.gpu[0]
    taken = dataclasses.replace(gpu.memory, used_mib=4096)
    busy = dataclasses.replace(gpu, memory=taken, processes=[RecordedProcess(pid=4711, memory_mib=4000)])
    busy = dataclasses.replace(busy, values=gpu.values | {"thermal_violation_ns": 3_000_000_000, "throttle_bits": 0x20})
    fake.rewrite(dataclasses.replace(recording, gpu=[busy]))
    found = ask(child)
    assert any("took 4.00 GiB" in s for s in found)
    assert any("pid 4711" in s for s in found)
    assert any("30%" in s for s in found)

    # The GPU falls off the bus: nothing is known, and nothing raises.
    fake.rewrite(dataclasses.replace(recording, gpu=[dataclasses.replace(gpu, handle_error=15)]))
    assert ask(child) == []


def test_a_mig_slice_is_watched_by_its_own_figures(watched):
    recording = load_recording("a100-mig-host")
    part = recording.gpu[0].slices[0]
    _, _, before = watched("a100-mig-host", part.uuid)
    assert before["used_bytes"] == 1246 * MIB
    assert before["processes"] == {"70412": 1210 * MIB}
