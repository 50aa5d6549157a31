"""Built-in example workloads, run by name, and how a name or path on the command line finds its file.

This module loads no TensorFlow; the workload files do, inside a trial's process.
"""

from __future__ import annotations

import ast
import difflib
from pathlib import Path

from autotune.core.workload import WorkloadRef
from autotune.errors import UsageError

_FOLDER = Path(__file__).parent


def names() -> list[str]:
    """Returns the names of the built-in workloads."""
    return sorted(p.stem for p in _FOLDER.glob("*.py") if not p.stem.startswith("_"))


def summary(name: str) -> str:
    """Returns the first line of a built-in workload's docstring."""
    return (ast.get_docstring(ast.parse((_FOLDER / f"{name}.py").read_text())) or "").splitlines()[0]


def resolve(text: str) -> WorkloadRef:
    """Finds the workload that the user named: ``digits``, ``path/to/train.py`` or ``train.py:name``.

    Raises:
        UsageError: no such file or built-in workload, not a Python file, or one that does not parse.
    """
    path_text, _, attribute = text.rpartition(":") if _names_attribute(text) else (text, "", "")
    if path_text in names():
        path = _FOLDER / f"{path_text}.py"
        return WorkloadRef(path=str(path), attribute=attribute or None, display=text, builtin=True)
    path = Path(path_text).expanduser()
    if not path.exists():
        raise UsageError(_not_found(path_text))
    if not path.is_file() or path.suffix != ".py":
        raise UsageError(f"{path_text} is not a Python file; name a .py file or one of: {', '.join(names())}")
    _check_syntax(path, path_text)
    return WorkloadRef(path=str(path.resolve()), attribute=attribute or None, display=text)


def _names_attribute(text: str) -> bool:
    head, _, tail = text.rpartition(":")
    return bool(head) and tail.isidentifier()


def _not_found(text: str) -> str:
    if "/" in text or text.endswith(".py"):
        return f"{text} does not exist; name a Python file, or a built-in workload: {', '.join(names())}"
    close = difflib.get_close_matches(text, names(), n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"built in are: {', '.join(names())}"
    return f"there is no workload {text!r}; {hint}"


def _check_syntax(path: Path, shown: str) -> None:
    try:
        compile(path.read_bytes(), str(path), "exec")
    except SyntaxError as error:
        raise UsageError(f"{shown}, line {error.lineno}: {error.msg}; mend the file first") from None
    except (ValueError, OSError) as error:
        raise UsageError(f"{shown} cannot be read as Python: {error}") from None
