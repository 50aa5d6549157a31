from __future__ import annotations

import os
from pathlib import Path

import pytest

from autotune.probe.host import read_host

GIB = 2**30


@pytest.fixture
def root(tmp_path):
    def write(**files: str) -> Path:
        base = {
            "proc/meminfo": "MemTotal:       33554432 kB\nMemFree:         1048576 kB\nMemAvailable:   16777216 kB\n",
            "proc/cpuinfo": "processor\t: 0\nmodel name\t: Testchip 9000\n",
        }
        for name, content in (base | files).items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        return tmp_path

    return write


def test_without_limits(root):
    host = read_host(root())
    assert (host.memory_total_bytes, host.memory_available_bytes) == (32 * GIB, 16 * GIB)
    assert (host.memory_source, host.cpu) == ("/proc/meminfo", "Testchip 9000")


def test_cgroup_v2_limit_counts_reclaimable_cache_as_free(root):
    files = {
        "proc/self/cgroup": "0::/app/job\n",
        "sys/fs/cgroup/app/job/memory.max": "max\n",
        "sys/fs/cgroup/app/job/memory.current": str(2 * GIB),
        "sys/fs/cgroup/app/memory.max": str(8 * GIB),
        "sys/fs/cgroup/app/memory.current": str(5 * GIB),
        "sys/fs/cgroup/app/memory.stat": f"anon {2 * GIB}\ninactive_file {3 * GIB}\n",
    }
    host = read_host(root(**files))
    assert host.memory_total_bytes == 8 * GIB
    assert host.memory_available_bytes == 6 * GIB
    assert host.memory_source == "/sys/fs/cgroup/app/memory.max"


def test_cgroup_v2_in_a_container_sees_its_group_at_the_mount(root):
    files = {
        "proc/self/cgroup": "0::/../../docker/abc\n",
        "sys/fs/cgroup/memory.max": str(4 * GIB),
        "sys/fs/cgroup/memory.current": str(1 * GIB),
    }
    assert read_host(root(**files)).memory_available_bytes == 3 * GIB


def test_cgroup_v1(root):
    files = {
        "proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/docker/abc\n1:name=systemd:/\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": str(9223372036854771712),
        "sys/fs/cgroup/memory/memory.usage_in_bytes": str(7 * GIB),
        "sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes": str(6 * GIB),
        "sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes": str(2 * GIB),
        "sys/fs/cgroup/memory/docker/abc/memory.stat": f"cache {GIB}\ntotal_inactive_file {GIB}\n",
    }
    host = read_host(root(**files))
    assert (host.memory_total_bytes, host.memory_available_bytes) == (6 * GIB, 5 * GIB)


def test_a_limit_above_what_the_machine_has_changes_nothing(root):
    files = {
        "proc/self/cgroup": "0::/\n",
        "sys/fs/cgroup/memory.max": str(900 * GIB),
        "sys/fs/cgroup/memory.current": str(1 * GIB),
    }
    assert read_host(root(**files)).memory_available_bytes == 16 * GIB


def test_cpu_quota(root):
    assert read_host(root(**{"sys/fs/cgroup/cpu.max": "50000 100000\n"})).cpu_cores == 1
    files = {"sys/fs/cgroup/cpu.max": "max 100000\n"}
    assert read_host(root(**files)).cpu_cores == len(os.sched_getaffinity(0))


def test_this_machine():
    host = read_host()
    assert 0 < host.memory_available_bytes <= host.memory_total_bytes
    assert host.cpu_cores >= 1
