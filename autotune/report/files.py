"""Writes the files of a study's folder, each beside its place and then renamed."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pandas as pd

from autotune.config import TunedConfig
from autotune.core.study import Study
from autotune.report.frames import pareto_frame, trials_frame

_PICTURE_KINDS: tuple[Literal["png", "svg"], ...] = ("png", "svg")


def write_study_files(study: Study, folder: str | Path, formats: Sequence[str] = ()) -> list[Path]:
    """Writes tables, pictures, the report page and, where a trial was chosen, the tuned config.

    Args:
        study: what to write.
        folder: made where it does not exist.
        formats: formats of the tuned config beside TOML: ``json``, ``yaml``.

    Returns:
        The paths written, tables first.

    Raises:
        OSError: the folder cannot be written to.
    """
    from autotune.report.charts import draw, trade_off_picture
    from autotune.report.page import report_page

    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    trials = trials_frame(study)
    contents: dict[str, bytes] = {
        "trials.csv": csv_bytes(trials),
        "trials.parquet": parquet_bytes(trials),
        "pareto.csv": csv_bytes(pareto_frame(study)),
        "report.html": report_page(study).encode(),
        "pareto.png": draw(trade_off_picture(study), study, "png"),
    }
    if study.chosen is not None:
        config = TunedConfig.from_study(study)
        contents |= {f"tuned.{kind}": config.dumps(kind).encode() for kind in ("toml", *formats)}
    return [replace_file(target / name, content) for name, content in contents.items()]


def write_charts(study: Study, folder: str | Path) -> list[Path]:
    """Writes every chart as PNG and SVG, and returns the paths; see :func:`write_study_files`."""
    from autotune.report.charts import draw, study_pictures

    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    return [
        replace_file(target / f"{picture.name}.{kind}", draw(picture, study, kind))
        for picture in study_pictures(study)
        for kind in _PICTURE_KINDS
    ]


def csv_bytes(frame: pd.DataFrame) -> bytes:
    """Returns a table as CSV in UTF-8: full precision, an empty field for a missing value."""
    return frame.to_csv(index=False, lineterminator="\n").encode()


def parquet_bytes(frame: pd.DataFrame) -> bytes:
    """Returns a table as a Parquet file."""
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False)
    return buffer.getvalue()


def replace_file(path: Path, content: bytes) -> Path:
    """Writes a file beside ``path`` and renames it, so that no reader ever sees half of it."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        beside.write_bytes(content)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    return path
