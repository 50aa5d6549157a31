"""What a GPU offers, as read through NVML: the values behind ``autotune probe``.

A field that could not be read is None, and ``not_available`` says why: never 0, never a guess. The field names are the
keys of ``autotune probe --json``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from autotune.core.host import HostInfo

PROBE_SCHEMA_VERSION = 1

MemorySource = Literal["nvml_v2", "nvml_v1", "host"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorCores:
    """The Tensor Core verdict.

    Attributes:
        present: None where the compute capability could not be read.
        generation: the GPU's architecture (``Volta`` ... ``Blackwell``), with or without Tensor Cores.
        dtypes: input types they multiply, spelled ``float16``, ``bfloat16``, ``tf32``, ``float8``, ``int8``.
    """

    present: bool | None = None
    generation: str | None = None
    dtypes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UsableMemory:
    """How the usable memory of a new TensorFlow process comes about: ``free - context - reserve``.

    Attributes:
        free_bytes: free now.
        cuda_context_bytes: estimate of what CUDA takes for one process.
        cuda_context_source: where that figure is from.
        tensorflow_reserve_bytes: what TensorFlow leaves to the system.
        tensorflow_reserve_source: where that figure is from.
    """

    free_bytes: int
    cuda_context_bytes: int
    cuda_context_source: str
    tensorflow_reserve_bytes: int
    tensorflow_reserve_source: str

    @property
    def usable_bytes(self) -> int:
        """Bytes a new process may allocate; 0 on a full GPU."""
        return max(0, self.free_bytes - self.cuda_context_bytes - self.tensorflow_reserve_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProcess:
    """A process that uses the GPU.

    Attributes:
        pid: as NVML gives it: in a container that is the host's number.
        name: None where the number cannot be matched to a process here.
        memory_bytes: None where the driver does not say (WSL2, WDDM).
        kind: ``compute`` or ``graphics``.
    """

    pid: int
    name: str | None = None
    memory_bytes: int | None = None
    kind: Literal["compute", "graphics"] = "compute"


@dataclass(frozen=True, slots=True, kw_only=True)
class PcieLink:
    """The PCI Express link, now and at best. At rest the generation drops to save power."""

    generation: int | None = None
    width: int | None = None
    max_generation: int | None = None
    max_width: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MigInfo:
    """One MIG slice: a CUDA device of its own, with its own memory and SMs. Fields as in :class:`GpuInfo`."""

    index: int
    cuda_index: int | None = None
    uuid: str | None = None
    name: str | None = None
    gpu_instance_id: int | None = None
    compute_instance_id: int | None = None
    memory_total_bytes: int | None = None
    memory_reserved_bytes: int | None = None
    memory_used_bytes: int | None = None
    memory_free_bytes: int | None = None
    memory_usable_bytes: int | None = None
    memory_usable_from: UsableMemory | None = None
    multiprocessors: int | None = None
    not_available: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mig:
    """MIG mode and the slices that exist.

    Attributes:
        enabled: in force now.
        pending: in force after the next reset.
        slices: empty where MIG is off, or on without instances.
    """

    enabled: bool
    pending: bool
    slices: tuple[MigInfo, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuInfo:
    """One GPU as NVML shows it.

    Attributes:
        index: NVML's index; not CUDA's.
        cuda_index: CUDA's ordinal (TensorFlow's ``GPU:N``) under the environment's ``CUDA_VISIBLE_DEVICES``; None where
            CUDA does not see the GPU itself (hidden, lost, or split by MIG).
        uuid: the name to key by: it survives reboots and reordering.
        memory_used_bytes: without the reserved part from the v2 call, with it from v1 (see ``memory_source``).
        memory_usable_bytes: what a new TensorFlow process may allocate now; made up as ``memory_usable_from`` says.
        memory_source: ``nvml_v2``, ``nvml_v1``, or ``host`` on unified-memory systems.
        compute_capability: such as ``8.0``.
        advised_policy: Keras dtype policy to try first, and ``advised_because`` why.
        supported_policies: Keras dtype policies the hardware runs at speed.
        batch_alignment: multiple that micro-batches should prefer.
        width_alignment: multiple that layer widths should prefer.
        multiprocessors: SM count, from the core count or the catalogue.
        processes: those NVML lists, other than this one.
        throttle_reasons: what holds the clocks below their limit, empty at full speed.
        catalogue_id: the board's id in the GPU catalogue.
        not_available: field name to reason, for every field above that is None.
    """

    index: int
    cuda_index: int | None = None
    uuid: str | None = None
    name: str | None = None
    pci_bus_id: str | None = None
    memory_total_bytes: int | None = None
    memory_reserved_bytes: int | None = None
    memory_used_bytes: int | None = None
    memory_free_bytes: int | None = None
    memory_usable_bytes: int | None = None
    memory_usable_from: UsableMemory | None = None
    memory_source: MemorySource | None = None
    compute_capability: str | None = None
    tensor_cores: TensorCores = TensorCores()
    advised_policy: str | None = None
    advised_because: str | None = None
    supported_policies: tuple[str, ...] | None = None
    batch_alignment: int | None = None
    width_alignment: int | None = None
    multiprocessors: int | None = None
    mig: Mig | None = None
    processes: tuple[GpuProcess, ...] | None = None
    ecc_enabled: bool | None = None
    power_limit_w: float | None = None
    power_draw_w: float | None = None
    clock_sm_mhz: int | None = None
    clock_sm_max_mhz: int | None = None
    clock_memory_mhz: int | None = None
    clock_memory_max_mhz: int | None = None
    throttle_reasons: tuple[str, ...] | None = None
    temperature_c: int | None = None
    utilization_percent: int | None = None
    pcie: PcieLink | None = None
    compute_mode: str | None = None
    catalogue_id: str | None = None
    not_available: Mapping[str, str] = field(default_factory=dict)

    @property
    def lost(self) -> bool:
        """True where the driver lists the GPU but gives no access to it."""
        return "device" in self.not_available


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeReport:
    """Everything ``autotune probe`` found.

    Attributes:
        driver_version: None without a working driver.
        cuda_version: highest CUDA version the driver supports, such as ``12.4``.
        gpus: every GPU NVML lists, hidden ones included.
        warnings: sentences for people; a driver problem is one of them.
        not_available: reason by field, as in :class:`GpuInfo`.
        host: CPU and host memory.
    """

    schema_version: int = PROBE_SCHEMA_VERSION
    driver_version: str | None = None
    cuda_version: str | None = None
    gpus: tuple[GpuInfo, ...] = ()
    warnings: tuple[str, ...] = ()
    not_available: Mapping[str, str] = field(default_factory=dict)
    host: HostInfo
