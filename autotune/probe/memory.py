"""Memory of one device: the v2 call, v1 where v2 fails, the host's where GPU and CPU share one memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from autotune.core.gpu import MemorySource
from autotune.core.host import HostInfo
from autotune.probe.reader import NOT_SUPPORTED, Handle, MemoryReading, NvmlFailure, NvmlReader, Query

# Integrated GPUs (Jetson TX1 to Thor, GB10): their memory is the host's, whatever NVML answers. On GB10 it fails with
# some drivers and misleads with others (nvitop PR 208, dra-driver-nvidia-gpu #1073).
_UNIFIED = frozenset({(5, 3), (6, 2), (7, 2), (8, 7), (11, 0), (12, 1)})
_RESERVED_UNKNOWN = "only the older NVML call answers: what the driver reserves is counted in memory_used_bytes"
_UNIFIED_RESERVED = "unified memory: GPU and CPU share the host's"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMemory:
    """Memory figures in bytes, or the reasons why there are none."""

    total: int | None = None
    reserved: int | None = None
    used: int | None = None
    free: int | None = None
    source: MemorySource | None = None
    reasons: dict[str, str] = field(default_factory=dict)


def read_memory(
    reader: NvmlReader, handle: Handle, *, capability: tuple[int, int] | None, host: HostInfo, mig_parent: bool = False
) -> DeviceMemory:
    """Reads a GPU's or slice's memory. A failed v2 call of any kind is tried again as v1 (WSL2: nvitop PR 30)."""
    if capability in _UNIFIED:
        return _host_memory(host)
    failure: NvmlFailure | None = None
    queries: tuple[tuple[Query, MemorySource], ...] = (("memory_v2", "nvml_v2"), ("memory_v1", "nvml_v1"))
    for query, source in queries:
        try:
            reading: MemoryReading = reader.query(handle, query)
        except NvmlFailure as caught:
            failure = caught
            continue
        failure = None
        if reading.total > 0:
            return DeviceMemory(
                total=reading.total,
                reserved=reading.reserved,
                used=reading.used,
                free=reading.free,
                source=source,
                reasons={} if reading.reserved is not None else {"memory_reserved_bytes": _RESERVED_UNKNOWN},
            )
    # "Not supported", or a success with nothing but zeros, is how unified memory shows itself (nvtop PR 411).
    if failure is None or (failure.code == NOT_SUPPORTED and not mig_parent):
        return _host_memory(host)
    reason = failure.reason + (": MIG parent" if mig_parent else "")
    names = ("memory_total_bytes", "memory_reserved_bytes", "memory_used_bytes", "memory_free_bytes", "memory_source")
    return DeviceMemory(reasons=dict.fromkeys(names, reason))


def _host_memory(host: HostInfo) -> DeviceMemory:
    return DeviceMemory(
        total=host.memory_total_bytes,
        used=host.memory_total_bytes - host.memory_available_bytes,
        free=host.memory_available_bytes,
        source="host",
        reasons={"memory_reserved_bytes": _UNIFIED_RESERVED},
    )
