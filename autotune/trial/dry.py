"""Runs a dry job in a process of its own, and ends that process whatever happens."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from autotune.core.codec import from_plain, to_plain
from autotune.core.plan.dry import DryAnswer, DryRequest
from autotune.core.plan.parts import Parts
from autotune.errors import AutotuneError, UsageError, UserCodeError
from autotune.trial.environment import pass_environment
from autotune.trial.stragglers import MARK, kill_marked


@dataclass(frozen=True, slots=True, kw_only=True)
class DryResult:
    """Answers of a dry job.

    Attributes:
        parts: the built model's bytes.
        answers: one per candidate, in their order; fewer where the job ended early.
        remark: why it ended early, in one sentence.
    """

    parts: Parts
    answers: tuple[DryAnswer, ...] = ()
    remark: str | None = None


def run_dry(request: DryRequest, *, timeout_s: float) -> DryResult:
    """Runs one dry job.

    Raises:
        UsageError: the file offers nothing that can be compiled.
        UserCodeError: the user's code raises.
        AutotuneError: the process died, or was not done in time, before it had built the model.
        KeyboardInterrupt: by the user; the process has been killed.
    """
    with tempfile.TemporaryDirectory(prefix="autotune-") as scratch:
        folder = Path(scratch)
        (folder / "request.json").write_text(json.dumps(to_plain(request)))
        ended = _run(folder, timeout_s, request)
        answers = folder / "answers.jsonl"
        lines = answers.read_text().splitlines() if answers.exists() else []
        found = [from_plain(DryAnswer, json.loads(line)) for line in lines]
        log = (folder / "log.txt").read_text(errors="replace")
    for answer in found:
        if answer.usage_error:
            raise UsageError(answer.usage_error)
        if answer.user_error:
            raise UserCodeError(answer.user_error, answer.traceback or "")
    parts = next((answer.parts for answer in found if answer.parts), None)
    name = request.workload.display
    if parts is None:
        last = (log.strip().splitlines() or ["it said nothing"])[-1][:300]
        raise AutotuneError(f"{name}: the process that builds the model {ended or 'ended without an answer'}: {last}")
    compiled = tuple(answer for answer in found if answer.index is not None)
    short = len(compiled) < len(request.candidates)
    remark = f"the dry job {ended or 'ended early'}: {len(compiled)} of {len(request.candidates)} sizes were compiled"
    return DryResult(parts=parts, answers=compiled, remark=remark if short else None)


def _run(folder: Path, timeout_s: float, request: DryRequest) -> str | None:
    """Runs the process to its end; returns what went wrong with it, in words."""
    from autotune.core.trial import Device

    device = Device(kind="cpu", name="cpu", memory_usable_bytes=request.usable_bytes)
    token = secrets.token_hex(16)
    command = [sys.executable, "-P", "-m", "autotune.worker.dry", "request.json", "answers.jsonl"]
    environment = {"TF_CPP_MIN_LOG_LEVEL": "2"} | dict(os.environ) | pass_environment("memory", device, None)
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**environment, MARK: token},
            start_new_session=True,  # the terminal's Ctrl-C is for this process to act on
        )
        try:
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return f"was not done after {timeout_s:.0f} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            kill_marked(token)
    return (
        None if status == 0 else f"ended with exit code {status}" if status > 0 else f"was killed by signal {-status}"
    )
