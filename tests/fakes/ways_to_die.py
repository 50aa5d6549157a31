"""Loops that end in every way a process can, without TensorFlow. Each function is a ``make_loop`` of its own."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path


class Loop:
    """Sums numbers for a while, then does what it was made for."""

    def __init__(self, settings, act=lambda n: None, at=1):
        self.micro = settings.micro_batch
        self.batch = settings.global_batch
        self.act, self.at, self.calls = act, at, 0

    def update(self):
        self.calls += 1
        sum(range(2000))
        if self.calls >= self.at:
            return self.act(self.calls)
        return None


def healthy(settings):
    return Loop(settings)


def raises_on_third_call(settings):
    def act(_):
        raise ValueError("the third time is one too many")

    return Loop(settings, act, at=3)


def mentions_memory(settings):
    raise RuntimeError("cuda kernel map: out of memory slots, failed to allocate a name")


def memory_error(settings):
    return Loop(settings, lambda _: bytearray(1 << 60))


def memory_error_while_building(settings):
    bytearray(1 << 60)


def exits_in_order(settings):
    sys.exit(0)


def exits_at_once(settings):
    os._exit(0)


def interrupts(settings):
    raise KeyboardInterrupt


def aborts(settings):
    return Loop(settings, lambda _: os.abort())


def segfaults(settings):
    return Loop(settings, lambda _: ctypes.string_at(8))


def is_killed(settings):
    return Loop(settings, lambda _: os.kill(os.getpid(), signal.SIGKILL))


def terminates(settings):
    return Loop(settings, lambda _: os.kill(os.getpid(), signal.SIGTERM))


def hangs_in_python(settings):
    def act(_):
        while True:
            time.sleep(1)

    return Loop(settings, act)


def hangs_in_c(settings):
    """A C call that holds the interpreter's lock, with every signal blocked that can be."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    return Loop(settings, lambda _: ctypes.PyDLL(None).pause())


def leaves_grandchildren(settings):
    for _ in range(2):
        subprocess.Popen(["sleep", "86400.125"], start_new_session=True)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:  # orphaned, in a session of its own
            while True:
                time.sleep(60)
        os._exit(0)
    return Loop(settings)


def leaves_a_thread(settings):
    threading.Thread(target=time.sleep, args=(86400,)).start()
    return Loop(settings)


def is_noisy(settings):
    print("error: nothing is wrong" * 1000)
    os.write(1, bytes(range(256)) * 4096)
    print("\udcff \N{SNOWMAN}", file=sys.stderr)
    print("x" * (3 << 20))
    os.write(2, b"F0000 Check failed: out of memory\n")
    return Loop(settings)


def _folder():
    return Path(os.readlink("/proc/self/fd/1")).parent


def leaves_half_an_outcome(settings):
    (_folder() / "memory.outcome.json").write_text('{"state": "comple')
    os._exit(0)


def fills_the_disk(settings):
    (_folder() / "memory.outcome.json.part").symlink_to("/dev/full")
    return Loop(settings)


class Idle:
    def update(self):
        pass


def does_nothing(settings):
    assert settings.micro_batch
    return Idle()


def never_reads_its_settings(settings):
    class Deaf:
        def update(self):
            sum(range(2000))

    return Deaf()


def gives_nan(settings):
    return Loop(settings, lambda _: {"loss": float("nan")})


def never_applies(settings):
    return Loop(settings, lambda _: {"loss": float("inf"), "applied": False, "loss_scale": 2.0})


def skips_every_other(settings):
    return Loop(settings, lambda n: {"loss": 1.0, "applied": n % 2 == 0, "samples": settings.global_batch})


def runs_out_of_data(settings):
    data = iter(range(3))
    return Loop(settings, lambda _: {"loss": next(data)})


def takes_fewer_samples(settings):
    return Loop(settings, lambda _: {"samples": settings.global_batch - 56})


def returns_a_tuple(settings):
    return Loop(settings, lambda _: (1, 2))


def has_no_update(settings):
    return settings.micro_batch


def grows(settings):
    """Takes 64 KiB of memory for each sample of a micro-batch."""
    return Loop(settings, lambda _: bytearray(settings.micro_batch << 16).clear())


def slow(settings):
    return Loop(settings, lambda _: time.sleep(0.4))


def prints_and_dies(settings):
    print("last words")
    os.kill(os.getpid(), signal.SIGKILL)


def hangs_with_grandchildren(settings):
    leaves_grandchildren(settings)
    return hangs_in_python(settings)


def kills_its_parent(settings):
    leaves_grandchildren(settings)
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)


def tells_its_modules(settings):
    print(*sys.modules)
    return Loop(settings)
