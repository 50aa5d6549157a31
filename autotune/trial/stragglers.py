"""Ends what a fork server leaves behind when it dies itself.

While it lives the server ends every descendant of a pass, wherever it has gone to. Should the server be killed, its
children die with it, but their own children may not: they are found by a mark that they inherited in their environment.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

MARK = "AUTOTUNE_PROCESS_TREE"

_CLEAN_SCANS = 2
_BETWEEN_SCANS_S = 0.02


def kill_marked(token: str, *, patience_s: float = 5.0) -> None:
    """Kills every process that was started with ``MARK=token`` in its environment.

    Again until a scan finds none: a process that forks at this moment is in no list yet.
    """
    give_up = time.monotonic() + patience_s
    clean = 0
    while clean < _CLEAN_SCANS and time.monotonic() < give_up:
        found = _marked(token)
        clean = 0 if found else clean + 1
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_BETWEEN_SCANS_S)


def _marked(token: str) -> list[int]:
    wanted = f"{MARK}={token}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):  # gone meanwhile, or another user's
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found
