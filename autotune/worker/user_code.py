"""Loads the user's file like a script of its own folder, and finds what to tune in it."""

from __future__ import annotations

import difflib
import importlib.util
import re
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import autotune
from autotune.core.workload import Workload, WorkloadRef


class UnsuitableFileError(Exception):
    """The file does not offer what it must; the message is one sentence for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserCode:
    """What the user's file offers.

    Attributes:
        kind: our loop over a workload, or a loop of their own.
        attribute: the name under which it was found.
        value: the :class:`Workload`, or the function that makes the loop.
        axes: axes that the file declares for a loop of its own.
    """

    kind: Literal["workload", "make_loop"]
    attribute: str
    value: Any
    axes: tuple[str, ...] = ()


def load(ref: WorkloadRef) -> UserCode:
    """Runs the user's file and picks the workload or loop out of it.

    Raises:
        UnsuitableFileError: a syntax error in that file, or nothing to tune in it.
        BaseException: whatever the user's code raises.
    """
    module = _execute(ref)
    name = ref.attribute or next((n for n in ("workload", "make_loop") if hasattr(module, n)), None)
    shown = Path(ref.path).name
    if name is None:
        raise UnsuitableFileError(
            f"{shown} defines neither 'workload' nor 'make_loop'; add one, or name it: {shown}:NAME"
        )
    if not hasattr(module, name):
        raise UnsuitableFileError(f"{shown} has no {name!r}{_suggestion(module, name)}")
    value = getattr(module, name)
    if isinstance(value, Workload):
        _check_workload(value, f"{shown}:{name}")
        return UserCode(kind="workload", attribute=name, value=value)
    if callable(value):
        return UserCode(kind="make_loop", attribute=name, value=value, axes=_declared_axes(module, shown))
    raise UnsuitableFileError(
        f"{name!r} in {shown} is a {type(value).__name__}; it must be an autotune.Workload or a function of settings"
    )


def _execute(ref: WorkloadRef) -> ModuleType:
    path = Path(ref.path)
    # Under its own name, so that what it pickles or sends to its own processes can be found again; a name that is
    # taken (a user's random.py) must not hide the module that has it.
    name = path.stem if path.stem not in sys.modules else f"autotune_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UnsuitableFileError(f"{path.name} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as problem:
        if problem.filename != str(path):
            raise
        raise UnsuitableFileError(f"{path.name}:{problem.lineno}: {problem.msg}") from None
    return module


def _suggestion(module: ModuleType, name: str) -> str:
    near = difflib.get_close_matches(name, [n for n in vars(module) if not n.startswith("_")], n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _check_workload(workload: Workload, shown: str) -> None:
    for name in ("model", "optimizer", "loss", "dataset", "evaluate", "longest", "extra_loss"):
        value = getattr(workload, name)
        optional = name in ("evaluate", "longest", "extra_loss")
        if not callable(value) and not (optional and value is None):
            raise UnsuitableFileError(f"{name} of {shown} must be a function, got a {type(value).__name__}")


def _declared_axes(module: ModuleType, shown: str) -> tuple[str, ...]:
    axes = getattr(module, "axes", ())
    if not isinstance(axes, (tuple, list)) or not all(isinstance(axis, str) for axis in axes):
        raise UnsuitableFileError(f'axes in {shown} must be names, for example axes = ("precision",), got {axes!r}')
    return tuple(axes)


def where(problem: BaseException, ref: WorkloadRef) -> str | None:
    """Returns ``file:line`` of the user's own code nearest to where ``problem`` was raised; None where it has no part.

    TensorFlow runs rewritten copies of the user's functions, and names the user's lines in the message instead.
    """
    user = _is_users(Path(ref.path))
    in_message = [(f, int(n)) for f, n in re.findall(r'File "([^"]+)", line (\d+)', str(problem)) if user(f)]
    in_traceback = [
        (f.filename, f.lineno or 0) for f in traceback.extract_tb(problem.__traceback__) if user(f.filename)
    ]
    for found in (in_message, in_traceback):
        if found:
            filename, line = found[-1]
            return f"{Path(filename).name}:{line}"
    return None


def _is_users(path: Path) -> Callable[[str], bool]:
    folder = path.parent
    ours = Path(autotune.__file__).parent

    def is_users(filename: str) -> bool:
        candidate = Path(filename)
        if candidate == path:
            return True
        if folder not in candidate.parents or "site-packages" in candidate.relative_to(folder).parts:
            return False
        return ours not in candidate.parents or ours in path.parents

    return is_users
