"""Whether the worker that owns a running trial is still alive.

On the machine that asks, the process itself is looked up. For other machines the worker's heartbeat decides: it is
written to the storage every few seconds and judged by the storage's own clock, so hosts need not agree on the time.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from optuna.storages import RDBStorage

HEARTBEAT_S = 5
DEAD_AFTER_S = 60  # of silence; a suspended machine that comes back later finds its trial given away


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One worker: a process, and a token that tells several workers of one process apart.

    Attributes:
        host: name of its machine, for people.
        system: the running system: a boot of a kernel, and the process namespace in it.
        pid: process number in that namespace.
        started: the process's start, in clock ticks since boot; numbers are used again.
        token: random.
    """

    host: str
    system: str
    pid: int
    started: int
    token: str

    @classmethod
    def this(cls) -> Worker:
        """Returns a worker of the calling process."""
        pid = os.getpid()
        return cls(
            host=socket.gethostname(), system=_system(), pid=pid, started=_started(pid) or 0, token=secrets.token_hex(8)
        )

    @classmethod
    def of(cls, plain: Any) -> Worker | None:
        """Returns the worker that :meth:`plain` describes; None where it describes none."""
        try:
            return cls(**plain)
        except TypeError:
            return None

    def plain(self) -> dict[str, Any]:
        """Returns it as JSON values."""
        return asdict(self)

    def alive_here(self) -> bool | None:
        """Whether its process runs on this machine; None where it belongs to another one."""
        if self.system != _system():
            return None
        return _started(self.pid) == self.started


class Heartbeat:
    """Tells the storage every few seconds that a trial's worker lives. A context manager around the trial.

    Args:
        storage: the study's.
        trial_id: of the running trial.
    """

    def __init__(self, storage: RDBStorage, trial_id: int) -> None:
        self._storage = storage
        self._trial_id = trial_id
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="autotune heartbeat", daemon=True)

    def start(self) -> None:
        """Writes the first beat, then one every few seconds from a thread."""
        self._storage.record_heartbeat(self._trial_id)
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread."""
        self._over.set()
        if self._thread.ident is not None:  # it was started
            self._thread.join()

    def _beat(self) -> None:
        while not self._over.wait(HEARTBEAT_S):
            with contextlib.suppress(Exception):  # a server that restarts; the next beat will do
                self._storage.record_heartbeat(self._trial_id)


def _system() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id")
    with contextlib.suppress(OSError):
        return f"{boot.read_text().strip()}/{Path('/proc/self/ns/pid').readlink()}"
    return socket.gethostname()


def _started(pid: int) -> int | None:
    """Start of a running process in clock ticks since boot; None where there is none, or a dead one not yet reaped."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])
