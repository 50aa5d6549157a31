"""TOML, JSON and YAML text of plain values, with errors in one sentence."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from autotune.errors import UsageError

_KINDS = {".toml": "toml", ".json": "json", ".yaml": "yaml", ".yml": "yaml"}
_MEND = "it may be cut short or edited by hand; write it again with 'autotune report STUDY --out FOLDER'"


def kind_of(path: Path) -> str:
    """Returns ``toml``, ``json`` or ``yaml`` from the ending of a file's name.

    Raises:
        UsageError: another ending.
    """
    if path.suffix.lower() not in _KINDS:
        raise UsageError(f"{path} must end in .toml, .json or .yaml to be a tuned config")
    return _KINDS[path.suffix.lower()]


def parse_text(text: str, kind: str) -> Any:
    """Returns the plain values of ``text``.

    Raises:
        ValueError: not valid text of its kind; one sentence with the line.
    """
    if kind == "toml":
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"not valid TOML ({error}); {_MEND}") from None
    if kind == "json":
        try:
            return json.loads(text)
        except (json.JSONDecodeError, RecursionError) as error:
            raise ValueError(f"not valid JSON ({error}); {_MEND}") from None
    return _parse_yaml(text)


def dump_text(data: dict[str, Any], kind: str) -> str:
    """Returns ``data`` as text of a kind; see :func:`parse_text`.

    Raises:
        UsageError: an unknown kind.
    """
    if kind == "toml":
        import tomli_w

        return tomli_w.dumps(data)
    if kind == "json":
        return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    if kind == "yaml":
        return _dump_yaml(data)
    raise UsageError(f"a tuned config can be written as toml, json or yaml, not as {kind!r}")


def _parse_yaml(text: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}" if mark else "unreadable"
        raise ValueError(f"not valid YAML ({where}); {_MEND}") from None


class _Quoted(str):
    """A string value, which is quoted in YAML: unquoted, ``3.11`` is a number and a cut-off word is still a word."""

    __slots__ = ()


def _dump_yaml(data: dict[str, Any]) -> str:
    import yaml

    class Dumper(yaml.SafeDumper):
        pass

    Dumper.add_representer(
        _Quoted, lambda dumper, value: dumper.represent_scalar("tag:yaml.org,2002:str", str(value), style='"')
    )
    return str(yaml.dump(_quote_values(data), Dumper=Dumper, sort_keys=False, allow_unicode=True, width=10_000))


def _quote_values(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _quote_values(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_quote_values(item) for item in value]
    return _Quoted(value) if isinstance(value, str) else value
