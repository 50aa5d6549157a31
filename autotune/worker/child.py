"""A forked child, from the fork to its answer: isolates itself, runs one pass, writes the answer, and is gone."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import importlib
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from autotune.core.codec import to_plain
from autotune.core.passes import DISK_EXIT, PassFiles, PassRequest
from autotune.worker import passes
from autotune.worker.phases import Phases
from autotune.worker.processes import die_with_parent

_DUMP_BEFORE_DEADLINE_S = 0.5


def warm_up(preload: Sequence[str]) -> None:
    """Imports, in the server, what every child would import again."""
    for name in preload:
        importlib.import_module(name)


def main(request: PassRequest, server: int) -> NoReturn:
    """Runs one pass in the calling (just forked) process and ends it."""
    status = 1
    try:
        _isolate(server)
        _prepare(request)
        status = _answer(request)
    except BaseException:
        traceback.print_exc()
    finally:
        # No atexit handlers and no waiting for the user's threads: the answer is on disk, everything else is killed.
        _flush()
        os._exit(status)


def _isolate(server: int) -> None:
    os.close(signal.set_wakeup_fd(-1))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.setsid()
    die_with_parent()
    if os.getppid() != server:  # it died before the line above took hold
        os._exit(1)


def _prepare(request: PassRequest) -> None:
    files = PassFiles(request.folder, request.kind)
    streams: tuple[tuple[Any, str], ...] = ((sys.stdout, files.stdout), (sys.stderr, files.stderr))
    for stream, path in streams:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
        os.dup2(descriptor, stream.fileno())
        os.close(descriptor)
        # By lines, so that what was printed before a crash is there; and whatever the user prints can be written.
        stream.reconfigure(line_buffering=True, errors="backslashreplace")
    os.environ.update(request.environment)
    faulthandler.enable()
    faulthandler.dump_traceback_later(max(0.1, request.timeout_s - _DUMP_BEFORE_DEADLINE_S))
    sys.argv = [request.workload.path]
    sys.path.insert(0, str(Path(request.workload.path).parent))


def _answer(request: PassRequest) -> int:
    files = PassFiles(request.folder, request.kind)
    phases = Phases(files.progress, time.monotonic)
    phases.add("fork", time.monotonic() - request.sent_s)
    answer = passes.run(request, phases)
    faulthandler.cancel_dump_traceback_later()
    try:
        _write_beside(Path(files.answer), to_plain(answer))
    except OSError as problem:
        print(f"could not write {files.answer}: {problem}", file=sys.stderr)
        return DISK_EXIT
    return 0


def _write_beside(path: Path, value: Any) -> None:
    beside = path.with_name(path.name + ".part")
    beside.write_text(json.dumps(value))
    beside.replace(path)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    with contextlib.suppress(Exception):
        ctypes.CDLL(None).fflush(None)  # what C libraries printed
