from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from autotune.probe.recorded import Recording, load_recording
from tests.fakes.nvml.builder import FakeMachine, build_libraries, machine_text

MachineFactory = Callable[..., FakeMachine]


@pytest.fixture(scope="session")
def libraries(tmp_path_factory) -> Callable[[tuple[str, ...]], Path]:
    """Builds the stand-in libraries once for each set of missing functions."""
    built: dict[tuple[str, ...], Path] = {}

    def folder(without: tuple[str, ...]) -> Path:
        if without not in built:
            built[without] = build_libraries(tmp_path_factory.mktemp("nvml"), list(without))
        return built[without]

    return folder


@pytest.fixture
def machine(libraries, tmp_path) -> MachineFactory:
    """Makes a machine that real child processes see through the real pynvml."""

    def make(recording: Recording | str, *more: bytes, environment: dict[str, str] | None = None) -> FakeMachine:
        recording = load_recording(recording) if isinstance(recording, str) else recording
        text = tmp_path / "machine.txt"
        text.write_bytes(machine_text(recording, *more))
        variables = clean_environment() | {"FAKE_NVML_FILE": str(text)} | recording.environment | (environment or {})
        if recording.library:
            variables["LD_LIBRARY_PATH"] = str(libraries(tuple(recording.without)))
        return FakeMachine(tmp_path, text, variables)

    return make


def clean_environment() -> dict[str, str]:
    """This process's environment without what would change a probe."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("CUDA_", "TF_", "LD_LIBRARY", "NVIDIA_"))}


def run_cli(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Runs ``autotune`` in a process of its own."""
    command = [sys.executable, "-m", "autotune", *arguments]
    return subprocess.run(
        command, env=environment or clean_environment(), capture_output=True, text=True, timeout=60, check=False
    )


def probe_json(environment: dict[str, str]) -> dict:
    """Returns what ``autotune probe --json`` prints on a machine; it must end well and say nothing on stderr."""
    done = run_cli("probe", "--json", environment=environment)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def assert_absent_is_named(report: dict) -> None:
    """Every null has its reason, and every reason its null."""
    for entry in [report, *report["gpus"], *(s for g in report["gpus"] if g["mig"] for s in g["mig"]["slices"])]:
        nulls = {key for key, value in entry.items() if value is None}
        if "tensor_cores" in entry and entry["tensor_cores"]["present"] is None:
            nulls.add("tensor_cores")
        named = set(entry["not_available"]) - {"device", "gpus"}
        assert nulls == named
        assert all(entry["not_available"].values())
