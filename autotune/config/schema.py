"""The published JSON Schema of the tuned config, made from the dataclasses that hold it."""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any

from autotune.config.layout import CONFIG_ORDER, NOT_OFFERED, OPTIONAL_AXES
from autotune.core.candidate import Candidate
from autotune.core.tuned import SCHEMA_VERSION, TunedRecord

_TYPES = {int: "integer", float: "number", str: "string", bool: "boolean"}


def json_schema() -> dict[str, Any]:
    """Returns the schema (JSON Schema 2020-12); it holds for TOML and YAML alike."""
    schema = _object(TunedRecord, skip=("config",))
    schema["properties"] |= {
        "schema_version": {"const": SCHEMA_VERSION},
        "config": _config(),
    }
    schema["properties"]["workload"]["properties"]["source_hash"]["description"] = "SHA-256 of the user's file"
    schema["required"] = ["schema_version", "config", *(n for n in schema["required"] if n != "schema_version")]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "autotune tuned config",
        "description": "The settings that autotune chose, with their evidence and what they hold for.",
        **schema,
    }


def _config() -> dict[str, Any]:
    section = _object(Candidate)
    properties = section["properties"] | {"accumulation_steps": {"type": "integer", "minimum": 1}}
    for name in OPTIONAL_AXES:
        properties[name] = _without_null(properties[name])
    for name in ("global_batch", "micro_batch", "replicas"):
        properties[name] = {"type": "integer", "minimum": 1}
    properties["initial_loss_scale"] = {"type": "number", "exclusiveMinimum": 0}
    # An axis is either set or named as not offered: a key that is merely missing is an error.
    either = [{"oneOf": [{"required": [name]}, _names(name)]} for name in OPTIONAL_AXES]
    section["properties"] = {name: properties[name] for name in CONFIG_ORDER}
    section["properties"][NOT_OFFERED] = {"type": "array", "items": {"enum": list(OPTIONAL_AXES)}}
    section["required"] = ["global_batch", "micro_batch", "accumulation_steps", "replicas"]
    return section | {"allOf": either}


def _names(axis: str) -> dict[str, Any]:
    return {"required": [NOT_OFFERED], "properties": {NOT_OFFERED: {"contains": {"const": axis}}}}


def _object(cls: Any, skip: tuple[str, ...] = ()) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    fields = [f for f in dataclasses.fields(cls) if f.name not in skip]
    required = [f.name for f in fields if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING]
    return {
        "type": "object",
        "properties": {f.name: _schema(hints[f.name]) for f in fields},
        "required": required,
        "additionalProperties": False,
    }


def _schema(hint: Any) -> dict[str, Any]:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        options = [o for o in typing.get_args(hint) if o is not type(None)]
        return {"anyOf": [*(_schema(o) for o in options), {"type": "null"}]}
    if origin is typing.Literal:
        return {"enum": list(typing.get_args(hint))}
    if origin is tuple:
        return {"type": "array", "items": _schema(typing.get_args(hint)[0])}
    if dataclasses.is_dataclass(hint):
        return _object(hint)
    return {"type": _TYPES[hint]}


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    kept = [option for option in schema["anyOf"] if option != {"type": "null"}]
    return kept[0] if len(kept) == 1 else {"anyOf": kept}
