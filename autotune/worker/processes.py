"""Linux process trees: who descends from whom, and how to end all of them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """Makes orphaned descendants children of this process, so that none can leave its tree by ``setsid``."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Has the kernel kill this process when the one that forked it dies."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) failed")


def descendants(root: int) -> list[int]:
    """Returns the process numbers of all live descendants of ``root``, zombies left out."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_bytes()
        except OSError:  # it ended meanwhile
            continue
        # The name in parentheses may hold anything, parentheses too: what counts begins after the last one.
        state, parent = stat[stat.rindex(b")") + 1 :].split()[:2]
        if state != b"Z":
            children.setdefault(int(parent), []).append(int(entry.name))
    found, todo = [], [root]
    while todo:
        mine = children.get(todo.pop(), [])
        found += mine
        todo += mine
    return found


def kill_descendants(root: int, *, patience_s: float = 10.0) -> list[int]:
    """Kills every descendant of ``root`` (which must be the calling process, so that it can reap them).

    Returns:
        those that were still there after ``patience_s`` (a process in an uninterruptible driver call).
    """
    give_up = time.monotonic() + patience_s
    while True:
        reap()
        alive = descendants(root)
        if not alive or time.monotonic() > give_up:
            return alive
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)


def reap() -> dict[int, int]:
    """Collects children that have ended: process number to exit code, or negative signal number."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended[pid] = os.waitstatus_to_exitcode(status)
