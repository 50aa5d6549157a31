"""The lock of a device, with real processes: held by one, waited for by others, released when its holder dies."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from autotune.core.trial import Device
from autotune.trial.device_lock import device_lock, lock_path

GPU = Device(kind="gpu", cuda_index=0, uuid="GPU-test", name="a GPU", memory_usable_bytes=1)

HOLD = """
import sys, time
from autotune.core.trial import Device
from autotune.trial.device_lock import device_lock
with device_lock(Device(kind="gpu", cuda_index=0, uuid="GPU-test", name="a GPU", memory_usable_bytes=1)):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)


@pytest.fixture
def holder():
    process = subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_it_is_waited_for_and_a_killed_holder_releases_it(holder):
    said = []

    def kill_then_wait():
        holder.send_signal(signal.SIGKILL)
        return False

    with device_lock(GPU, stop_now=kill_then_wait, say=said.append):
        assert holder.wait() == -signal.SIGKILL
    assert said == ["waiting: another autotune process is measuring on a GPU"]


def test_waiting_can_be_interrupted(holder):
    with pytest.raises(KeyboardInterrupt), device_lock(GPU, stop_now=lambda: True):
        pytest.fail("the lock was not held")
    assert holder.poll() is None


def test_other_devices_are_free(holder):
    with device_lock(replace(GPU, uuid="GPU-other"), stop_now=lambda: True):
        pass
    with device_lock(Device(kind="cpu", name="a CPU", memory_usable_bytes=1), stop_now=lambda: True):
        pass


def test_children_do_not_inherit_it():
    with device_lock(GPU):
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
    with device_lock(GPU, stop_now=lambda: True):
        assert child.poll() is None
    child.kill()
    child.wait()


GREEDY = """
from autotune.core.trial import Device
from autotune.trial.device_lock import device_lock
gpu = Device(kind="gpu", cuda_index=0, uuid="GPU-test", name="a GPU", memory_usable_bytes=1)
print("held", flush=True)
while True:
    with device_lock(gpu):
        import time; time.sleep(0.05)
"""


def test_a_study_of_many_trials_lets_another_in():
    greedy = subprocess.Popen([sys.executable, "-c", GREEDY], stdout=subprocess.PIPE, text=True)
    assert greedy.stdout.readline() == "held\n"
    asked = []
    for _ in range(5):
        with device_lock(GPU, stop_now=lambda: bool(asked.append(1)) or len(asked) > 300):
            pass
    assert greedy.poll() is None
    greedy.kill()
    greedy.communicate()


def test_every_user_may_lock():
    with device_lock(GPU):
        assert lock_path(GPU).stat().st_mode & 0o777 == 0o666
        assert lock_path(GPU).parent.stat().st_mode & 0o7777 == 0o1777
