"""The machine around the GPU: what a probe says of the CPU and its memory."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HostInfo:
    """CPU and host memory as this process may use them.

    Attributes:
        memory_total_bytes: of the machine, or the tightest cgroup limit.
        memory_available_bytes: what a new process may take without swapping.
        memory_source: ``/proc/meminfo`` or the cgroup file that limits.
        cpu: model name.
        cpu_cores: logical CPUs this process may run on, after affinity and cgroup quota.
    """

    memory_total_bytes: int
    memory_available_bytes: int
    memory_source: str
    cpu: str | None = None
    cpu_cores: int
