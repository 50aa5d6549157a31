"""Which failures are out-of-memory, also in disguise. Pure: text in, verdict out.

An allocation that fails deep in a library rarely says so. The phrases below are those that TensorFlow, cuDNN, cuBLAS,
PyTorch and JAX are known to use (tensorflow issues 7025, 21775, 24828, 34518, 43764, 44047, 45423, 60713, 16965). A
phrase counts only from an exception *of the library*: a user's own ``RuntimeError("no cuda memory map")`` is a mistake
in the user's code, whatever it mentions.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence

_LIBRARIES = ("tensorflow.", "jaxlib.", "jax.", "torch.")

_DISGUISES = re.compile(
    r"Dst tensor is not initialized"
    r"|OOM when allocating"
    r"|out of memory|out-of-memory|OUT_OF_MEMORY|RESOURCE_EXHAUSTED"
    r"|[Ff]ailed to (?:get convolution algorithm|allocate|create cu(?:blas|dnn|solver|fft)\w* handle)"
    r"|cuDNN failed to initialize|cuDNN launch failure"
    r"|(?:CUDNN|CUBLAS|CUFFT)_STATUS_(?:ALLOC_FAILED|NOT_INITIALIZED|INTERNAL_ERROR)"
    r"|Failed to call (?:Then|Do)Rnn(?:Forward|Backward)"
    r"|No algorithm worked"
    r"|std::bad_alloc"
)
_ONLY_UNDER_A_LIMIT = re.compile(r"Cannot parse tensor from (?:tensor_)?proto")
_PLAIN_TORCH = re.compile(r"CUDA out of memory\. Tried to allocate|CUDA error: out of memory")

_FATAL = re.compile(
    r"std::bad_alloc"
    r"|CUDA_ERROR_OUT_OF_MEMORY"
    r"|^\S* ?\S* ?F\d* .*(?:[Oo]ut of memory|OOM|[Ff]ailed to allocate|cuMemAllocAsync)"
    r"|^MemoryError\b",
    re.MULTILINE,
)

# Said before ResourceExhaustedError; but a kernel that does not check its buffers crashes instead of raising it. The
# same words are no failure where TensorFlow only tried for a larger workspace, which it then says in the same sentence.
_ALLOCATOR_FAILED = re.compile(r"Allocator \(\w+\) ran out of memory trying to allocate [^\n]*")
_ONLY_TRIED = "not a failure"


def is_out_of_memory(type_names: Sequence[str], message: str, *, limited: bool) -> bool:
    """Tells whether an exception means that memory ran out.

    Args:
        type_names: qualified names of the exception's class and its bases (``builtins.MemoryError``).
        message: its text.
        limited: a memory limit was set, which turns further failures of the allocator into odd messages.
    """
    if "builtins.MemoryError" in type_names:
        return True
    if "No space left on device" in message:  # TensorFlow calls a full disk an exhausted resource
        return False
    if any(name.startswith(_LIBRARIES) for name in type_names):
        if any(name.endswith((".ResourceExhaustedError", ".OutOfMemoryError")) for name in type_names):
            return True
        return bool(_DISGUISES.search(message) or (limited and _ONLY_UNDER_A_LIMIT.search(message)))
    return "builtins.RuntimeError" in type_names and bool(_PLAIN_TORCH.search(message))


_REWRITTEN = "in user code:"
_OPERATION_FAILED = "Graph execution error:"
_AROUND = re.compile(
    r'File "|Detected at node|\[\[\{\{|Hint:|\[Op:|Original stack|\d+ root error|\(\d+\) \S+?: Graph execution'
)


def telling_line(text: str) -> str:
    """Returns the one line of an exception's text that says what went wrong, at most 300 characters; may be empty.

    TensorFlow wraps the message of a failed operation: a headline, the node, its Python stack, the message, hints.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [""]
    line = lines[0]
    if line.startswith(_REWRITTEN):  # a function that TensorFlow rewrote: the real message comes last
        line = lines[-1]
    elif line.startswith(_OPERATION_FAILED):
        line = next((said for said in lines[1:] if not _AROUND.match(said)), line)
    return line[:300]


def describe_death(status: int, *, stderr_tail: str, kernel_oom_kills: int) -> tuple[bool, str]:
    """Says why a process ended without an answer.

    Args:
        status: exit code, or the negative signal number (as ``subprocess`` has it).
        stderr_tail: the end of what it wrote to stderr.
        kernel_oom_kills: processes that the kernel's out-of-memory killer ended meanwhile, machine-wide.

    Returns:
        whether it ran out of memory, and one sentence for people.
    """
    if status == -signal.SIGKILL and kernel_oom_kills > 0:
        return True, "killed by the kernel's out-of-memory killer"
    if status >= 0:
        return False, f"the process ended with exit code {status} before it had an outcome"
    name = _signal_name(-status)
    refused = [line for line in _ALLOCATOR_FAILED.findall(stderr_tail) if _ONLY_TRIED not in line]
    if refused and -status in _CRASHES:
        return True, f"{refused[-1].strip()[:200]}; TensorFlow then died by {name}"
    fatal = _FATAL.search(stderr_tail) if status == -signal.SIGABRT else None
    if fatal:
        return True, f"{name} after an allocation failed: {_line_around(stderr_tail, fatal.start())}"
    return False, f"the process was killed by {name}"


_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _line_around(text: str, position: int) -> str:
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    return text[start : end if end >= 0 else len(text)].strip()[:300]
