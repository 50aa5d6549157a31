"""The custom mixed-precision training loop with gradient accumulation, as a library.

:class:`AccumulationLoop` is what people import; ``docs/training-loop.md`` says how it is built and what it costs.
"""

from autotune.training.loop import AccumulationLoop
from autotune.training.parts import Parts
from autotune.training.result import UpdateResult
from autotune.training.windows import Window

__all__ = ["AccumulationLoop", "Parts", "UpdateResult", "Window"]
