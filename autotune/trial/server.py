"""The fork server, seen from the tuner: starts it, has it run passes, and ends it with everything under it."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune.core.codec import to_plain
from autotune.core.passes import PassRequest
from autotune.errors import AutotuneError
from autotune.trial.stragglers import MARK, kill_marked

_START_S = 180.0
_KILL_S = 15.0
_LOOK_UP_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How the process of a pass ended.

    Attributes:
        status: exit code or negative signal number; None where the server itself died.
        timed_out: it was killed because its time was up.
        pid: its process number.
        left: processes that could not be killed.
    """

    status: int | None
    timed_out: bool = False
    pid: int | None = None
    left: tuple[int, ...] = ()


class ForkServer:
    """One ``python -m autotune.worker.server``.

    Args:
        preload: modules it imports before it forks.
        environment: variables beside the tuner's own, for what is read at import.
        log: file for whatever it prints itself.
        stop_now: asked a few times a second while a pass runs; True kills it as Ctrl-C would.

    Raises:
        AutotuneError: it did not start.
    """

    def __init__(
        self,
        *,
        preload: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        stop_now: Callable[[], bool] = lambda: False,
    ) -> None:
        self._log = log
        self._stop_now = stop_now
        self._token = secrets.token_hex(16)
        self._buffer = b""
        self._socket, theirs = socket.socketpair()
        # -P: the working directory must not lead sys.path, where a user's random.py would hide the real one.
        command = [sys.executable, "-P", "-m", "autotune.worker.server", "--preload", ",".join(preload)]
        with theirs, log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=theirs.fileno(),
                stdout=output,
                stderr=output,
                env={**os.environ, **environment, MARK: self._token},
                start_new_session=True,  # the terminal's Ctrl-C is for the tuner to act on
            )
        try:
            if self._receive(time.monotonic() + _START_S) is None:
                raise AutotuneError(f"the process that starts trials did not come up: {self.last_words()}")
        except BaseException:
            self.kill()
            raise

    @property
    def alive(self) -> bool:
        """True while it can run another pass."""
        return self._process.poll() is None

    def run(self, request: PassRequest, deadline: float, *, look: Callable[[], None] = lambda: None) -> Ended:
        """Has one pass run, and waits until its whole process tree is gone.

        Args:
            request: the pass.
            deadline: ``time.monotonic()`` at which it is killed.
            look: called a few times a second meanwhile, for meters.

        Raises:
            KeyboardInterrupt: by the user; the pass has been killed.
        """

        def stop_now() -> bool:
            look()
            return self._stop_now()

        try:
            self._send({"run": to_plain(request)})
            answer = self._receive(deadline, stop_now)
            timed_out = answer is None and self.alive and time.monotonic() >= deadline
            if timed_out:
                answer = self._kill_pass()
        except BaseException:
            self._kill_pass()
            raise
        if answer is None:
            self.kill()
            return Ended(status=None, timed_out=timed_out)
        ended = answer["ended"]
        return Ended(status=ended["status"], timed_out=timed_out, pid=ended["pid"], left=tuple(ended["left"]))

    def _kill_pass(self) -> dict[str, Any] | None:
        self._send({"kill": True})
        answer = self._receive(time.monotonic() + _KILL_S)
        if answer is None:
            self.kill()
        return answer

    def close(self) -> None:
        """Ends it in order: closing the channel has it kill what is left and leave."""
        self._socket.close()
        try:
            self._process.wait(_KILL_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Ends it and everything under it at once."""
        self._process.kill()
        self._process.wait()
        self._socket.close()
        kill_marked(self._token)

    def last_words(self) -> str:
        """Returns the last line it printed, with its exit code."""
        with contextlib.suppress(OSError):
            lines = self._log.read_text(errors="replace").strip().splitlines()
            if lines:
                return lines[-1][:300]
        return f"exit code {self._process.poll()}"

    def _send(self, message: dict[str, Any]) -> None:
        # Its death is noticed where the answer is read.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(json.dumps(message).encode() + b"\n")

    def _receive(self, deadline: float, stop_now: Callable[[], bool] = lambda: False) -> dict[str, Any] | None:
        """Returns the next message; None at the deadline, or when the server has gone."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        while b"\n" not in self._buffer:
            if stop_now():
                raise KeyboardInterrupt
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return None
            if not poll.poll(1000 * min(remaining, _LOOK_UP_S)):
                continue
            try:
                data = self._socket.recv(65536)
            except ConnectionResetError:
                return None
            if not data:
                self._process.wait()
                return None
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        message: dict[str, Any] = json.loads(line)
        return message
