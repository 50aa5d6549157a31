"""Ends what a fork server leaves behind when it dies itself.

While it lives the server ends every descendant of a pass, wherever it has gone to. Should the server be killed, its
children die with it, but their own children may not: they are found by a mark that they inherited in their environment.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

MARK = "AUTOTUNE_PROCESS_TREE"


def kill_marked(token: str) -> int:
    """Kills every process that was started with ``MARK=token`` in its environment; returns how many there were."""
    wanted = f"{MARK}={token}".encode()
    count = 0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):  # gone meanwhile, or another user's
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                os.kill(int(entry.name), signal.SIGKILL)
                count += 1
    return count
