"""Environment variables of a pass. Pure; set in the child after the fork, before anything of the user's is loaded."""

from __future__ import annotations

from autotune.core.trial import Device, PassKind

_MIB = 1 << 20


def pass_environment(
    kind: PassKind, device: Device, limit_bytes: int | None, visible: str | None = None
) -> dict[str, str]:
    """Returns the variables for one pass.

    Args:
        kind: the pass.
        device: where it runs; a CPU trial sees no GPU at all.
        limit_bytes: the memory limit of a memory pass on the CPU (a GPU's is set through TensorFlow's interface).
        visible: the tuner's own CUDA_VISIBLE_DEVICES, which ``device.cuda_index`` counts in.
    """
    if device.kind == "gpu":
        return {"CUDA_VISIBLE_DEVICES": _gpu(device, visible)}
    variables = {"CUDA_VISIBLE_DEVICES": ""}
    if kind == "memory":
        variables["TF_CPU_ALLOCATOR_USE_BFC"] = "1"
        if limit_bytes is not None:
            variables["TF_CPU_BFC_MEM_LIMIT_IN_MB"] = str(max(1, limit_bytes // _MIB))
    return variables


def _gpu(device: Device, visible: str | None) -> str:
    if device.uuid:
        return device.uuid
    index = device.cuda_index or 0
    listed = [entry.strip() for entry in (visible or "").split(",") if entry.strip()]
    return listed[index] if index < len(listed) else str(index)
