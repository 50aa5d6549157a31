"""Puts a probe together: every GPU, CUDA's numbering over them, and the warnings that follow."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from autotune.core.gpu import GpuInfo, MigInfo, ProbeReport
from autotune.core.host import HostInfo
from autotune.probe.catalogue import Catalogue
from autotune.probe.cuda_order import ask_cuda, match_uuids
from autotune.probe.device import lost_gpu, read_gpu, with_reasons
from autotune.probe.fields import Surroundings
from autotune.probe.host import read_host
from autotune.probe.reader import LIB_RM_VERSION_MISMATCH, LIBRARY_NOT_FOUND, NvmlFailure, NvmlReader, SystemQuery
from autotune.probe.recorded import RecordedReader, Recording
from autotune.probe.visible import Enumeration, Physical, Slice, enumerate_devices, visible_uuids
from autotune.probe.warnings import find_warnings

# Inode of the kernel's first PID namespace (PROC_PID_INIT_INO); any other means that NVML's host PIDs are not ours.
_FIRST_PID_NAMESPACE = "pid:[4026531836]"

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_ORDER = "CUDA_DEVICE_ORDER"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Where a probe gets its facts: the real machine, or a recorded one.

    Attributes:
        open_reader: starts NVML.
        read_host: reads CPU and host memory.
        environment: variables that CUDA and TensorFlow heed.
        ask_cuda: CUDA's own numbering as UUIDs, or None where it cannot be asked.
        pids_are_local: NVML's process numbers are those of this machine.
    """

    open_reader: Callable[[], NvmlReader]
    read_host: Callable[[], HostInfo]
    environment: Mapping[str, str]
    ask_cuda: Callable[[Mapping[str, str]], tuple[str, ...] | None]
    pids_are_local: bool


def this_machine(environment: Mapping[str, str]) -> Machine:
    """The machine we run on."""
    from autotune.probe.nvml import PynvmlReader

    return Machine(
        open_reader=PynvmlReader,
        read_host=read_host,
        environment=environment,
        ask_cuda=ask_cuda,
        pids_are_local=_in_first_pid_namespace(),
    )


def recorded_machine(recording: Recording) -> Machine:
    """A machine from a file; its own environment holds, not ours."""
    order = recording.cuda_order
    answer = None if order is None else tuple(uuid.partition("-")[2].replace("-", "").lower() for uuid in order)
    return Machine(
        open_reader=lambda: RecordedReader(recording),
        read_host=recording.host.info,
        environment=recording.environment,
        ask_cuda=lambda _: answer,
        pids_are_local=False,
    )


def take_report(machine: Machine, catalogue: Catalogue) -> ProbeReport:
    """Starts NVML, reads everything, and ends it. A driver problem is a report with a warning, not an error."""
    with ReportStream(machine, catalogue) as stream:
        return stream.read()


class ReportStream:
    """Reports one after the other through one NVML session, which is started again after it failed to start."""

    def __init__(self, machine: Machine, catalogue: Catalogue) -> None:
        self._machine = machine
        self._catalogue = catalogue
        self._reader: NvmlReader | None = None

    def read(self) -> ProbeReport:
        """Reads everything once."""
        if self._reader is None:
            try:
                self._reader = self._machine.open_reader()
            except NvmlFailure as failure:
                return without_driver(self._machine, failure)
        return read_report(self._reader, self._machine, self._catalogue)

    def __enter__(self) -> ReportStream:
        return self

    def __exit__(self, *_: object) -> None:
        if self._reader is not None:
            with contextlib.suppress(NvmlFailure):  # everything was read: failing to say goodbye changes nothing
                self._reader.close()


def without_driver(machine: Machine, failure: NvmlFailure) -> ProbeReport:
    """The report where NVML does not start."""
    missing = dict.fromkeys(("driver_version", "cuda_version"), failure.reason)
    return ProbeReport(warnings=(_start_problem(failure),), not_available=missing, host=machine.read_host())


def read_report(reader: NvmlReader, machine: Machine, catalogue: Catalogue) -> ProbeReport:
    """Reads everything through an open session."""
    host = machine.read_host()
    around = Surroundings(
        environment=machine.environment, host=host, catalogue=catalogue, pids_are_local=machine.pids_are_local
    )
    missing: dict[str, str] = {}

    def fact(what: SystemQuery) -> str | None:
        try:
            value = reader.system(what)
        except NvmlFailure as failure:
            missing[what] = failure.reason
            return None
        return f"{value // 1000}.{value % 1000 // 10}" if what == "cuda_version" else str(value)

    driver, cuda = fact("driver_version"), fact("cuda_version")
    try:
        count = reader.device_count()
    except NvmlFailure as failure:
        missing["gpus"] = failure.reason
        count = 0
    gpus = [_read_one(reader, index, around) for index in range(count)]
    numbered, doubt = _number(gpus, machine)
    report = ProbeReport(driver_version=driver, cuda_version=cuda, gpus=numbered, not_available=missing, host=host)
    return dataclasses.replace(report, warnings=find_warnings(report, machine.environment.get(_VISIBLE), doubt))


