"""CUDA's numbering from ``CUDA_VISIBLE_DEVICES`` and ``CUDA_DEVICE_ORDER``. Pure.

NVML lists every GPU in bus order. CUDA numbers those that ``CUDA_VISIBLE_DEVICES`` leaves, in the order written there;
the numbers *in* the variable count in CUDA's own order, which is by speed unless ``CUDA_DEVICE_ORDER=PCI_BUS_ID``.

Rules: NVIDIA's CUDA Programming Guide (environment variables) and MIG User Guide (CUDA device enumeration); corner
cases as PyTorch's ``TestVisibleDeviceParses`` records them for driver 525.60.13 (pytorch PR 92315).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_LEADING_NUMBER = re.compile(r"[+-]?\d+")
PCI_BUS_ID = "PCI_BUS_ID"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A MIG slice, by both of its names."""

    uuid: str
    legacy: str | None = None  # MIG-GPU-<uuid>/<GPU instance>/<compute instance>


@dataclass(frozen=True, slots=True, kw_only=True)
class Physical:
    """A GPU as NVML lists it: what decides its place in CUDA's numbering.

    Attributes:
        uuid: None where the GPU is lost.
        model: its name; equal names mean equal speed.
        pci_bus_id: None where unknown.
        mig_enabled: CUDA sees its slices in place of the GPU.
        slices: in NVML's order.
    """

    uuid: str | None
    model: str | None = None
    pci_bus_id: str | None = None
    mig_enabled: bool = False
    slices: tuple[Slice, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Enumeration:
    """GPUs in the order that CUDA's own numbers count them.

    Attributes:
        devices: all of them.
        certain: how many leading places are sure; a number beyond cannot be resolved without asking CUDA.
        doubt: why the rest is not sure.
    """

    devices: tuple[Physical, ...]
    certain: int
    doubt: str | None = None


def enumerate_devices(devices: Sequence[Physical], device_order: str | None) -> Enumeration:
    """Orders ``devices`` (as NVML lists them) the way CUDA does, and says how far that is sure.

    Args:
        devices: in NVML's order.
        device_order: ``CUDA_DEVICE_ORDER``; anything but ``PCI_BUS_ID`` is CUDA's default, fastest first. GPUs of one
            model tie, and ties keep bus order.
    """
    ordered = list(devices)
    if all(d.pci_bus_id for d in ordered):
        ordered.sort(key=lambda d: (d.pci_bus_id or "").lower())
    usable_models = {d.model for d in ordered if d.uuid is not None}
    if device_order != PCI_BUS_ID and (len(usable_models) > 1 or (len(ordered) > 1 and None in usable_models)):
        doubt = "CUDA numbers different GPUs by speed; set CUDA_DEVICE_ORDER=PCI_BUS_ID or choose the GPU by UUID"
        return Enumeration(devices=tuple(ordered), certain=0, doubt=doubt)
    lost = next((place for place, d in enumerate(ordered) if d.uuid is None), None)
    if lost is None:
        return Enumeration(devices=tuple(ordered), certain=len(ordered))
    doubt = "a GPU before it is lost, and CUDA's number depends on whether CUDA still counts that one; choose by UUID"
    return Enumeration(devices=tuple(ordered), certain=lost, doubt=doubt)


def visible_uuids(enumeration: Enumeration, visible: str | None) -> tuple[str | None, ...]:
    """Returns the UUID behind each CUDA ordinal; None where the ordinal is in use but by which GPU is not sure.

    Args:
        enumeration: CUDA's own order.
        visible: ``CUDA_VISIBLE_DEVICES``, or None where it is not set. Parsing ends at the first invalid entry; a
            repeated entry leaves no device visible at all.
    """
    if visible is None:
        chosen: list[int] = list(range(len(enumeration.devices)))
    elif visible.startswith("MIG-"):
        return _mig_slice(enumeration, visible)
    elif visible.startswith("GPU-"):
        names = [d.uuid or "" for d in enumeration.devices]
        chosen = _resolve(_prefixed(visible, "GPU-"), names)
        return _with_mig([enumeration.devices[i] for i in chosen])
    else:
        chosen = _ordinals(visible, len(enumeration.devices))
    if enumeration.certain == len(enumeration.devices):
        return _with_mig([enumeration.devices[i] for i in chosen])
    return _with_doubt(enumeration, chosen)


def _with_doubt(enumeration: Enumeration, chosen: list[int]) -> tuple[str | None, ...]:
    if any(d.mig_enabled for d in enumeration.devices):
        return tuple(None for _ in chosen)
    return tuple(enumeration.devices[i].uuid if i < enumeration.certain else None for i in chosen)


def _with_mig(devices: list[Physical]) -> tuple[str | None, ...]:
    """CUDA enumerates a single MIG slice, and beside it no other GPU (MIG User Guide)."""
    first = next((d.slices[0] for d in devices if d.mig_enabled and d.slices), None)
    if first is not None:
        return (first.uuid,)
    return tuple(d.uuid for d in devices if not d.mig_enabled)


def _mig_slice(enumeration: Enumeration, visible: str) -> tuple[str | None, ...]:
    slices = [s for d in enumeration.devices for s in d.slices]
    wanted = _prefixed(visible, "MIG-")
    for name in ([s.uuid for s in slices], [s.legacy or "" for s in slices]):
        found = _resolve(wanted[:1], name)
        if found:
            return (slices[found[0]].uuid,)
    return ()


def _ordinals(visible: str, count: int) -> list[int]:
    """Numbers as ``strtoul`` reads them: ``1gpu2`` is 1, ``+3`` is 3, ``one`` ends the list."""
    numbers: list[int] = []
    for entry in visible.split(","):
        match = _LEADING_NUMBER.match(entry.strip())
        number = int(match[0]) if match else -1
        if number in numbers:
            return []
        if number < 0:
            break
        numbers.append(number)
    beyond = next((place for place, number in enumerate(numbers) if number >= count), len(numbers))
    return numbers[:beyond]


def _prefixed(visible: str, prefix: str) -> list[str]:
    entries: list[str] = []
    for entry in visible.split(","):
        if entry in entries:
            return []
        if not entry.startswith(prefix):
            break
        entries.append(entry)
    return entries


def _resolve(entries: list[str], names: list[str]) -> list[int]:
    """Places of the names that each entry is the unique beginning of; ends at an unknown or ambiguous entry."""
    places: list[int] = []
    for entry in entries:
        matches = [place for place, name in enumerate(names) if name.startswith(entry)]
        if len(matches) != 1:
            break
        if matches[0] in places:
            return []
        places.append(matches[0])
    return places
