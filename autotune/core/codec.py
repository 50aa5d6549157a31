"""Frozen dataclasses to plain JSON values and back, checked field by field.

Written here because ``core`` depends on the standard library alone (it must import in milliseconds).
"""

from __future__ import annotations

import dataclasses
import types
import typing
from enum import Enum
from typing import Any, TypeVar

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """Returns ``value`` as dicts, lists, strings, numbers, booleans and None."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {str(k): to_plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(v) for v in value]
    return value


def from_plain(cls: type[T], data: Any, where: str = "") -> T:
    """Builds a ``cls`` from plain values.

    Raises:
        ValueError: an unknown, missing or wrongly typed key, named with its path.
    """
    return typing.cast(T, _convert(cls, data, where or cls.__name__))


def _convert(hint: Any, data: Any, where: str) -> Any:
    if hint is Any:
        return data
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return _convert_union(hint, data, where)
    if origin is typing.Literal:
        if data not in typing.get_args(hint) or isinstance(data, bool):
            raise ValueError(f"{where} must be one of {', '.join(map(str, typing.get_args(hint)))}, got {data!r}")
        return data
    if origin is tuple:
        return tuple(_convert(typing.get_args(hint)[0], v, f"{where}[{i}]") for i, v in enumerate(_list(data, where)))
    if origin is list:
        return [_convert(typing.get_args(hint)[0], v, f"{where}[{i}]") for i, v in enumerate(_list(data, where))]
    if origin is dict:
        value_hint = typing.get_args(hint)[1]
        return {k: _convert(value_hint, v, f"{where}.{k}") for k, v in _table(data, where).items()}
    if dataclasses.is_dataclass(hint):
        return _convert_dataclass(hint, _table(data, where), where)
    if isinstance(hint, type) and issubclass(hint, Enum):
        try:
            return hint(data)
        except ValueError:
            allowed = ", ".join(str(m.value) for m in hint)
            raise ValueError(f"{where} must be one of {allowed}, got {data!r}") from None
    return _convert_scalar(hint, data, where)


def _convert_union(hint: Any, data: Any, where: str) -> Any:
    options = typing.get_args(hint)
    if data is None and type(None) in options:
        return None
    rest = [o for o in options if o is not type(None)]
    problems = []
    for option in rest:
        try:
            return _convert(option, data, where)
        except ValueError as problem:
            problems.append(problem)
    raise problems[-1]


def _convert_dataclass(cls: Any, data: dict[str, Any], where: str) -> Any:
    hints = typing.get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls)}
    unknown = sorted(set(data) - set(fields))
    if unknown:
        raise ValueError(f"{where} has an unknown key {unknown[0]!r}; known: {', '.join(fields)}")
    values = {name: _convert(hints[name], data[name], f"{where}.{name}") for name in fields if name in data}
    missing = [
        name
        for name, f in fields.items()
        if name not in values and f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise ValueError(f"{where} lacks the key {missing[0]!r}")
    return cls(**values)


def _convert_scalar(hint: Any, data: Any, where: str) -> Any:
    if hint is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if not isinstance(data, hint) or (isinstance(data, bool) and hint is not bool):
        raise ValueError(f"{where} must be {_NAMES.get(hint, hint.__name__)}, got {data!r}")
    return data


_NAMES = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}


def _list(data: Any, where: str) -> list[Any]:
    if not isinstance(data, (list, tuple)):
        raise ValueError(f"{where} must be a list, got {data!r}")
    return list(data)


def _table(data: Any, where: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise ValueError(f"{where} must be a table, got {data!r}")
    return data
