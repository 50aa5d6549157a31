"""Answers of one device, and the reasons for those that failed: shared by GPUs and MIG slices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from autotune.core.gpu import UsableMemory
from autotune.core.host import HostInfo
from autotune.probe.catalogue import Catalogue
from autotune.probe.memory import DeviceMemory
from autotune.probe.reader import Handle, NvmlFailure, NvmlReader, Query
from autotune.probe.usable import usable_memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What reading a GPU needs besides the GPU."""

    environment: Mapping[str, str]
    host: HostInfo
    catalogue: Catalogue
    pids_are_local: bool


@dataclass(slots=True)
class Fields:
    """Answers of one device, and the reasons for those that failed."""

    reader: NvmlReader
    handle: Handle
    missing: dict[str, str] = field(default_factory=dict)

    def read(self, name: str, query: Query, convert: Callable[[Any], Any] = lambda value: value) -> Any:
        """Returns one answer in the field's own unit, or None; the reason is kept under ``name``."""
        try:
            return convert(self.reader.query(self.handle, query))
        except NvmlFailure as failure:
            self.missing[name] = failure.reason
            return None

    def usable(
        self,
        memory: DeviceMemory,
        capability: tuple[int, int] | None,
        multiprocessors: int | None,
        environment: Mapping[str, str],
    ) -> UsableMemory | None:
        """Returns the usable memory with its parts, or None (and why) where the free memory is not known."""
        if memory.free is None:
            reason = memory.reasons.get("memory_free_bytes", "the free memory could not be read")
            self.missing |= {"memory_usable_bytes": reason, "memory_usable_from": reason}
            return None
        major = capability[0] if capability else None
        return usable_memory(memory.free, cc_major=major, multiprocessors=multiprocessors, environment=environment)
