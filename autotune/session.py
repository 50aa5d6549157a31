"""One run of a study: its trials, the choice, the confirmation, the files."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from autotune.confirm import confirm, in_full
from autotune.core.candidate import Candidate
from autotune.core.confirmation import winner
from autotune.core.learning_rate import advice
from autotune.core.loss_scale_choice import Calibration
from autotune.core.pareto import pareto_front
from autotune.core.select import select, verdict
from autotune.core.space import SearchSpace
from autotune.core.study import Job
from autotune.core.trial import Device, MeasurePlan, TrialRecord, TrialSpec
from autotune.core.workload import WorkloadRef
from autotune.errors import AutotuneError
from autotune.report.accumulation import full_batch_record
from autotune.report.files import write_study_files
from autotune.report.text import trade_off_table
from autotune.search.opening import open_study
from autotune.search.run import RunTrial
from autotune.search.store import StudyStore
from autotune.search.together import search_together
from autotune.study import Study
from autotune.trial import TrialLauncher
from autotune.watcher import Watcher

# An update surely this much slower than the best is beaten: a narrower interval would change no choice.
BEATEN = 1.1


class Session:
    """Opened, searched, chosen, written, in this order.

    A context manager: whatever ends it early (Ctrl-C, an error), the tables of what was finished are written.
    """

    def __init__(
        self,
        launcher: TrialLauncher,
        ref: WorkloadRef,
        job: Job,
        plan: MeasurePlan,
        trial_timeout_s: float,
        folder: Path,
        watcher: Watcher,
        twins: tuple[Device, ...] = (),
    ) -> None:
        self._launcher = launcher
        self._twins = twins
        self._ref = ref
        self._job = job
        self._plan = plan
        self._trial_timeout_s = trial_timeout_s
        self._folder = folder
        self._watcher = watcher
        self._store: StudyStore | None = None
        self._twin_stores: list[StudyStore] = []
        self._notes: tuple[str, ...] = ()
        self._shared = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if problem is not None and self._store is not None and self._store.records():
            self._note_front()
            self.write()
        if isinstance(problem, KeyboardInterrupt):
            self._watcher.say(f"the study is kept in {self._folder}; the same command with --resume continues it")

    @property
    def store(self) -> StudyStore:
        """The study's storage, once opened."""
        assert self._store is not None, "open() comes first"
        return self._store

    def open(
        self,
        space: SearchSpace,
        *,
        name: str | None,
        storage: str | None,
        resume: bool,
        notes: tuple[str, ...],
        loss_scale: Calibration | None = None,
    ) -> None:
        """Creates or continues the study; the first thing that is written.

        Raises:
            AutotuneError: the folder or the storage cannot be written.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise AutotuneError(f"cannot write to {self._folder}: {problem.strerror}; name another --out") from None
        self._store = open_study(self._folder, self._job, space, name=name, storage=storage, resume=resume)
        self._twin_stores = [
            open_study(self._folder, self._job, space, name=name, storage=storage, resume=True) for _ in self._twins
        ]
        self._shared = storage is not None
        if loss_scale is not None:
            self._store.update(loss_scale=loss_scale)
        self._notes = notes

    def search(self, *, trials: int, budget_s: float | None) -> None:
        """Runs trials until there is a reason to stop."""
        with ExitStack() as launchers:
            workers: list[tuple[StudyStore, RunTrial]] = [(self.store, self._runner(self._launcher, self._job.device))]
            for device, store in zip(self._twins, self._twin_stores, strict=True):
                launcher = launchers.enter_context(self._launcher.on(device))
                workers.append((store, self._runner(launcher, device)))
            reason = search_together(
                workers,
                trials=trials,
                budget_s=budget_s,
                on_event=self._watcher.event,
                stop_requested=self._watcher.stop_requested,
            )
        self._watcher.say(f"search ended: {reason}")
        if self._watcher.stop_requested():
            raise KeyboardInterrupt

    def choose(self) -> None:
        """Ranks, confirms and notes the choice; on a server one worker does it for all.

        Raises:
            AutotuneError: nothing completed, or nothing could be confirmed; the message tells what was tried.
        """
        if self._shared:
            self.store.confirm_once(
                self._choose,
                say=self._watcher.say,
                stop_requested=lambda: self._watcher.stop_requested() or self._watcher.stop_now(),
            )
        else:
            self._choose(lambda: True)

    def _choose(self, counts: Callable[[], bool]) -> None:
        records = self.store.records()
        self._note_front()
        ranked = select(records, self._job.objective, memory_limit_bytes=self._job.memory_limit_bytes)
        if not ranked:
            raise AutotuneError(_nothing_usable(records) + "\n\n" + trade_off_table(self.store.study()))
        confirmation = confirm(
            self._launcher,
            ranked,
            full_batch_record(self.store.study()),
            self._confirmation_spec,
            self._folder,
            self._watcher.say,
        )
        notes: tuple[str, ...] = (*self._notes, *confirmation.remarks)
        if not confirmation.contenders:
            self.store.update(warnings=notes)
            raise AutotuneError("no candidate that completed could be confirmed by running it again: " + notes[-1])
        chosen, tie = winner(confirmation.contenders)
        if not counts():
            self._watcher.say("this worker was silent for too long: the choice that another one confirmed counts")
            return
        rate_advice = advice(self._job.global_batch, chosen.record.candidate.global_batch)
        notes = (*notes, rate_advice) if rate_advice else notes
        self.store.update(
            chosen=chosen.record.number,
            confirmed=True,
            confirmation=chosen.throughput,
            verdict=verdict(
                chosen.as_record(),
                confirmation.put_into(records),
                memory_limit_bytes=self._job.memory_limit_bytes,
            ),
            warnings=(*notes, tie) if tie else notes,
        )

    def write(self) -> Study:
        """Writes the study's files and returns it."""
        data = self.store.study()
        files = write_study_files(data, self._folder)
        return Study(data=data, folder=self._folder, files=tuple(files))

    def _note_front(self) -> None:
        front = pareto_front(self.store.records(), memory_limit_bytes=self._job.memory_limit_bytes)
        self.store.update(pareto=front)
        if not self.store.study().confirmed:  # else they hold what confirmation had to say as well
            self.store.update(warnings=self._notes)

    def _runner(self, launcher: TrialLauncher, device: Device) -> RunTrial:
        """How trials are run on one device."""

        def run_trial(
            number: int, candidate: Candidate, *, give_up_update_s: float | None, timeout_s: float | None
        ) -> TrialRecord:
            spec = replace(self._spec(number, candidate), device=device)
            rates = [r.samples_per_s for r in self.store.records() if r.completed and r.samples_per_s]
            beaten_s = BEATEN * candidate.global_batch / max(rates) if rates else None
            plan = replace(spec.plan, give_up_update_s=give_up_update_s, beaten_update_s=beaten_s)
            limit_s = self._trial_timeout_s if timeout_s is None else min(self._trial_timeout_s, timeout_s)
            return launcher.run(replace(spec, plan=plan, timeout_s=limit_s))

        return run_trial

    def _confirmation_spec(self, record: TrialRecord) -> TrialSpec:
        return in_full(self._spec(record.number, record.candidate))

    def _spec(self, number: int, candidate: Candidate) -> TrialSpec:
        return TrialSpec(
            number=number,
            workload=self._ref,
            candidate=candidate,
            device=self._job.device,
            memory_limit_bytes=self._job.memory_limit_bytes,
            seed=self._job.seed,
            timeout_s=self._trial_timeout_s,
            plan=self._plan,
        )


def _nothing_usable(records: tuple[TrialRecord, ...]) -> str:
    states = [str(r.state) for r in records]
    counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    if set(states) == {"out_of_memory"}:
        smallest = min(r.candidate.micro_batch for r in records)
        return f"nothing fits in memory, not even micro-batch {smallest}; raise --memory-limit or shrink the model"
    return f"no candidate could be used ({counts or 'no trial was run'})"
