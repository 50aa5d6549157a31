"""Measured landscapes: a Parquet file per workload and machine, read back as a landscape that can be replayed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from autotune.core.candidate import Candidate
from autotune.core.codec import from_plain
from autotune.core.space import SearchSpace, build_space
from tests.fakes.landscapes import Landscape

_FAILED_UPDATE_S = 30.0
_AXES = ("precision", "execution", "jit_compile", "recompute")


def load_landscapes(folder: Path) -> list[Landscape]:
    """Returns every measured landscape of a folder, once for each of its limits; none where it does not exist."""
    return [scene for path in sorted(folder.glob("*.parquet")) for scene in load_landscape(path)]


def load_landscape(path: Path) -> list[Landscape]:
    """Reads one file: the same landscape without a memory limit and with each that its recorder named.

    A candidate that did not complete although nothing limited it has no throughput: it is replayed as hopelessly slow.
    Its peak, and all figures of a size that was not measured, are those of the nearest size of the same program.
    """
    file = pq.read_table(path)
    meta: dict[str, Any] = json.loads(file.schema.metadata[b"autotune"])
    frame = file.to_pandas()
    done = frame[frame["state"] == "completed"]
    rows = {_candidate(row, meta): row for row in done.to_dict("records")}
    failed = {_candidate(row, meta) for row in frame[frame["state"] != "completed"].to_dict("records")}
    scene = Landscape(
        name=f"{meta['workload']} {meta['global_batch']} on {meta['machine']}",
        space=_space(meta, {*rows, *failed}),
        update_s=lambda c: _FAILED_UPDATE_S if c in failed else c.global_batch / rows[_near(c, rows)]["samples_per_s"],
        peak=lambda c: rows[_near(c, rows)]["peak_bytes"],
        first_call_s=lambda c: rows[_near(c, rows)]["first_call_s"],
    )
    return [replace(scene, limit=limit) for limit in meta["limits_bytes"]]


def _space(meta: dict[str, Any], measured: set[Candidate]) -> SearchSpace:
    axes = {name: tuple(values) for name, values in meta["axes"].items()}
    space = build_space(meta["global_batch"], axes=axes)
    sizes = {c.micro_batch for c in measured}
    kept = tuple(size for size in space.values("micro_batch") if size in sizes)
    return SearchSpace(
        global_batch=space.global_batch,
        axes=tuple((name, kept if name == "micro_batch" else values) for name, values in space.axes),
    )


def _candidate(row: dict[str, Any], meta: dict[str, Any]) -> Candidate:
    plain = {name: (None if pd.isna(row[name]) else row[name]) for name in _AXES}
    plain["jit_compile"] = None if plain["jit_compile"] is None else bool(plain["jit_compile"])
    plain["recompute"] = None if plain["recompute"] is None else bool(plain["recompute"])
    return from_plain(Candidate, plain | {"global_batch": meta["global_batch"], "micro_batch": int(row["micro_batch"])})


def _near(candidate: Candidate, rows: dict[Candidate, Any]) -> Candidate:
    """The measured candidate of the same program whose size is nearest: rivals ask for sizes between."""
    if candidate in rows:
        return candidate

    def distance(other: Candidate) -> tuple[int, int]:
        differing = sum(getattr(other, name) != getattr(candidate, name) for name in _AXES)
        return differing, abs(other.micro_batch - candidate.micro_batch)

    return min(rows, key=distance)
