"""MIG mode and slices.

Memory, SM count and UUID come from the slice's own handle: the parent's would be the whole GPU's (vllm PR 41776).
"""

from __future__ import annotations

import dataclasses

from autotune.core.gpu import Mig, MigInfo
from autotune.probe.fields import Fields, Surroundings
from autotune.probe.memory import read_memory
from autotune.probe.reader import Handle, NvmlFailure, NvmlReader


def read_mig(fields: Fields, capability: tuple[int, int] | None, around: Surroundings) -> Mig | None:
    """Returns MIG mode and slices; None (and why) where the GPU has no MIG."""
    mode = fields.read("mig", "mig_mode")
    if mode is None:
        return None
    enabled, pending = bool(mode[0]), bool(mode[1])
    if not enabled:
        return Mig(enabled=False, pending=pending)
    slices = []
    for place in range(Fields(fields.reader, fields.handle).read("count", "mig_max_slices") or 0):
        try:
            handle = fields.reader.mig_slice(fields.handle, place)
        except NvmlFailure:  # places without an instance answer "not found"
            continue
        slices.append(_read_slice(fields.reader, handle, place, capability, around))
    return Mig(enabled=True, pending=pending, slices=tuple(slices))


def _read_slice(
    reader: NvmlReader, handle: Handle, place: int, capability: tuple[int, int] | None, around: Surroundings
) -> MigInfo:
    fields = Fields(reader, handle)
    memory = read_memory(reader, handle, capability=capability, host=around.host)
    fields.missing.update(memory.reasons)
    multiprocessors = fields.read("multiprocessors", "mig_attributes", lambda attributes: attributes[0])
    parts = fields.usable(memory, capability, multiprocessors, around.environment)
    info = MigInfo(
        index=place,
        uuid=fields.read("uuid", "uuid"),
        name=fields.read("name", "name"),
        gpu_instance_id=fields.read("gpu_instance_id", "gpu_instance_id"),
        compute_instance_id=fields.read("compute_instance_id", "compute_instance_id"),
        memory_total_bytes=memory.total,
        memory_reserved_bytes=memory.reserved,
        memory_used_bytes=memory.used,
        memory_free_bytes=memory.free,
        memory_usable_bytes=parts.usable_bytes if parts else None,
        memory_usable_from=parts,
        multiprocessors=multiprocessors,
        not_available=fields.missing,
    )
    reason = "the slice's memory could not be read"
    unnamed = [f.name for f in dataclasses.fields(info) if getattr(info, f.name) is None and f.name != "cuda_index"]
    return dataclasses.replace(info, not_available=dict.fromkeys(unnamed, reason) | fields.missing)
