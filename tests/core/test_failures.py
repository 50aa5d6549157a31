"""Out-of-memory in all its disguises, and what only looks like it."""

import pytest

from autotune.core.failures import describe_death, is_out_of_memory

TF = "tensorflow.python.framework.errors_impl."


@pytest.mark.parametrize(
    ("kind", "message", "limited", "verdict"),
    [
        ("builtins.MemoryError", "", False, True),
        ("numpy._core._exceptions._ArrayMemoryError", "Unable to allocate", False, False),  # by its base, MemoryError
        (TF + "ResourceExhaustedError", "anything", False, True),
        (TF + "ResourceExhaustedError", "/tmp/x; No space left on device", False, False),
        (TF + "InternalError", "Dst tensor is not initialized.", False, True),
        (TF + "InternalError", "an illegal memory access was encountered", False, False),
        (TF + "InvalidArgumentError", "Cannot parse tensor from proto: dtype", True, True),
        (TF + "InvalidArgumentError", "Cannot parse tensor from proto: dtype", False, False),
        (TF + "NotFoundError", "No algorithm worked!", False, True),
        ("jaxlib._jax.XlaRuntimeError", "RESOURCE_EXHAUSTED: Out of memory allocating 123 bytes", False, True),
        ("torch.OutOfMemoryError", "", False, True),
        ("builtins.RuntimeError", "CUDA out of memory. Tried to allocate 2.00 GiB", False, True),
        ("builtins.RuntimeError", "my cuda memory table is out of memory slots", True, False),
        ("builtins.ValueError", "Dst tensor is not initialized", True, False),
    ],
)
def test_exceptions(kind, message, limited, verdict):
    assert is_out_of_memory([kind, "builtins.Exception"], message, limited=limited) is verdict


def test_a_library_that_aborts_says_why_in_its_last_lines():
    fatal = "2026-01-01 00:00:00.1: F external/x.cc:12] Failed to allocate 12 bytes: CUDA_ERROR_OUT_OF_MEMORY\n"
    memory, reason = describe_death(-6, stderr_tail="chatter\n" + fatal, kernel_oom_kills=0)
    assert memory
    assert "CUDA_ERROR_OUT_OF_MEMORY" in reason
    assert describe_death(-11, stderr_tail=fatal, kernel_oom_kills=0)[0] is False
