"""Reads one GPU, field by field; what cannot be read is left out with its reason, and hides nothing else."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from autotune.core.gpu import GpuInfo, GpuProcess, PcieLink, TensorCores
from autotune.probe import tensor_cores
from autotune.probe.fields import Fields, Surroundings
from autotune.probe.memory import read_memory
from autotune.probe.mig import read_mig
from autotune.probe.reader import Handle, NvmlFailure, NvmlReader, ProcessReading
from autotune.probe.throttle import throttle_names

# CUDA cores of one SM, by compute capability; any other from 8.6 on has 128.
_CORES_PER_SM = {(5, 0): 128, (5, 2): 128, (5, 3): 128, (6, 0): 64, (6, 1): 128, (6, 2): 128}
_CORES_PER_SM |= {(7, 0): 64, (7, 2): 64, (7, 5): 64, (8, 0): 64}
_COMPUTE_MODES = {0: "default", 1: "exclusive_thread", 2: "prohibited", 3: "exclusive_process"}
_MIG_ON = "MIG is on: a process uses one of its slices"


def lost_gpu(index: int, failure: NvmlFailure) -> GpuInfo:
    """A GPU that the driver lists and gives no access to."""
    return with_reasons(GpuInfo(index=index, not_available={"device": failure.reason}), failure.reason)


def read_gpu(reader: NvmlReader, handle: Handle, index: int, around: Surroundings) -> GpuInfo:
    """Reads everything about one GPU but its place in CUDA's numbering."""
    fields = Fields(reader, handle)
    name = fields.read("name", "name")
    capability = fields.read("compute_capability", "compute_capability")
    mig = read_mig(fields, capability, around)
    mig_parent = mig is not None and mig.enabled
    memory = read_memory(reader, handle, capability=capability, host=around.host, mig_parent=mig_parent)
    fields.missing.update(memory.reasons)
    spec = around.catalogue.match(name, memory.total) if name else None
    multiprocessors = _multiprocessors(fields, capability, spec.sm_count if spec else None)
    parts = None if mig_parent else fields.usable(memory, capability, multiprocessors, around.environment)
    if mig_parent:
        fields.missing |= {"memory_usable_bytes": _MIG_ON, "memory_usable_from": _MIG_ON}
    info = GpuInfo(
        index=index,
        uuid=fields.read("uuid", "uuid"),
        name=name,
        pci_bus_id=fields.read("pci_bus_id", "pci_bus_id"),
        memory_total_bytes=memory.total,
        memory_reserved_bytes=memory.reserved,
        memory_used_bytes=memory.used,
        memory_free_bytes=memory.free,
        memory_usable_bytes=parts.usable_bytes if parts else None,
        memory_usable_from=parts,
        memory_source=memory.source,
        compute_capability=f"{capability[0]}.{capability[1]}" if capability else None,
        multiprocessors=multiprocessors,
        mig=mig,
        processes=_processes(fields, around.pids_are_local),
        ecc_enabled=fields.read("ecc_enabled", "ecc_mode", lambda mode: bool(mode[0])),
        power_limit_w=fields.read("power_limit_w", "power_limit_mw", lambda mw: mw / 1000),
        power_draw_w=fields.read("power_draw_w", "power_draw_mw", lambda mw: mw / 1000),
        clock_sm_mhz=fields.read("clock_sm_mhz", "clock_sm_mhz"),
        clock_sm_max_mhz=fields.read("clock_sm_max_mhz", "clock_sm_max_mhz"),
        clock_memory_mhz=fields.read("clock_memory_mhz", "clock_memory_mhz"),
        clock_memory_max_mhz=fields.read("clock_memory_max_mhz", "clock_memory_max_mhz"),
        throttle_reasons=fields.read("throttle_reasons", "throttle_bits", throttle_names),
        temperature_c=fields.read("temperature_c", "temperature_c"),
        utilization_percent=fields.read("utilization_percent", "utilization_percent"),
        pcie=_pcie(fields),
        compute_mode=fields.read("compute_mode", "compute_mode", lambda mode: _COMPUTE_MODES.get(mode, f"mode {mode}")),
        catalogue_id=spec.id if spec else None,
        not_available=fields.missing,
    )
    return _with_verdict(info, capability)


def with_reasons(info: GpuInfo, reason: str) -> GpuInfo:
    """Names every field that is None and has no reason yet."""
    missing = dict(info.not_available)
    for f in dataclasses.fields(info):
        if getattr(info, f.name) is None:
            missing.setdefault(f.name, reason)
    if info.tensor_cores.present is None:
        missing.setdefault("tensor_cores", reason)
    return dataclasses.replace(info, not_available=missing)


def _with_verdict(info: GpuInfo, capability: tuple[int, int] | None) -> GpuInfo:
    cores: TensorCores = tensor_cores.verdict(capability, info.name)
    advice = tensor_cores.advise(capability, cores)
    missing = dict(info.not_available)
    if cores.present is None:
        missing["tensor_cores"] = (
            missing.get("compute_capability") or "at 7.5 only the name tells, and it is unreadable"
        )
    if info.catalogue_id is None:
        missing["catalogue_id"] = "this board is not in the GPU catalogue (autotune probe --catalogue)"
    if advice is None:
        for name in ("advised_policy", "advised_because", "supported_policies", "batch_alignment", "width_alignment"):
            missing[name] = missing["compute_capability"]
        return dataclasses.replace(info, tensor_cores=cores, not_available=missing)
    return dataclasses.replace(
        info,
        tensor_cores=cores,
        advised_policy=advice.policy,
        advised_because=advice.because,
        supported_policies=advice.supported,
        batch_alignment=advice.batch_alignment,
        width_alignment=advice.width_alignment,
        not_available=missing,
    )


def _multiprocessors(fields: Fields, capability: tuple[int, int] | None, listed: int | None) -> int | None:
    cores = fields.read("multiprocessors", "cores")
    if cores and capability:
        return int(cores) // _CORES_PER_SM.get(capability, 128)
    if listed:
        fields.missing.pop("multiprocessors", None)
    return listed


def _processes(fields: Fields, pids_are_local: bool) -> tuple[GpuProcess, ...] | None:
    found: list[GpuProcess] = []
    compute: list[ProcessReading] | None = fields.read("processes", "compute_processes")
    if compute is None:
        return None
    found += [_process(p, "compute", pids_are_local) for p in compute]
    graphics = Fields(fields.reader, fields.handle).read("processes", "graphics_processes") or []
    listed = {p.pid for p in compute}
    found += [_process(p, "graphics", pids_are_local) for p in graphics if p.pid not in listed]
    return tuple(found)


def _process(reading: ProcessReading, kind: Any, pids_are_local: bool) -> GpuProcess:
    name = None
    if pids_are_local:  # in a container, the same number is another process (nvidia-docker #1483)
        try:
            name = Path(f"/proc/{reading.pid}/comm").read_text(errors="replace").strip() or None
        except OSError:
            name = None
    return GpuProcess(pid=reading.pid, name=name, memory_bytes=reading.memory, kind=kind)


def _pcie(fields: Fields) -> PcieLink | None:
    apart = Fields(fields.reader, fields.handle)
    link = PcieLink(
        generation=apart.read("generation", "pcie_generation"),
        width=apart.read("width", "pcie_width"),
        max_generation=apart.read("max_generation", "pcie_max_generation"),
        max_width=apart.read("max_width", "pcie_max_width"),
    )
    if len(apart.missing) == 4:
        fields.missing["pcie"] = apart.missing["generation"]
        return None
    return link
