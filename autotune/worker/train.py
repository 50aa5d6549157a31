"""The process of ``autotune train``: started as ``python -m autotune.worker.train``, with a request on its stdin.

It loads the user's file before TensorFlow, whose variables that file may set; says how it goes as JSON lines; saves a
checkpoint and ends when it gets SIGINT; and dies with the command that started it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import shutil
import signal
import sys
import traceback
from pathlib import Path
from types import FrameType
from typing import Any

from autotune.core.codec import from_plain
from autotune.core.training_run import Ended, Event, TrainRequest, event_to_plain
from autotune.errors import AutotuneError, UsageError, UserCodeError
from autotune.worker.failures import outcome_of
from autotune.worker.processes import die_with_parent
from autotune.worker.user_code import UnsuitableFileError, load

LOG = "train.log"


def main() -> None:
    """Runs one request; ends the process."""
    stops: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        stops.append(number)

    signal.signal(signal.SIGINT, handle)
    request = from_plain(TrainRequest, json.loads(sys.stdin.read()))
    die_with_parent()
    if os.getppid() != request.parent:  # it died before the line above took hold
        os._exit(1)
    faulthandler.enable()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    os.set_inheritable(request.events, False)
    with os.fdopen(request.events, "w", encoding="utf-8", buffering=1) as events:

        def tell(event: Event) -> None:
            with contextlib.suppress(BrokenPipeError):  # a parent that has gone takes this process with it
                events.write(json.dumps(event_to_plain(event)) + "\n")

        ended = _run(request, tell, stops)
        tell(ended)
    # No atexit handlers and no waiting for the user's threads: everything is on disk.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(ended.exit_code)


def _run(request: TrainRequest, tell: Any, stops: list[int]) -> Ended:
    try:
        return _train(request, tell, stops)
    except UnsuitableFileError as problem:
        return Ended(exit_code=UsageError.exit_code, message=str(problem))
    except AutotuneError as problem:
        return Ended(exit_code=problem.exit_code, message=str(problem), traceback=traceback.format_exc())
    except BaseException as problem:
        if isinstance(problem, KeyboardInterrupt) and stops:
            return Ended(exit_code=130, message="stopped")
        outcome = outcome_of(problem, request.workload, limited=False, jit_compile=bool(request.run.config.jit_compile))
        code = UserCodeError.exit_code if outcome.user_error else AutotuneError.exit_code
        return Ended(exit_code=code, message=_words(outcome.state, outcome.reason), traceback=outcome.traceback or "")


def _words(state: str, reason: str | None) -> str:
    return f"{str(state).replace('_', ' ')}: {reason}" if state == "out_of_memory" else str(reason)


def _train(request: TrainRequest, tell: Any, stops: list[int]) -> Ended:
    sys.argv = [request.workload.path]
    sys.path.insert(0, str(Path(request.workload.path).parent))
    code = load(request.workload)
    if code.kind == "make_loop":
        raise UsageError(
            f"{request.workload.display} has a loop of its own, which 'autotune train' does not know how to save; give "
            "it autotune.TunedConfig.load(...).settings() in a script of yours"
        )
    from autotune.worker.train_run import StoppedError, Training  # TensorFlow, after the user's file

    try:
        files = Training(code.value, request, tell, lambda: bool(stops)).run(_log_to)
    except StoppedError as stopped:
        return Ended(exit_code=130, message=str(stopped))
    return Ended(exit_code=0, files=files)


def _log_to(folder: Path) -> None:
    """Goes on logging in the run's folder, with what was logged before; bad input never gets here."""
    descriptor = os.open(folder / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    sys.stdout.flush()
    sys.stderr.flush()
    before = Path("/proc/self/fd/1").resolve()
    if before.is_file():
        with before.open("rb") as text, os.fdopen(os.dup(descriptor), "ab") as log:
            shutil.copyfileobj(text, log)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)


if __name__ == "__main__":
    main()
