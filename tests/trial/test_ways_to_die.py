"""Every way in which a trial can end has its outcome, its reason and its log, and leaves nothing behind."""

import re
import time

import pytest

from autotune.core.outcome import State

WAYS = [
    # function of ways_to_die.py, state, what the reason says, whether it is the user's mistake
    ("healthy", State.COMPLETED, None, False),
    ("raises_on_third_call", State.CRASHED, r"ways_to_die.py:\d+: ValueError: the third time is one too many", True),
    ("mentions_memory", State.CRASHED, r"ways_to_die.py:\d+: RuntimeError: cuda kernel map: out of memory", True),
    ("memory_error", State.OUT_OF_MEMORY, "MemoryError", False),
    ("memory_error_while_building", State.OUT_OF_MEMORY, "MemoryError", False),
    ("exits_in_order", State.CRASHED, r"ways_to_die.py:\d+: sys.exit\(0\) was called", True),
    ("exits_at_once", State.CRASHED, "exit code 0 before it had an outcome, while building the loop", False),
    ("interrupts", State.CRASHED, r"ways_to_die.py:\d+: KeyboardInterrupt", True),
    ("aborts", State.CRASHED, "killed by SIGABRT", False),
    ("segfaults", State.CRASHED, "killed by SIGSEGV", False),
    ("is_killed", State.CRASHED, "killed by SIGKILL", False),
    ("terminates", State.CRASHED, "killed by SIGTERM", False),
    ("leaves_grandchildren", State.COMPLETED, None, False),
    ("leaves_a_thread", State.COMPLETED, None, False),
    ("is_noisy", State.COMPLETED, None, False),
    ("leaves_half_an_outcome", State.CRASHED, "outcome file cannot be read", False),
    ("fills_the_disk", State.CRASHED, "could not write .* No space left on device", False),
    ("does_nothing", State.INVALID, "it does nothing", False),
    ("never_reads_its_settings", State.INVALID, "never read settings.micro_batch", False),
    ("gives_nan", State.NON_FINITE, "the loss of an applied update was nan", False),
    ("never_applies", State.NON_FINITE, "no update was applied.*loss scale came down to 2", False),
    ("runs_out_of_data", State.INVALID, "ran out of data after 3 updates", False),
    ("takes_fewer_samples", State.INVALID, "asked for updates of 256 samples, but update.. reported 200", False),
    ("returns_a_tuple", State.CRASHED, "must return None or a mapping", True),
    ("has_no_update", State.CRASHED, "must return an object with update.., got a int", True),
]


@pytest.mark.parametrize(("way", "state", "reason", "users_mistake"), WAYS, ids=[w[0] for w in WAYS])
def test_ends_as_it_should(bare, way, state, reason, users_mistake):
    record = bare.run(way)
    assert record.state is state, record.outcome
    assert record.outcome.reason is None if reason is None else re.search(reason, record.outcome.reason)
    assert (record.outcome.user_error is not None) == users_mistake
    assert len(bare.processes()) == 1, "only the server is left"


@pytest.mark.parametrize("way", ["hangs_in_python", "hangs_in_c"])
def test_a_hang_ends_at_the_deadline(bare, way):
    started = time.monotonic()
    record = bare.run(way, timeout_s=1.5)
    assert record.state is State.TIMED_OUT
    assert record.outcome.reason == "stopped after 1.50 s, while running the updates of the memory pass"
    assert 1.5 <= record.wall_s <= time.monotonic() - started < 15
    assert len(bare.processes()) == 1
    # Where it hung is in its log, line and all.
    assert b"ways_to_die.py" in bare.text(record, "memory.stderr.txt")


def test_the_deadline_covers_both_passes(bare):
    record = bare.run("slow", timeout_s=2.5)
    assert record.state is State.TIMED_OUT
    assert record.outcome.memory is not None, "the memory pass had ended"
    assert "measuring" in record.outcome.reason or "warming up" in record.outcome.reason
    assert record.wall_s < 15


def test_all_that_was_printed_is_kept(bare):
    record = bare.run("is_noisy")
    stdout = bare.text(record, "timing.stdout.txt")
    assert stdout.startswith(b"error: nothing is wrong")
    assert bytes(range(256)) * 4096 in stdout
    assert stdout.count(b"x") >= 3 << 20
    assert b"\\udcff" in bare.text(record, "timing.stderr.txt")


def test_what_was_printed_before_a_crash_is_kept(bare):
    record = bare.run("prints_and_dies")
    assert record.state is State.CRASHED
    assert bare.text(record, "memory.stdout.txt") == b"last words\n"


def test_a_crash_shows_the_line_in_the_log(bare):
    record = bare.run("segfaults")
    assert b"Segmentation fault" in bare.text(record, "memory.stderr.txt")
    assert b"ways_to_die.py" in bare.text(record, "memory.stderr.txt")


def test_skipped_updates_are_no_work(bare):
    half, full = bare.run("skips_every_other"), bare.run("healthy")
    assert half.outcome.throughput.updates_skipped == pytest.approx(half.outcome.throughput.updates_measured / 2, abs=1)
    goodput = half.samples_per_s * half.outcome.throughput.update_s / 256
    assert goodput == pytest.approx(0.5, abs=0.05)
    assert full.outcome.throughput.updates_skipped == 0


def test_a_peak_above_the_limit_is_out_of_memory(bare):
    fits, large = (bare.run("grows", micro=micro, limit=9 << 20) for micro in (64, 256))
    assert fits.state is State.COMPLETED
    assert 3.5 < fits.peak_bytes / 2**20 < 6, "64 samples of 64 KiB"
    assert fits.outcome.memory.peak_source == "host_vmhwm"
    assert large.state is State.OUT_OF_MEMORY
    assert large.outcome.reason == f"the peak of {large.peak_bytes / 2**20:.1f} MiB is above the limit of 9.00 MiB"
    assert large.outcome.throughput is None, "what does not fit is not timed"


def test_phases_account_for_the_whole_trial(bare):
    record = bare.run("healthy")
    assert set(record.outcome.phases) == {
        "memory_pass",
        "fork",
        "user_code",
        "build",
        "trace",
        "warm_up",
        "measure",
        "rest",
    }
    assert sum(record.outcome.phases.values()) == pytest.approx(record.wall_s)
