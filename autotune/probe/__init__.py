"""What this machine's GPUs offer, read through NVML. ``autotune.probe()`` is :func:`probe`.

Reads only: nothing on the GPU is changed, and no CUDA context is made. Light to import: the first call loads NVML.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotune.callable_module import make_callable

if TYPE_CHECKING:
    from autotune.core.gpu import ProbeReport
    from autotune.probe.catalogue import load_catalogue as load_catalogue
    from autotune.probe.monitor import DeviceMonitor as DeviceMonitor
    from autotune.probe.monitor import Snapshot as Snapshot
    from autotune.probe.monitor import disturbances as disturbances
    from autotune.probe.select import gpu_of as gpu_of
    from autotune.probe.select import hardware as hardware
    from autotune.probe.select import select_device as select_device
    from autotune.probe.select import twins as twins

_HOME = {
    "DeviceMonitor": "autotune.probe.monitor",
    "Snapshot": "autotune.probe.monitor",
    "disturbances": "autotune.probe.monitor",
    "gpu_of": "autotune.probe.select",
    "hardware": "autotune.probe.select",
    "load_catalogue": "autotune.probe.catalogue",
    "select_device": "autotune.probe.select",
    "twins": "autotune.probe.select",
}

__all__ = [*sorted(_HOME), "probe"]


def probe(*, replay: str | Path | None = None) -> ProbeReport:
    """Reads every GPU that NVML lists, with its Tensor Core verdict, usable memory and warnings.

    Args:
        replay: a recorded machine in place of this one: a file, or the name of a shipped one (``profiles/t4``).

    Returns:
        The report. Without a driver it has no GPUs and one warning.

    Raises:
        UsageError: no such recording, or a catalogue file that does not follow the format.
    """
    from autotune.probe.catalogue import load_catalogue
    from autotune.probe.recorded import load_recording
    from autotune.probe.report import recorded_machine, take_report, this_machine

    machine = this_machine(os.environ) if replay is None else recorded_machine(load_recording(replay))
    return take_report(machine, load_catalogue())


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'autotune.probe' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


make_callable(__name__)
