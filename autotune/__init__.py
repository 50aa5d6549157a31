"""autotune: finds the fastest mixed-precision and gradient-accumulation settings for a TensorFlow training loop.

Public names load when they are first used, so that ``import autotune`` costs nothing and pulls in no TensorFlow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autotune.config import TunedConfig as TunedConfig
    from autotune.core.settings import LossScaleSettings as LossScaleSettings
    from autotune.core.settings import TrainSettings as TrainSettings
    from autotune.core.workload import Workload as Workload
    from autotune.plan import plan as plan
    from autotune.probe import probe as probe
    from autotune.training import AccumulationLoop as AccumulationLoop
    from autotune.tune import tune as tune

__version__ = "0.1.0"

_HOME = {
    "AccumulationLoop": "autotune.training",
    "LossScaleSettings": "autotune.core.settings",
    "TrainSettings": "autotune.core.settings",
    "TunedConfig": "autotune.config",
    "Workload": "autotune.core.workload",
    "plan": "autotune.plan",
    "probe": "autotune.probe",
    "tune": "autotune.tune",
}

__all__ = [
    "AccumulationLoop",
    "LossScaleSettings",
    "TrainSettings",
    "TunedConfig",
    "Workload",
    "__version__",
    "plan",
    "probe",
    "tune",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'autotune' has no attribute {name!r}")
    # A submodule of the same name (autotune.tune, autotune.probe) lands in globals as a side effect of the import;
    # the public name is the function in it, so it is stored last.
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
