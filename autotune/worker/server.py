"""The fork server: imports the slow libraries once, then forks one clean child per pass.

Started by the tuner as ``python -m autotune.worker.server --preload tensorflow,keras`` with a socket as its standard
input; both sides write JSON lines. It loads nothing of the user's and starts no TensorFlow runtime, which is what makes
it safe to fork from. It outlives every pass and dies with the tuner.

    tuner -> server   {"run": <PassRequest>}     fork a child for it
                      {"kill": true}             end the running pass now
    server -> tuner   {"ready": {"pid": ..., "preloaded": [...]}}
                      {"ended": {"status": ..., "pid": ..., "left": [...]}}   exit code or negative signal;
                                                                 survivors of the kill
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import select
import signal
import socket
from typing import Any

from autotune.core.codec import from_plain
from autotune.core.passes import PassRequest
from autotune.worker import child
from autotune.worker.processes import become_subreaper, kill_descendants, reap


class Channel:
    """JSON lines over a socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._buffer = b""

    def fileno(self) -> int:
        """Descriptor to poll."""
        return self._socket.fileno()

    @property
    def pending(self) -> bool:
        """True where a whole message has been read already, which polling cannot see."""
        return b"\n" in self._buffer

    def close(self) -> None:
        """Closes this process's copy."""
        self._socket.close()

    def send(self, message: dict[str, Any]) -> None:
        """Sends one message; a peer that has gone is noticed by :meth:`receive`."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> dict[str, Any] | None:
        """Waits for the next message; None once the peer has gone."""
        while b"\n" not in self._buffer:
            try:
                data = self._socket.recv(65536)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        message: dict[str, Any] = json.loads(line)
        return message


def main() -> None:
    """Runs the server until the tuner closes the channel."""
    parser = argparse.ArgumentParser(prog="python -m autotune.worker.server")
    parser.add_argument("--preload", default="", help="modules to import before forking, separated by commas")
    preload = [name for name in parser.parse_args().preload.split(",") if name]
    channel = _take_stdin()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    become_subreaper()
    child.warm_up(preload)
    gc.collect()
    gc.freeze()  # a child's collector need not touch, and so copy, what was loaded here
    channel.send({"ready": {"pid": os.getpid(), "preloaded": preload}})
    wake_up = _wake_up_on_child_exit()
    while (message := channel.receive()) is not None:
        if "run" in message:  # a kill that crossed with the end of its pass has nothing left to do
            _run(from_plain(PassRequest, message["run"]), channel, wake_up)
    kill_descendants(os.getpid())


def _take_stdin() -> Channel:
    channel = Channel(socket.socket(fileno=os.dup(0)))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return channel


def _wake_up_on_child_exit() -> int:
    """Returns a descriptor that turns readable when a child ends."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return reading


def _run(request: PassRequest, channel: Channel, wake_up: int) -> None:
    server = os.getpid()
    pid = os.fork()
    if pid == 0:
        channel.close()
        os.close(wake_up)
        child.main(request, server)  # does not return
    status = _wait(pid, channel, wake_up)
    left = kill_descendants(server)
    if status is None:
        raise SystemExit(0)
    channel.send({"ended": {"status": status, "pid": pid, "left": left}})


def _wait(pid: int, channel: Channel, wake_up: int) -> int | None:
    """Waits until ``pid`` ends, or the tuner has it killed.

    Returns:
        exit code or negative signal number; None where the tuner has gone.
    """
    poll = select.poll()
    poll.register(channel.fileno(), select.POLLIN)
    poll.register(wake_up, select.POLLIN)
    while True:
        ended = reap()
        if pid in ended:
            return ended[pid]
        ready = [channel.fileno()] if channel.pending else [descriptor for descriptor, _ in poll.poll()]
        if wake_up in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(wake_up, 4096)
        elif channel.receive() is None:
            return None
        else:  # the only message a running pass can get is to end
            os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
