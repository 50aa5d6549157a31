"""One measurement at a time on a device, over all autotune processes of a host."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from autotune.core.trial import Device
from autotune.errors import AutotuneError

_FOLDER = "autotune-locks"
_POLL_S = 0.1


def lock_path(device: Device) -> Path:
    """Returns the file that stands for a device: its UUID, else its ordinal, else the host's processors."""
    name = device.uuid or (f"gpu-{device.cuda_index}" if device.kind == "gpu" else "cpu")
    return Path(tempfile.gettempdir()) / _FOLDER / f"{name}.lock"


@contextlib.contextmanager
def device_lock(
    device: Device, *, stop_now: Callable[[], bool] = lambda: False, say: Callable[[str], None] = lambda said: None
) -> Iterator[None]:
    """Holds a device for the length of a block; waits while another process measures on it.

    The kernel releases the lock with its holder, however that ends. Child processes do not inherit it.

    Args:
        device: the device.
        stop_now: asked while waiting.
        say: told once, where there is something to wait for.

    Raises:
        KeyboardInterrupt: ``stop_now`` answered True.
        AutotuneError: the lock's file cannot be opened.
    """
    path = lock_path(device)
    handle = _open(path)
    try:
        # Whoever waits holds the place in front of the door, so that a study that runs one trial after another cannot
        # take the device again before them.
        front = _open(path.with_suffix(".next"))
        told = False
        try:
            for lock in (front, handle):
                while not _locked(lock):
                    if stop_now():
                        raise KeyboardInterrupt
                    if not told:
                        say(f"waiting: another autotune process is measuring on {device.name}")
                        told = True
                    time.sleep(_POLL_S)
        finally:
            os.close(front)
        yield
    finally:
        os.close(handle)


def _open(path: Path) -> int:
    try:
        if not path.parent.is_dir():
            path.parent.mkdir(exist_ok=True)
            path.parent.chmod(0o1777)  # whoever measures on this host shares its devices
        created = not path.exists()
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        if created:
            with contextlib.suppress(PermissionError):  # another user was faster
                os.fchmod(handle, 0o666)
        return handle
    except OSError as problem:
        raise AutotuneError(
            f"cannot lock the device with {path}: {problem.strerror}; set TMPDIR to a folder that can be written"
        ) from None


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
