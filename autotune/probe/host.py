"""Host memory and CPUs, as this process may use them: ``/proc`` and the cgroup limits of containers (v1 and v2)."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from autotune.core.host import HostInfo

_UNLIMITED = 2**60  # v1 writes a huge number for "no limit"


@dataclass(frozen=True, slots=True)
class _CgroupFiles:
    """Where one cgroup version keeps its memory figures; ``reclaimable`` is page cache the kernel gives back."""

    controller: str
    mounts: tuple[str, ...]
    limit: str
    usage: str
    reclaimable: str


_V2 = _CgroupFiles("", ("sys/fs/cgroup", "sys/fs/cgroup/unified"), "memory.max", "memory.current", "inactive_file")
_V1 = _CgroupFiles(
    "memory", ("sys/fs/cgroup/memory",), "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
)


def read_host(root: Path = Path("/")) -> HostInfo:
    """Reads the host.

    Args:
        root: folder that holds ``proc`` and ``sys``.
    """
    total, available = _meminfo(root)
    source = "/proc/meminfo"
    for limit, free, where in _cgroup_limits(root):
        total = min(total, limit)
        if free < available:
            available, source = free, where
    return HostInfo(
        memory_total_bytes=total,
        memory_available_bytes=available,
        memory_source=source,
        cpu=_cpu_model(root),
        cpu_cores=_cores(root),
    )


def _meminfo(root: Path) -> tuple[int, int]:
    values = {}
    for line in _text(root / "proc/meminfo").splitlines():
        name, _, rest = line.partition(":")
        if rest.split():
            values[name] = int(rest.split()[0]) * 1024
    total = values.get("MemTotal", 0)
    return total, values.get("MemAvailable", values.get("MemFree", total))


def _cgroup_limits(root: Path) -> Iterator[tuple[int, int, str]]:
    """Yields (limit, left of it, file) for every limited group this process is in, from its own up to the root."""
    for files in (_V2, _V1):
        for folder in _group_folders(root, files):
            limit = _number(folder / files.limit)
            if limit is None or limit >= _UNLIMITED:
                continue
            used = (_number(folder / files.usage) or 0) - _stat(folder / "memory.stat", files.reclaimable)
            yield limit, max(0, limit - max(0, used)), "/" + str((folder / files.limit).relative_to(root))


def _group_folders(root: Path, files: _CgroupFiles) -> Iterator[Path]:
    path = _own_group(root, files.controller)
    if path is None:
        return
    for mount in files.mounts:
        # A container sees its own group at the mount's root, whatever path the kernel names.
        inner = PurePosixPath(path.lstrip("/"))
        for part in (inner, *inner.parents):
            folder = root / mount / part
            if (folder / files.limit).is_file():
                yield folder


def _own_group(root: Path, controller: str) -> str | None:
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == controller or (controller and controller in controllers.split(",")):
            return path
    return None


def _cores(root: Path) -> int:
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    for quota, period in _cpu_quotas(root):
        allowed = min(allowed, max(1, math.ceil(quota / period)))
    return allowed


def _cpu_quotas(root: Path) -> Iterator[tuple[int, int]]:
    fields = _text(root / "sys/fs/cgroup/cpu.max").split()
    if len(fields) == 2 and fields[0].isdigit():
        yield int(fields[0]), int(fields[1])
    quota = _number(root / "sys/fs/cgroup/cpu/cpu.cfs_quota_us")
    period = _number(root / "sys/fs/cgroup/cpu/cpu.cfs_period_us")
    if quota and period and quota > 0:
        yield quota, period


def _cpu_model(root: Path) -> str | None:
    for line in _text(root / "proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model", "Hardware") and value.strip():
            return value.strip()
    return None


def _stat(path: Path, key: str) -> int:
    for line in _text(path).splitlines():
        name, _, value = line.partition(" ")
        if name == key:
            return int(value)
    return 0


def _number(path: Path) -> int | None:
    try:
        return int(_text(path).strip())
    except ValueError:  # "max", or no such file
        return None


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