def _read_one(reader: NvmlReader, index: int, around: Surroundings) -> GpuInfo:
    try:
        handle = reader.device(index)
    except NvmlFailure as failure:
        return lost_gpu(index, failure)
    return read_gpu(reader, handle, index, around)


def _number(gpus: list[GpuInfo], machine: Machine) -> tuple[tuple[GpuInfo, ...], str | None]:
    """Gives GPUs and slices their CUDA ordinals, and says why some could not be told."""
    enumeration = enumerate_devices([_physical(g) for g in gpus], machine.environment.get(_ORDER))
    visible = machine.environment.get(_VISIBLE)
    uuids = visible_uuids(enumeration, visible)
    if None in uuids:
        answer = machine.ask_cuda(machine.environment)
        if answer is not None:
            uuids = match_uuids(answer, _all_uuids(gpus))
    doubt = enumeration.doubt if None in uuids else None
    ordinals = {uuid: ordinal for ordinal, uuid in enumerate(uuids) if uuid is not None}
    return tuple(_with_ordinal(g, ordinals, doubt, enumeration, visible) for g in gpus), doubt


def _with_ordinal(
    gpu: GpuInfo, ordinals: dict[str, int], doubt: str | None, enumeration: Enumeration, visible: str | None
) -> GpuInfo:
    if gpu.lost:
        return gpu
    why = doubt or (f"hidden by {_VISIBLE}={visible}" if visible is not None else "not one of the GPUs CUDA numbers")
    if gpu.mig is not None and gpu.mig.enabled:
        only = "CUDA uses one MIG slice per process" if visible is None else f"not the slice that {_VISIBLE} leaves"
        slices = tuple(_number_slice(s, ordinals, only) for s in gpu.mig.slices)
        gpu = dataclasses.replace(gpu, mig=dataclasses.replace(gpu.mig, slices=slices))
        why = "MIG is on: CUDA numbers the slice, not the GPU"
    elif visible is None and any(d.mig_enabled and d.slices for d in enumeration.devices):
        why = "CUDA numbers no other GPU beside a MIG slice; set CUDA_VISIBLE_DEVICES to this GPU"
    ordinal = ordinals.get(gpu.uuid or "")
    if ordinal is not None:
        return dataclasses.replace(gpu, cuda_index=ordinal)
    return with_reasons(dataclasses.replace(gpu, not_available={**gpu.not_available, "cuda_index": why}), why)


def _number_slice(part: MigInfo, ordinals: dict[str, int], why: str) -> MigInfo:
    ordinal = ordinals.get(part.uuid or "")
    if ordinal is not None:
        return dataclasses.replace(part, cuda_index=ordinal)
    return dataclasses.replace(part, not_available={**part.not_available, "cuda_index": why})


def _physical(gpu: GpuInfo) -> Physical:
    slices = gpu.mig.slices if gpu.mig is not None else ()
    return Physical(
        uuid=gpu.uuid,
        model=gpu.name,
        pci_bus_id=gpu.pci_bus_id,
        mig_enabled=gpu.mig is not None and gpu.mig.enabled,
        slices=tuple(
            Slice(uuid=s.uuid, legacy=f"MIG-{gpu.uuid}/{s.gpu_instance_id}/{s.compute_instance_id}")
            for s in slices
            if s.uuid
        ),
    )


def _all_uuids(gpus: list[GpuInfo]) -> list[str]:
    slices = [s.uuid for g in gpus if g.mig is not None for s in g.mig.slices]
    return [uuid for uuid in (*(g.uuid for g in gpus), *slices) if uuid]


def _start_problem(failure: NvmlFailure) -> str:
    if failure.code == LIBRARY_NOT_FOUND:
        return "No NVIDIA driver here: libnvidia-ml.so.1 is not installed, so there is no GPU to use."
    if failure.code == LIB_RM_VERSION_MISMATCH:
        return (
            "The NVIDIA driver and its library have different versions, most likely after an update: restart the "
            "machine (or reload the driver); no GPU can be used until then."
        )
    return f"The NVIDIA driver cannot be asked: {failure.reason}; no GPU can be used."


def _in_first_pid_namespace() -> bool:
    try:
        return str(Path("/proc/self/ns/pid").readlink()) == _FIRST_PID_NAMESPACE
    except OSError:
        return False
