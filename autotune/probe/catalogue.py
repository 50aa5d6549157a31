"""The GPU catalogue: boards as their data sheets describe them, shipped and extended by the user's own file."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune.core.codec import from_plain
from autotune.core.gpu_spec import GpuSpec
from autotune.errors import UsageError
from autotune.profiles_path import profiles_folder

# Figure in the file -> (field of GpuSpec, factor to its unit).
_FIGURES: dict[str, tuple[str, float]] = {
    "sm_count": ("sm_count", 1),
    "boost_clock_mhz": ("boost_clock_mhz", 1),
    "memory_total_mib": ("memory_total_bytes", 2**20),
    "memory_reserved_mib": ("memory_reserved_bytes", 2**20),
    "memory_bandwidth_gb_per_s": ("memory_bandwidth_bytes_per_s", 1e9),
    "float16_tflops": ("float16_flops_per_s", 1e12),
    "float32_tflops": ("float32_flops_per_s", 1e12),
    "tdp_w": ("tdp_w", 1),
}
_TENSOR = "tensor_tflops"
_TERA = 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """All known boards, in file order, and the text behind each source key."""

    boards: tuple[GpuSpec, ...]
    sources: Mapping[str, str]

    def find(self, text: str) -> GpuSpec:
        """Returns the board of an id or alias, in any case.

        Raises:
            UsageError: unknown; the sentence names the nearest ids and how to add one.
        """
        by_name = {_key(n): board for board in self.boards for n in (board.id, *board.aliases, *board.names)}
        if _key(text) in by_name:
            return by_name[_key(text)]
        near = difflib.get_close_matches(_key(text), by_name, n=3, cutoff=0.5)
        hint = f"; did you mean {' or '.join(dict.fromkeys(by_name[n].id for n in near))}?" if near else "."
        raise UsageError(
            f"no GPU {text!r} in the catalogue{hint} 'autotune probe --catalogue' lists it, {user_file()} extends it"
        )

    def match(self, name: str, memory_total_bytes: int | None = None) -> GpuSpec | None:
        """Returns the board that NVML calls ``name``; among several, the one nearest in memory. None: not listed."""
        found = [b for b in self.boards if _key(name.removeprefix("NVIDIA ")) in map(_key, b.names)]
        if memory_total_bytes is not None:
            found.sort(key=lambda b: abs(b.memory_total_bytes - memory_total_bytes))
        return found[0] if found else None


def user_file() -> Path:
    """Returns where a user's own boards are looked for: ``~/.config/autotune/gpus.toml`` (``XDG_CONFIG_HOME``)."""
    base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser() / "autotune" / "gpus.toml"


def load_catalogue(extra: Path | None = None) -> Catalogue:
    """Reads the shipped catalogue and the user's own boards, which replace those of the same id.

    Args:
        extra: the user's file; None takes :func:`user_file` where it exists.

    Raises:
        UsageError: a file that does not follow the format, named with the key.
    """
    boards: dict[str, GpuSpec] = {}
    sources: dict[str, str] = {}
    own = extra or user_file()
    for path in [profiles_folder() / "gpus.toml", *([own] if extra or own.is_file() else [])]:
        data = _read(path)
        sources.update(data.get("sources", {}))
        for entry in data.get("gpu", []):
            board = parse_board(entry, path.name)
            boards[board.id] = board
    return Catalogue(boards=tuple(boards.values()), sources=sources)


def parse_board(entry: Mapping[str, Any], where: str) -> GpuSpec:
    """Builds a board from one ``[[gpu]]`` table; every figure is ``{ value, source, confidence }``.

    Raises:
        UsageError: a missing, unknown or wrongly typed key.
    """
    where = f"{where}: gpu {entry.get('id', '?')}"
    plain: dict[str, Any] = {}
    provenance: dict[str, Any] = {}
    try:
        for key, value in entry.items():
            if key in _FIGURES:
                name, factor = _FIGURES[key]
                number, provenance[name] = _figure(value, f"{where}.{key}")
                scaled = number * factor
                plain[name] = round(scaled) if name in _WHOLE else scaled
            elif key == _TENSOR:
                peaks = plain["tensor_flops_per_s"] = {}
                for dtype, figure in value.items():
                    number, origin = _figure(figure, f"{where}.{key}.{dtype}")
                    peaks[dtype] = number * _TERA
                    provenance[f"tensor_flops_per_s.{dtype}"] = origin
            else:
                plain[key] = value
        return from_plain(GpuSpec, plain | {"provenance": provenance}, where)
    except (ValueError, AttributeError) as error:
        raise UsageError(f"{error}") from None


_WHOLE = frozenset({"sm_count", "boost_clock_mhz", "memory_total_bytes", "memory_reserved_bytes"})


def _figure(value: Any, where: str) -> tuple[float, dict[str, Any]]:
    if not isinstance(value, dict) or not isinstance(value.get("value"), (int, float)) or value["value"] <= 0:
        raise ValueError(
            f"{where} must be {{ value = a number above 0, source = ..., confidence = ... }}, got {value!r}"
        )
    return value["value"], {k: v for k, v in value.items() if k != "value"}


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"the GPU catalogue {path} cannot be read: {error}") from None


def _key(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "", text.lower())
