"""What a dead process's last words say about memory."""

import signal

import pytest

from autotune.core.failures import describe_death, is_out_of_memory

REFUSED = (
    "W0000 bfc_allocator.cc:502] Allocator (bfc_cpu_allocator_for_gpu) ran out of memory trying to allocate 32.00MiB"
)
ONLY_TRIED = f"{REFUSED}. The caller indicates that this is not a failure, but this may mean there could be gains"


@pytest.mark.parametrize(
    ("status", "stderr", "kills", "memory"),
    [
        (-signal.SIGSEGV, f"{REFUSED} requested by op BiasAdd\nFatal Python error: Segmentation fault", 0, True),
        (-signal.SIGSEGV, f"{ONLY_TRIED}\nFatal Python error: Segmentation fault", 0, False),
        (-signal.SIGSEGV, "Fatal Python error: Segmentation fault", 0, False),
        (-signal.SIGABRT, "terminate called after throwing an instance of 'std::bad_alloc'", 0, True),
        (-signal.SIGABRT, "Fatal Python error: Aborted", 0, False),
        (-signal.SIGKILL, "", 1, True),
        (-signal.SIGKILL, REFUSED, 0, False),
        (1, REFUSED, 0, False),
    ],
)
def test_death(status, stderr, kills, memory):
    assert describe_death(status, stderr_tail=stderr, kernel_oom_kills=kills)[0] is memory


@pytest.mark.parametrize(
    ("names", "message", "memory"),
    [
        (["tensorflow.x.ResourceExhaustedError"], "OOM when allocating tensor", True),
        (["tensorflow.x.ResourceExhaustedError"], "/tmp/x: No space left on device", False),
        (["tensorflow.x.InternalError"], "Dst tensor is not initialized.", True),
        (["tensorflow.x.InternalError"], "Failed to call ThenRnnForward with model config", True),
        (["tensorflow.x.NotFoundError"], "No algorithm worked!", True),
        (["builtins.RuntimeError", "builtins.Exception"], "no cuda memory map for you", False),
        (["builtins.ValueError"], "out of memory", False),
        (["builtins.MemoryError"], "", True),
    ],
)
def test_exceptions(names, message, memory):
    assert is_out_of_memory(names, message, limited=False) is memory
