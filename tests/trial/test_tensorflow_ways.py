"""What TensorFlow can do to a trial, with TensorFlow."""

import re

import pytest

from autotune.core.outcome import State

DISGUISES = 8


@pytest.mark.parametrize("message", range(DISGUISES))
def test_out_of_memory_in_disguise(warm, message):
    record = warm.run("disguised", seed=message, limit=64 << 20)
    assert record.state is State.OUT_OF_MEMORY, record.outcome.reason
    assert record.outcome.user_error is None


WAYS = [
    ("healthy", State.COMPLETED, None, None),
    ("wrapped", State.OUT_OF_MEMORY, "OOM when allocating tensor", None),
    ("fails_inside", State.CRASHED, "InternalError: CUDA_ERROR_ILLEGAL_ADDRESS", None),
    ("runs_out_of_address_space", State.OUT_OF_MEMORY, "SIGABRT after an allocation failed: .*std::bad_alloc", None),
    ("fails_in_a_traced_function", State.CRASHED, "Reshape|reshape", r"tensorflow_ways.py:\d+: "),
    ("fails_in_a_generator", State.CRASHED, "sample 2 is missing", r"tensorflow_ways.py:\d+: "),
    ("runs_out_of_samples", State.INVALID, "ran out of data after 2 updates", None),
]


@pytest.mark.parametrize(("way", "state", "reason", "user_error"), WAYS, ids=[w[0] for w in WAYS])
def test_ends_as_it_should(warm, way, state, reason, user_error):
    outcome = warm.run(way).outcome
    assert outcome.state is state, outcome
    assert outcome.reason is None if reason is None else re.search(reason, outcome.reason), outcome.reason
    assert outcome.user_error is None if user_error is None else re.match(user_error, outcome.user_error)
    assert len(warm.processes()) == 1


def test_a_limit_is_enforced_by_the_allocator(warm):
    fits, large = (warm.run("takes_too_much", micro=micro, batch=32, limit=100 << 20) for micro in (8, 32))
    assert fits.state is State.COMPLETED
    assert 64 << 20 <= fits.peak_bytes <= 66 << 20, "two tensors of 32 MiB at a time"
    assert fits.outcome.memory.peak_source == "tf_bfc_cpu"
    assert large.state is State.OUT_OF_MEMORY
    assert "ResourceExhaustedError" in large.outcome.reason


def test_a_hang_in_the_input_pipeline(warm):
    record = warm.run("hangs_in_a_generator", timeout_s=4)
    assert record.state is State.TIMED_OUT
    assert b"in samples" in warm.text(record, "memory.stderr.txt")
    assert len(warm.processes()) == 1


def test_what_xla_cannot_compile_is_invalid_and_only_there(warm):
    jitted, plain = (warm.run("cannot_be_compiled", jit_compile=jit).outcome for jit in (True, False))
    assert plain.state is State.COMPLETED
    assert (jitted.state, jitted.user_error) == (State.INVALID, None)
    assert "XLA cannot compile this loop" in jitted.reason


def test_the_precision_asked_for_is_what_ran(warm):
    asked = {"precision": "mixed_bfloat16"}
    other, same = (warm.run(way, **asked).outcome for way in ("trains_in_another_precision", "trains_as_asked"))
    assert other.state is State.INVALID
    assert other.reason == "asked for mixed_bfloat16, but the loop's model trains in float32"
    assert same.state is State.COMPLETED
    assert same.effective == {"precision": "mixed_bfloat16"}


def test_an_axis_that_is_never_read(warm):
    ignored, harmless = (warm.run("healthy", precision=p).outcome for p in ("mixed_float16", "float32"))
    assert ignored.state is State.INVALID
    assert "never read settings.precision" in ignored.reason
    assert harmless.state is State.COMPLETED
    assert any("never read settings.precision" in warning for warning in harmless.warnings)


def test_only_the_memory_pass_runs_in_settled_conditions(warm):
    record = warm.run("tells_its_conditions")
    assert warm.text(record, "memory.stdout.txt") == b"inter-op 1\n"
    assert warm.text(record, "timing.stdout.txt") == b"inter-op 0\n"
