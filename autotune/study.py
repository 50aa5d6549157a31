"""A finished (or interrupted) study, as the Python API hands it out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.core import study as core_study

if TYPE_CHECKING:
    import pandas as pd

    from autotune.config import TunedConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """What :func:`autotune.tune` returns.

    Attributes:
        data: all of the study as one frozen value.
        folder: where its files are.
        files: what was written there.
    """

    data: core_study.Study
    folder: Path
    files: tuple[Path, ...] = ()

    @property
    def trials(self) -> pd.DataFrame:
        """One row per trial; see ``docs/columns.md``."""
        from autotune.report.frames import trials_frame

        return trials_frame(self.data)

    @property
    def pareto(self) -> pd.DataFrame:
        """The trials that no other beats in both memory and throughput."""
        from autotune.report.frames import pareto_frame

        return pareto_frame(self.data)

    @property
    def accumulation(self) -> pd.DataFrame:
        """Peak and throughput by accumulation steps, relative to one step."""
        from autotune.report.frames import accumulation_frame

        return accumulation_frame(self.data)

    @property
    def tuned(self) -> TunedConfig | None:
        """The tuned config; None where nothing was chosen."""
        from autotune.config import TunedConfig

        return None if self.data.chosen is None else TunedConfig.from_study(self.data)
