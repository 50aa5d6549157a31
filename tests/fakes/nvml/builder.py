"""Builds the C libraries beside this file, and writes recorded machines as the text they read."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from autotune.probe.recorded import RecordedDevice, Recording

_SOURCES = Path(__file__).parent
_MIB = 2**20


class NoCompilerError(RuntimeError):
    """The tests of NVML need a C compiler."""


@dataclass(frozen=True)
class FakeMachine:
    """A folder with libraries and text: set ``environment`` before a process starts, and it sees that machine."""

    folder: Path
    text: Path
    environment: dict[str, str]

    def rewrite(self, recording: Recording, *more: bytes) -> None:
        """Lets time pass: running processes see the new readings at their next call."""
        fresh = self.text.with_suffix(".new")
        fresh.write_bytes(machine_text(recording, *more))
        os.replace(fresh, self.text)


def compiler() -> str:
    """Returns the system's C compiler.

    Raises:
        NoCompilerError: there is none.
    """
    for name in ("cc", "gcc", "clang"):
        found = shutil.which(name)
        if found:
            return found
    raise NoCompilerError("tests/probe builds a stand-in for NVIDIA's library: install a C compiler (cc, gcc or clang)")


def build_libraries(folder: Path, without: list[str] | None = None, *, cuda: bool = True) -> Path:
    """Builds ``libnvidia-ml.so.1`` (less the functions of an older driver) and ``libcuda.so.1`` into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    # A version script hides functions, so that one source stands for drivers of every age.
    script = folder / "exports.map"
    script.write_text("{ global: nvml*; local: " + " ".join(f"{name};" for name in without or ["unused"]) + " };\n")
    common = [compiler(), "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"]
    nvml = [*common, "-Wl,-soname,libnvidia-ml.so.1", f"-Wl,--version-script={script}"]
    subprocess.run([*nvml, "-o", folder / "libnvidia-ml.so.1", _SOURCES / "fake_nvml.c"], check=True)
    if cuda:
        soname = "-Wl,-soname,libcuda.so.1"
        subprocess.run([*common, soname, "-o", folder / "libcuda.so.1", _SOURCES / "fake_cuda.c"], check=True)
    return folder


def machine_text(recording: Recording, *more: bytes) -> bytes:
    """Returns a recorded machine as the libraries read it; ``more`` lines come first, and so win."""
    lines = [*more]

    def line(scope: str, key: str, value: object) -> None:
        lines.append(f"{scope} {key} {value}".encode())

    line("sys", "init_error", recording.init_error)
    line("sys", "count", len(recording.gpu))
    for name in ("driver_version", "nvml_version", "cuda_version"):
        if getattr(recording, name) is not None:
            line("sys", name, getattr(recording, name))
    for uuid in recording.cuda_order or []:
        line("sys", "cuda", uuid.partition("-")[2].replace("-", ""))
    for index, gpu in enumerate(recording.gpu):
        if gpu.handle_error:
            line(str(index), "error.handle", gpu.handle_error)
        _device(line, str(index), gpu)
        for place, part in enumerate(gpu.slices):
            line(f"{index}.{place}", "slice", 1)
            _device(line, f"{index}.{place}", part)
    return b"\n".join(lines) + b"\n"


def _device(line, scope: str, device: RecordedDevice) -> None:
    for query, code in device.errors.items():
        line(scope, f"error.{query}", code)
    for name in ("name", "uuid", "pci_bus_id"):
        if getattr(device, name) is not None:
            line(scope, name, getattr(device, name))
    if device.memory is not None:
        memory = device.memory
        sizes = (memory.total_mib, memory.reserved_mib, memory.used_mib)
        line(scope, "memory", " ".join(str(mib * _MIB) for mib in sizes))
    for query, value in device.values.items():
        line(scope, query, " ".join(map(str, value)) if isinstance(value, list) else value)
    if device.processes is not None:
        line(scope, "processes", 1)
        for process in device.processes:
            held = -1 if process.memory_mib is None else process.memory_mib * _MIB
            line(scope, f"{process.kind}_processes", f"{process.pid} {held}")
