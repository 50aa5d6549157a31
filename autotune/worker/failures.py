"""From an exception in a trial to its outcome."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator

from autotune.core.failures import is_out_of_memory, telling_line
from autotune.core.outcome import Outcome, State
from autotune.core.workload import WorkloadRef
from autotune.worker.loops import OutOfDataError
from autotune.worker.timing import HopelessError, IdleLoopError
from autotune.worker.user_code import UnsuitableFileError, where

# TensorFlow's classes for failures of the machine or of TensorFlow itself; the others are about what the user asked.
_OF_THE_MACHINE = {
    "InternalError",
    "UnknownError",
    "UnavailableError",
    "AbortedError",
    "CancelledError",
    "DataLossError",
}
_XLA_CANNOT = ("Detected unsupported operations when trying to compile", "uncompilable nodes")


class NotAsAskedError(Exception):
    """What ran is not what the candidate asked for; one sentence."""


def outcome_of(problem: BaseException, ref: WorkloadRef, *, limited: bool, jit_compile: bool) -> Outcome:
    """Returns the outcome of a pass that ended with ``problem``.

    Args:
        problem: what was raised.
        ref: the user's file, to find its lines.
        limited: a memory limit was set.
        jit_compile: the candidate asked for XLA, which cannot compile everything.
    """
    text = "".join(traceback.format_exception(problem))
    print(text, file=sys.stderr)
    if isinstance(problem, (NotAsAskedError, IdleLoopError, OutOfDataError)):
        return Outcome(state=State.INVALID, reason=str(problem), traceback=text)
    if isinstance(problem, HopelessError):
        return Outcome(state=State.TIMED_OUT, reason=str(problem))
    for cause in _chain(problem):
        if is_out_of_memory(_type_names(cause), str(cause), limited=limited):
            return Outcome(state=State.OUT_OF_MEMORY, reason=_sentence(cause), traceback=text)
    if jit_compile and any(phrase in str(problem) for phrase in _XLA_CANNOT):
        return Outcome(
            state=State.INVALID, reason=f"XLA cannot compile this loop: {_sentence(problem)}", traceback=text
        )
    if _is_the_machines(problem):
        return Outcome(state=State.CRASHED, reason=_sentence(problem), traceback=text)
    user_error = locate(problem, ref)
    return Outcome(state=State.CRASHED, reason=user_error, user_error=user_error, traceback=text)


def locate(problem: BaseException, ref: WorkloadRef) -> str:
    """Returns ``file:line: message`` of an exception in the user's code."""
    if isinstance(problem, UnsuitableFileError):
        return str(problem)
    return f"{where(problem, ref) or ref.display}: {_sentence(problem)}"


def _sentence(problem: BaseException) -> str:
    if isinstance(problem, SystemExit):
        return f"sys.exit({'' if problem.code is None else repr(problem.code)}) was called"
    name, message = type(problem).__name__, telling_line(str(problem))
    if message.startswith(f"{name}:"):  # TensorFlow's rewritten functions put the name into the text
        return message
    return f"{name}: {message}" if message else name


def _is_the_machines(problem: BaseException) -> bool:
    kind = type(problem)
    if not (kind.__module__.startswith("tensorflow.") and kind.__name__ in _OF_THE_MACHINE):
        return False
    # An exception inside a Python function that TensorFlow called arrives as one of these, with its traceback as text.
    return "Traceback (most recent call last)" not in str(problem)


def _type_names(problem: BaseException) -> list[str]:
    return [f"{c.__module__}.{c.__qualname__}" for c in type(problem).__mro__]


def _chain(problem: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    todo: BaseException | None = problem
    while todo is not None and id(todo) not in seen:
        seen.add(id(todo))
        yield todo
        todo = todo.__cause__ or (None if todo.__suppress_context__ else todo.__context__)
