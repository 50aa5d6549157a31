"""Two replicas train as one device does, with one reduction per update and one decision about overflows."""

import json
import os
import socket
import subprocess
import sys

import numpy as np
import pytest

from autotune.errors import UsageError
from autotune.training import AccumulationLoop
from tests.training.toys import TOLERANCE, X, settings, workload


def start(mode, **variables):
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "", **variables}
    command = [sys.executable, "-m", "tests.training.replicas", mode]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def finish(process):
    try:
        out, err = process.communicate(timeout=240)
    finally:
        process.kill()
    assert process.returncode == 0, err[-3000:]
    return json.loads(out.splitlines()[-1])


@pytest.fixture(scope="module")
def mirrored():
    return finish(start("mirrored"))


@pytest.fixture(scope="module")
def workers():
    sockets = [socket.socket() for _ in range(2)]
    for item in sockets:
        item.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{item.getsockname()[1]}" for item in sockets]
    for item in sockets:
        item.close()
    started = [
        start(
            "worker", TF_CONFIG=json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": i}})
        )
        for i in range(2)
    ]
    return [finish(process) for process in started]


def check_equivalence(told):
    for way, numbers in told["equivalence"].items():
        assert numbers["distance"] < TOLERANCE["float32"], way
        assert numbers["loss_error"] < 1e-5, way
        assert numbers["samples"] == [10, 10, 1] * 2
        assert numbers["iterations"] == 6
        assert numbers["jit"] == ("true" if way.endswith("True") else "false")


def check_overflow(told):
    numbers = told["overflow"]
    assert numbers["applied"] == [True, False, True]
    assert numbers["untouched"] and numbers["finite"]
    assert numbers["scale"] == 32.0
    assert numbers["counts"] == [2, 1, 2]


def check_batch_norm(told, parts):
    each = [np.zeros(8), np.zeros(8)]
    for replica in (0, 1):
        for start in (6 * replica, 6 * replica + 3):
            each[replica] = 0.9 * each[replica] + 0.1 * X[start : start + 3].mean(0)
    for way, numbers in told["batch_norm"].items():
        assert len(numbers["means"]) == parts
        for mean in numbers["means"]:
            np.testing.assert_allclose(mean, sum(each) / 2, rtol=1e-5, atol=1e-7, err_msg=way)
        assert numbers["untouched"], way


def test_running_statistics_are_the_replicas_mean_everywhere(mirrored, workers):
    check_batch_norm(mirrored, parts=2)
    for told in workers:
        check_batch_norm(told, parts=1)
        assert {numbers["reductions"] for numbers in told["batch_norm"].values()} == {1}


def test_two_devices_of_one_process(mirrored):
    check_equivalence(mirrored)
    check_overflow(mirrored)
    assert len(mirrored["equivalence"]) == 6
    assert mirrored["restored"]


def test_two_processes(workers):
    for told in workers:
        check_equivalence(told)
        check_overflow(told)
        assert told["restored"]
    assert workers[0]["overflow"]["weights"] == workers[1]["overflow"]["weights"]


def test_one_reduction_per_update(workers):
    for told in workers:
        assert {numbers["reductions"] for numbers in told["equivalence"].values()} == {1}


def test_wrong_number_of_replicas_is_refused():
    with pytest.raises(UsageError, match="TensorFlow sees 1 devices"):
        AccumulationLoop(workload(), settings(replicas=2))
