"""Asks CUDA itself which GPUs it numbers, in a child process that ends at once.

Only where the environment leaves doubt (different GPUs without ``CUDA_DEVICE_ORDER``, a lost GPU): starting CUDA costs
far more than NVML does. The child creates no context. Run as ``python -m autotune.probe.cuda_order``.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping

_TIMEOUT_S = 20.0
_UUID_BYTES = 16


def ask_cuda(environment: Mapping[str, str]) -> tuple[str, ...] | None:
    """Returns the UUID (32 hex digits) behind each CUDA ordinal, or None where CUDA cannot be asked."""
    command = [sys.executable, "-m", "autotune.probe.cuda_order"]
    try:
        done = subprocess.run(
            command, env=dict(environment), capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
        answer = json.loads(done.stdout) if done.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return tuple(answer) if isinstance(answer, list) else None


def match_uuids(answer: Iterable[str], known: Iterable[str]) -> tuple[str | None, ...]:
    """Returns NVML's spelling of each UUID that CUDA gave; None for one that NVML does not list."""
    by_digits = {hex_digits(uuid): uuid for uuid in known}
    return tuple(by_digits.get(digits) for digits in answer)


def hex_digits(uuid: str) -> str:
    """``'GPU-9942190a-aa31-...' -> '9942190aaa31...'``."""
    return uuid.partition("-")[2].replace("-", "").lower()


def _uuids() -> list[str]:
    cuda = ctypes.CDLL("libcuda.so.1")
    # _v2 gives a MIG slice's own UUID; older drivers have only the first form.
    get_uuid = getattr(cuda, "cuDeviceGetUuid_v2", None) or cuda.cuDeviceGetUuid
    count, device = ctypes.c_int(), ctypes.c_int()
    # An array of bytes: a C string would end at the first zero byte (nvitop PR 100).
    raw = (ctypes.c_ubyte * _UUID_BYTES)()
    _check(cuda.cuInit(0))
    _check(cuda.cuDeviceGetCount(ctypes.byref(count)))
    found = []
    for ordinal in range(count.value):
        _check(cuda.cuDeviceGet(ctypes.byref(device), ordinal))
        _check(get_uuid(ctypes.byref(raw), device))
        found.append(bytes(raw).hex())
    return found


def _check(code: int) -> None:
    if code:
        raise OSError(f"CUDA error {code}")


if __name__ == "__main__":
    try:
        print(json.dumps(_uuids()))
    except (OSError, AttributeError) as error:
        sys.exit(str(error))
