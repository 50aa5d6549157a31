"""Out-of-memory in all its disguises, and what only looks like it."""

import pytest

from autotune.core.failures import describe_death, is_out_of_memory, telling_line

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


GRAPH_ERROR = """Graph execution error:

Detected at node digits/conv/convolution defined at (most recent call last):
  File "model.py", line 12, in call

  File "layers.py", line 854, in conv

OOM when allocating tensor with shape[256,32,32,32] and type float by allocator bfc
\t [[{{node digits/conv/convolution}}]]
Hint: If you want to see a list of allocated tensors when OOM happens, add ...
 [Op:__inference__update_1325]"""
TWO_ROOTS = """Graph execution error:

2 root error(s) found.
  (0) RESOURCE_EXHAUSTED:  OOM when allocating tensor with shape[8]
\t [[{{node a}}]]
  (1) CANCELLED:  Function was cancelled before it was started
0 successful operations. [Op:__inference__update_7]"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("one\ntwo", "one"),
        ("", ""),
        ("in user code:\n\n  File x\n\n    ValueError: bad", "ValueError: bad"),
        (
            GRAPH_ERROR,
            "OOM when allocating tensor with shape[256,32,32,32] and type float by allocator bfc",
        ),
        (TWO_ROOTS, "(0) RESOURCE_EXHAUSTED:  OOM when allocating tensor with shape[8]"),
        ("Graph execution error:", "Graph execution error:"),
    ],
)
def test_the_line_that_says_what_went_wrong(text, line):
    assert telling_line(text) == line
