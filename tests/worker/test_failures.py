"""From an exception in a trial to the sentence that people read."""

import pytest
import tensorflow as tf

from autotune.core.outcome import State
from autotune.core.workload import WorkloadRef
from autotune.worker.failures import locate, outcome_of

HERE = WorkloadRef(path=__file__, display="test_failures.py")


def raised(run):
    with pytest.raises(Exception) as caught:
        run()
    return caught.value


@tf.function
def mistaken(x):
    if tf.reduce_sum(x) > 0:  # rewritten by AutoGraph, which puts "in user code:" and the type's name into the text
        raise ValueError("the labels are off by one")
    return x


def test_a_function_that_tensorflow_rewrote_names_its_error_once_with_the_users_line():
    problem = raised(lambda: mistaken(tf.ones([2])))
    assert "in user code:" in str(problem)
    said = locate(problem, HERE)
    assert said.endswith("ValueError: the labels are off by one")
    assert said.count("ValueError") == 1 and "test_failures.py:" in said


@pytest.mark.parametrize(
    ("problem", "state", "reason"),
    [
        (KeyError("cuda out of memory"), State.CRASHED, "test_failures.py: KeyError: 'cuda out of memory'"),
        (MemoryError(), State.OUT_OF_MEMORY, "MemoryError"),
        (SystemExit(0), State.CRASHED, "test_failures.py: sys.exit(0) was called"),
        (SystemExit(), State.CRASHED, "test_failures.py: sys.exit() was called"),
        (tf.errors.InternalError(None, None, "device lost"), State.CRASHED, "InternalError: device lost"),
    ],
)
def test_a_sentence_for_each_kind(problem, state, reason):
    found = outcome_of(problem, HERE, limited=False, jit_compile=False)
    assert found.state is state
    assert reason in found.reason


def test_the_cause_is_looked_through():
    try:
        try:
            raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor with shape[9,9]")
        except tf.errors.ResourceExhaustedError as cause:
            raise RuntimeError("training failed") from cause
    except RuntimeError as problem:
        found = outcome_of(problem, HERE, limited=False, jit_compile=False)
    assert found.state is State.OUT_OF_MEMORY and "shape[9,9]" in found.reason
