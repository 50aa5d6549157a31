"""The few exceptions that end a command.

A failed candidate is a value (:class:`autotune.core.outcome.Outcome`), never one of these: they are raised only where
the job as a whole cannot go on. Each carries the exit code of the command line.
"""

from __future__ import annotations


class AutotuneError(Exception):
    """The job could not be done: nothing fits, no GPU where one was demanded, a broken machine."""

    exit_code = 1


class UsageError(AutotuneError):
    """Bad usage or bad input: one sentence that names the thing and the mend."""

    exit_code = 2


class UserCodeError(AutotuneError):
    """The user's own code raised.

    Args:
        message: one sentence with the user's own file and line.
        traceback: the user's traceback, shown under ``--debug``.
    """

    exit_code = 3

    def __init__(self, message: str, traceback: str = "") -> None:
        super().__init__(message)
        self.traceback = traceback
