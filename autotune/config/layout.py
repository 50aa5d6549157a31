"""The layout of the tuned config: sections and keys, the same in TOML, JSON and YAML. Pure."""

from __future__ import annotations

import math
from typing import Any, get_args

from autotune.core.candidate import Candidate
from autotune.core.codec import from_plain, to_plain
from autotune.core.tuned import SCHEMA_VERSION, TunedRecord

# Axes that a user's own loop may not offer. TOML has no null: they are listed by name, so that a key that is
# merely missing is an error and not, silently, a default.
OPTIONAL_AXES = ("precision", "jit_compile", "execution", "recompute")
NOT_OFFERED = "not_offered"

CONFIG_ORDER = (
    "global_batch",
    "micro_batch",
    "accumulation_steps",
    "replicas",
    "precision",
    "initial_loss_scale",
    "jit_compile",
    "execution",
    "recompute",
)


def record_to_plain(record: TunedRecord) -> dict[str, Any]:
    """Returns the file's content; a value that is not known is left out."""
    plain = to_plain(record)
    config = plain["config"] | {"accumulation_steps": record.config.accumulation_steps}
    not_offered = [name for name in OPTIONAL_AXES if config[name] is None]
    sections = {name: _known(plain[name]) for name in ("config", "evidence", "hardware", "software", "workload")}
    sections["config"] = {name: config[name] for name in CONFIG_ORDER if config[name] is not None}
    if not_offered:
        sections["config"][NOT_OFFERED] = not_offered
    # A required string ends the file: a file that was cut anywhere lacks it, or its closing quote.
    sections["workload"]["source_hash"] = sections["workload"].pop("source_hash")
    return {"schema_version": record.schema_version, "seed": record.seed, "notes": list(record.notes)} | sections


def record_from_plain(data: Any) -> TunedRecord:
    """Builds the record from a file's content.

    Raises:
        ValueError: unknown version, or a missing, unknown or wrongly typed key, named in one sentence.
    """
    if not isinstance(data, dict):
        raise ValueError("a tuned config is a table of sections such as [config], not a single value")
    _check_version(data)
    _check_finite(data, "")
    config = data.get("config")
    if not isinstance(config, dict):
        raise ValueError("the section [config] is missing" if config is None else "config must be a table")
    record = from_plain(TunedRecord, data | {"config": _candidate_keys(config)}, "tuned config")
    steps = config["accumulation_steps"]
    if steps != record.config.accumulation_steps or isinstance(steps, bool):
        raise ValueError(
            f"config.accumulation_steps is {steps!r}, but global_batch {record.config.global_batch} in micro-batches "
            f"of {record.config.micro_batch} takes {record.config.accumulation_steps}"
        )
    return record


def _check_version(data: dict[str, Any]) -> None:
    if "schema_version" not in data:
        raise ValueError("the key 'schema_version' is missing, so this is no tuned config or only a part of one")
    version = data["schema_version"]
    if version != SCHEMA_VERSION or not isinstance(version, int) or isinstance(version, bool):
        raise ValueError(
            f"schema_version {version!r} is unknown to this autotune, which reads version {SCHEMA_VERSION}; "
            "use the autotune that wrote the file, or tune again"
        )


def _check_finite(value: Any, where: str) -> None:
    if isinstance(value, dict):
        for name, item in value.items():
            _check_finite(item, f"{where}.{name}".lstrip("."))
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{where} must be a finite number, got {value!r}")


def _candidate_keys(config: dict[str, Any]) -> dict[str, Any]:
    """Checks what the file holds beyond a :class:`Candidate` and returns the candidate's own keys, all of them."""
    not_offered = config.get(NOT_OFFERED, [])
    if not isinstance(not_offered, list) or any(name not in OPTIONAL_AXES for name in not_offered):
        raise ValueError(f"config.{NOT_OFFERED} must be a list of {', '.join(OPTIONAL_AXES)}, got {not_offered!r}")
    for name in ("accumulation_steps", "replicas", *OPTIONAL_AXES):
        if name not in config and name not in not_offered:
            raise ValueError(f"config lacks the key {name!r}")
        if name in config and name in not_offered:
            raise ValueError(f"config.{name} is set although config.{NOT_OFFERED} names it")
    own = {k: v for k, v in config.items() if k not in (NOT_OFFERED, "accumulation_steps")}
    for name in OPTIONAL_AXES:
        if name in config and config[name] is None:
            raise ValueError(f"config.{name} must be {_allowed(name)}, got null")
    return own | dict.fromkeys(not_offered)


def _allowed(name: str) -> str:
    from typing import get_type_hints

    options = [o for o in get_args(get_type_hints(Candidate)[name]) if o is not type(None)]
    values = [str(v) for o in options for v in get_args(o)]
    return f"one of {', '.join(values)}" if values else "true or false"


def _known(section: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in section.items() if value is not None}
