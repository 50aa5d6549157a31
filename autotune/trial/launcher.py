"""Launches trials, one at a time, each pass in a process of its own."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from autotune.core.outcome import Outcome, State
from autotune.core.passes import CalibrationAnswer, InspectAnswer, PassFiles, PassRequest
from autotune.core.trial import Device, PassKind, TrialRecord, TrialSpec
from autotune.core.workload import WorkloadInfo, WorkloadRef
from autotune.errors import UsageError, UserCodeError
from autotune.trial import kernel
from autotune.trial.device_lock import device_lock
from autotune.trial.environment import pass_environment
from autotune.trial.folder import TrialFolder, read_answer, read_progress, stderr_tail
from autotune.trial.meters.nvml import NvmlMeter
from autotune.trial.server import Ended, ForkServer
from autotune.trial.verdict import combine, held_to_limit, outcome_of_death

_BUILTIN_PRELOAD = ("tensorflow", "keras", "autotune.training")


class TrialLauncher:
    """Runs the trials of one study; a context manager, which leaves no process behind.

    Args:
        study_folder: trials go to ``study_folder/trials/N/``.
        device: where they run.
        stop_now: asked a few times a second while a pass runs; True kills it and raises KeyboardInterrupt. A signal
            handler sets a flag for it: an exception raised from the handler itself could land anywhere.
        say: told in a sentence when a trial has to wait for its device.
    """

    def __init__(
        self,
        study_folder: Path,
        device: Device,
        *,
        stop_now: Callable[[], bool] = lambda: False,
        say: Callable[[str], None] = lambda said: None,
    ) -> None:
        self._stop_now = stop_now
        self._say = say
        self._study_folder = study_folder
        self._device = device
        self._scratch = tempfile.TemporaryDirectory(prefix="autotune-")
        self._nvml = NvmlMeter(device) if device.kind == "gpu" else None
        self._server: ForkServer | None = None
        self._server_key: tuple[tuple[str, ...], tuple[tuple[str, str], ...]] | None = None
        self._inspected: dict[str, InspectAnswer] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def on(self, device: Device) -> TrialLauncher:
        """Returns a launcher of the same study for another device, which knows what inspecting has shown here."""
        other = TrialLauncher(self._study_folder, device, stop_now=self._stop_now, say=self._say)
        other._inspected = self._inspected
        return other

    def close(self) -> None:
        """Ends the server and everything under it."""
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._nvml is not None:
            self._nvml.close()
        self._scratch.cleanup()

    def inspect(self, ref: WorkloadRef, *, timeout_s: float) -> WorkloadInfo:
        """Loads the user's file once, in a process of its own, and describes it. Writes nothing to the study's folder.

        Raises:
            UsageError: no such file, a syntax error in it, or nothing to tune in it.
            UserCodeError: it raises, dies, or does not end in time.
        """
        if not Path(ref.path).is_file():
            raise UsageError(f"there is no file {ref.path}")
        folder = TrialFolder(Path(self._scratch.name) / "inspect", ("inspect",))
        files = PassFiles(str(folder.path), "inspect")
        ended = self._launch(ref, "inspect", None, files, timeout_s)
        try:
            answer = read_answer(files, InspectAnswer)
        except ValueError as problem:
            raise UserCodeError(f"{ref.display}: {problem}") from problem
        if answer is None:
            raise UserCodeError(f"{ref.display}: {self._death(ended, files, timeout_s, 0).reason}", stderr_tail(files))
        if answer.usage_error:
            raise UsageError(answer.usage_error)
        if answer.info is None:
            raise UserCodeError(answer.user_error or ref.display, answer.traceback or "")
        self._inspected[ref.path] = answer
        return answer.info

    def calibrate(self, spec: TrialSpec) -> CalibrationAnswer:
        """Finds the initial loss scale, in a process of its own. Writes nothing to the study's folder.

        Args:
            spec: its candidate's micro-batch is what the backward passes are run with.

        Raises:
            KeyboardInterrupt: by the user; the pass's processes have been killed.
        """
        folder = TrialFolder(Path(self._scratch.name) / "calibrate", ("calibrate",))
        files = PassFiles(str(folder.path), "calibrate")
        kills = kernel.counters().oom_kills
        with device_lock(self._device, stop_now=self._stop_now, say=self._say):
            ended = self._launch(spec.workload, "calibrate", spec, files, spec.timeout_s)
        try:
            answer = read_answer(files, CalibrationAnswer)
        except ValueError as problem:
            return CalibrationAnswer(failure=Outcome(state=State.CRASHED, reason=str(problem)))
        if answer is not None:
            return answer
        return CalibrationAnswer(failure=self._death(ended, files, spec.timeout_s, kernel.counters().oom_kills - kills))

    def run(self, spec: TrialSpec) -> TrialRecord:
        """Runs one trial to its outcome; a trial that fails in whatever way is a record like any other.

        Raises:
            AutotuneError: the study's folder cannot be written, or no process can be started.
            KeyboardInterrupt: by the user; the trial's processes have been killed.
        """
        kinds: tuple[PassKind, ...] = ("memory", "timing") if spec.device.kind == "cpu" else ("single",)
        folder = TrialFolder(self._study_folder / "trials" / str(spec.number), kinds)
        folder.write("spec.json", spec)
        self._warm_up(spec.workload)
        with device_lock(self._device, stop_now=self._stop_now, say=self._say):
            return self._run_alone(spec, kinds, folder)

    def _run_alone(self, spec: TrialSpec, kinds: Sequence[PassKind], folder: TrialFolder) -> TrialRecord:
        folder.mark_running()
        started, started_unix = time.monotonic(), time.time()
        try:
            outcome = self._run_passes(spec, kinds, folder.path, started + spec.timeout_s)
        except KeyboardInterrupt:
            folder.unmark_running()
            raise
        wall_s = time.monotonic() - started
        rest = {"rest": max(0.0, wall_s - sum(outcome.phases.values()))}
        outcome = replace(outcome, phases=outcome.phases | rest)
        record = TrialRecord(
            number=spec.number, candidate=spec.candidate, outcome=outcome, started_unix=started_unix, wall_s=wall_s
        )
        folder.write("record.json", record)
        folder.unmark_running()
        return record

    def run_pass(self, spec: TrialSpec, kind: PassKind, folder: Path) -> Outcome:
        """Runs one pass alone, in a folder of the caller's; ``spec.timeout_s`` covers it. For confirmation runs.

        Raises:
            AutotuneError: the folder cannot be written, or no process can be started.
            KeyboardInterrupt: by the user; the pass's processes have been killed.
        """
        TrialFolder(folder, (kind,)).write("spec.json", spec)
        self._warm_up(spec.workload)
        with device_lock(self._device, stop_now=self._stop_now, say=self._say):
            return self._pass(spec, kind, folder, spec.timeout_s)

    def _run_passes(self, spec: TrialSpec, kinds: Sequence[PassKind], folder: Path, deadline: float) -> Outcome:
        before = kernel.counters()
        done: list[tuple[PassKind, Outcome]] = []
        for kind in kinds:
            done.append((kind, self._pass(spec, kind, folder, deadline - time.monotonic())))
            if done[-1][1].state is not State.COMPLETED:
                break
        outcome = combine(done)
        return replace(outcome, warnings=outcome.warnings + kernel.warnings(before, kernel.counters()))

    def _pass(self, spec: TrialSpec, kind: PassKind, folder: Path, timeout_s: float) -> Outcome:
        files = PassFiles(str(folder.resolve()), kind)
        before = kernel.counters()
        if self._nvml:
            self._nvml.begin()
        ended = self._launch(spec.workload, kind, spec, files, timeout_s)
        kills = kernel.counters().oom_kills - before.oom_kills
        try:
            outcome = read_answer(files, Outcome)
        except ValueError as problem:
            outcome = Outcome(state=State.CRASHED, reason=str(problem))
        if outcome is None:
            outcome = self._death(ended, files, spec.timeout_s, kills)
        if ended.left:
            pids = ", ".join(map(str, ended.left))
            outcome = replace(outcome, warnings=(*outcome.warnings, f"these processes could not be killed: {pids}"))
        if self._nvml:
            outcome = self._nvml.end(outcome, [] if ended.pid is None else [ended.pid])
        return held_to_limit(outcome, spec.memory_limit_bytes)

    def _death(self, ended: Ended, files: PassFiles, timeout_s: float, kernel_oom_kills: int) -> Outcome:
        return outcome_of_death(
            ended,
            progress=read_progress(files),
            stderr_tail=stderr_tail(files),
            kernel_oom_kills=kernel_oom_kills,
            timeout_s=timeout_s,
            last_words=self._server.last_words() if self._server else "",
        )

    def _launch(
        self, ref: WorkloadRef, kind: PassKind, spec: TrialSpec | None, files: PassFiles, timeout_s: float
    ) -> Ended:
        server = self._warm_up(ref)
        limit = spec.memory_limit_bytes if spec else None
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        request = PassRequest(
            kind=kind,
            workload=ref,
            spec=spec,
            folder=files.folder,
            environment=pass_environment(kind, self._device, limit, visible),
            sent_s=time.monotonic(),
            timeout_s=timeout_s,
        )
        return server.run(request, request.sent_s + timeout_s, look=self._nvml.look if self._nvml else lambda: None)

    def _warm_up(self, ref: WorkloadRef) -> ForkServer:
        """Returns a server that fits the user's file: with what inspecting it has shown, bare before that."""
        answer = self._inspected.get(ref.path)
        preload = answer.preload if answer else _BUILTIN_PRELOAD if ref.builtin else ()
        environment = answer.environment if answer else {}
        key = (preload, tuple(sorted(environment.items())))
        if self._server is not None and (self._server_key != key or not self._server.alive):
            self._server.close()
            self._server = None
        if self._server is None:
            log = Path(self._scratch.name) / "server.log"
            self._server = ForkServer(preload=preload, environment=environment, log=log, stop_now=self._stop_now)
            self._server_key = key
        return self._server
