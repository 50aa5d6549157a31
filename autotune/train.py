"""Real training with tuned settings, in a process of its own: the command's side of it. Loads no TensorFlow."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from autotune.config import TunedConfig
from autotune.core.codec import from_plain, to_plain
from autotune.core.failures import describe_death
from autotune.core.training_run import (
    Ended,
    Event,
    RunRecord,
    TrainRequest,
    conflicts,
    event_from_plain,
)
from autotune.core.tuned import WorkloadId
from autotune.errors import AutotuneError, UsageError, UserCodeError
from autotune.prepare import Machine, find_machine, resolve_workload
from autotune.trial import kernel
from autotune.trial.environment import pass_environment
from autotune.trial.stragglers import MARK, kill_marked

_LOOK_UP_S = 0.2
_GOODBYE_S = 5.0
_TAIL_BYTES = 4 << 20  # an allocator that fails dumps its state, a line per chunk, after saying so
_HALF_MADE = {".lock", "checkpoints"}  # a run that was killed before it had written what it is


def _never() -> bool:
    return False


def _ignore(heard: object) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainWatcher:
    """What the caller hears and decides while a run trains; every part has a default that does nothing.

    Attributes:
        event: every event of the training process.
        say: one sentence about the run as a whole.
        stop_requested: asked all the time; True has the process save a checkpoint and end.
        stop_now: asked all the time; True kills it.
    """

    event: Callable[[Event], None] = _ignore
    say: Callable[[str], None] = _ignore
    stop_requested: Callable[[], bool] = _never
    stop_now: Callable[[], bool] = _never


def train(
    workload: str | Path,
    config: TunedConfig,
    *,
    epochs: int,
    out: str | Path,
    resume: bool = False,
    device: str = "auto",
    checkpoint_every_s: float = 600.0,
    watcher: TrainWatcher | None = None,
) -> tuple[Path, ...]:
    """Trains ``workload`` with tuned settings.

    Args:
        workload: a built-in name, ``path/to/train.py`` or ``train.py:name``.
        config: the tuned settings.
        epochs: in all, those of an earlier part of the run included.
        out: folder of the run.
        resume: go on with the run in ``out`` from its latest checkpoint; begins one where there is none.
        device: ``auto``, ``cpu``, ``gpu``, ``gpu:N`` (CUDA's order) or a UUID.
        checkpoint_every_s: save at least this often, beside the end of every epoch.
        watcher: hears what happens.

    Returns:
        what was written.

    Raises:
        UsageError: bad input, or ``out`` holds another run; nothing was written.
        UserCodeError: the workload's own code raised.
        KeyboardInterrupt: the watcher asked to stop; all is saved unless it asked to stop now.
        AutotuneError: training cannot go on: out of memory, no update applied, a disk that is full.
    """
    hears = watcher or TrainWatcher()
    ref, folder = resolve_workload(workload), Path(out)
    source_hash = hashlib.sha256(Path(ref.path).read_bytes()).hexdigest()
    asked = RunRecord(
        workload=WorkloadId(entry_point=ref.display, source_hash=source_hash),
        config=config.record.config,
        seed=config.record.seed,
        device="",
    )
    _check_folder(folder, asked, resume=resume)
    machine = find_machine(device)
    asked = RunRecord(workload=asked.workload, config=asked.config, seed=asked.seed, device=machine.device.name)
    tuned_for = config.record.workload.entry_point
    if tuned_for != ref.display:
        hears.say(f"the config was measured for {tuned_for}, not for {ref.display}; its figures may not hold")
    with tempfile.TemporaryDirectory(prefix="autotune-") as scratch:
        log = Path(scratch) / "log"
        reading, writing = os.pipe()
        request = TrainRequest(
            workload=ref, run=asked, folder=str(folder.absolute()), epochs=epochs, resume=resume,
            checkpoint_every_s=checkpoint_every_s, parent=os.getpid(), events=writing,
        )  # fmt: skip
        with _Process(request, _environment(asked, machine), reading, log) as process:
            ended = process.listen(hears)
    return _files(ended, folder)


def _check_folder(folder: Path, asked: RunRecord, *, resume: bool) -> None:
    """Refuses early what the training process would refuse later; reads only.

    Raises:
        UsageError: ``folder`` cannot be this run's.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; name another --out")
    present = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if "run.json" in present:
        if not resume:
            raise UsageError(f"{folder} holds a training run; add --resume to continue it, or name another --out")
        try:
            stored = from_plain(RunRecord, json.loads((folder / "run.json").read_text(encoding="utf-8")))
        except (ValueError, OSError) as problem:
            raise UsageError(f"{folder / 'run.json'} cannot be read ({problem}); name another --out") from None
        different = conflicts(stored, asked)
        if different:
            raise UsageError(f"{folder} holds another run: {'; '.join(different)}; name another --out for a new one")
    elif present - _HALF_MADE:
        raise UsageError(f"{folder} is not empty and holds no training run; name another --out")
    above = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise UsageError(f"cannot write to {above}; name another --out")


def _environment(run: RunRecord, machine: Machine) -> dict[str, str]:
    if machine.device.kind == "gpu" and run.config.replicas > 1:
        return {}  # all visible GPUs: the loop takes as many as it has replicas
    return pass_environment("single", machine.device, None, os.environ.get("CUDA_VISIBLE_DEVICES"))


def _files(ended: Ended, folder: Path) -> tuple[Path, ...]:
    if ended.exit_code == 0:
        return tuple(folder / name for name in ended.files)
    if ended.exit_code == 130:
        raise KeyboardInterrupt(ended.message)
    if ended.exit_code == UserCodeError.exit_code:
        raise UserCodeError(ended.message, ended.traceback)
    raise (UsageError if ended.exit_code == UsageError.exit_code else AutotuneError)(ended.message)


class _Process:
    """The training process, which is gone, with everything under it, when this context ends."""

    def __init__(self, request: TrainRequest, environment: dict[str, str], events: int, log: Path) -> None:
        self._log, self._folder, self._events = log, Path(request.folder), events
        self._token = secrets.token_hex(16)
        self._kills = kernel.counters().oom_kills
        # -P: the working directory must not lead sys.path, where a user's random.py would hide the real one.
        command = [sys.executable, "-P", "-m", "autotune.worker.train"]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env={**os.environ, **environment, MARK: self._token},
                pass_fds=(request.events,),
                start_new_session=True,  # the terminal's Ctrl-C is for the command to act on
            )
        os.close(request.events)
        assert self._process.stdin is not None
        with self._process.stdin as stdin:
            stdin.write(json.dumps(to_plain(request)).encode())

    def __enter__(self) -> _Process:
        return self

    def __exit__(self, *problem: object) -> None:
        self._process.kill()
        self._process.wait()
        kill_marked(self._token)
        os.close(self._events)

    def listen(self, hears: TrainWatcher) -> Ended:
        """Passes every event on; returns the last word, the process's own or one about its death."""
        asked = False
        for event in self._lines(hears):
            if isinstance(event, Ended):
                with contextlib.suppress(subprocess.TimeoutExpired):  # it has still to end its log
                    self._process.wait(_GOODBYE_S)
                return event
            if event is not None:
                hears.event(event)
            elif hears.stop_now():
                raise KeyboardInterrupt("stopped at once; the run goes on from its latest checkpoint")
            if not asked and hears.stop_requested():
                asked = True
                self._process.send_signal(signal.SIGINT)
        status = self._process.wait()
        if asked and status != -signal.SIGKILL:  # before it could listen
            return Ended(exit_code=130, message="stopped before training began")
        return Ended(exit_code=AutotuneError.exit_code, message=self._death(status))

    def _lines(self, hears: TrainWatcher) -> Iterator[Event | None]:
        """Events as they come, and None a few times a second; ends with the process."""
        buffer = b""
        while True:
            ready, _, _ = select.select([self._events], [], [], _LOOK_UP_S)
            yield None
            if ready:
                data = os.read(self._events, 65536)
                if not data:
                    return
                *lines, buffer = (buffer + data).split(b"\n")
                yield from (event_from_plain(json.loads(line)) for line in lines)
            elif self._process.poll() is not None:  # a child of the user's may hold the other end open
                return

    def _death(self, status: int) -> str:
        log = self._folder / "train.log"
        log = log if log.is_file() else self._log
        with log.open("rb") as stream:
            stream.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            tail = stream.read().decode(errors="replace")
        kills = kernel.counters().oom_kills - self._kills
        memory, reason = describe_death(status, stderr_tail=tail, kernel_oom_kills=kills)
        last = tail.strip().splitlines()[-1:] if status >= 0 else []
        words = f"the training process ended: {reason}" + "".join(f" ({line[:200]})" for line in last)
        return f"out of memory: {reason}" if memory else words
