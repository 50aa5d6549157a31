"""Looks at the user's file once, before any trial: what it offers, what it loads, what it must be started with."""

from __future__ import annotations

import ast
import hashlib
import os
import sys
from pathlib import Path
from typing import Any

from autotune.core.passes import InspectAnswer
from autotune.core.workload import WorkloadInfo, WorkloadRef
from autotune.worker.user_code import UserCode, load

_WORKLOAD_AXES = ("precision", "execution", "jit_compile", "initial_loss_scale")
_FRAMEWORKS = ("tensorflow", "keras", "tf_keras", "torch", "jax")
_PRELOADABLE = ("tensorflow", "keras", "tf_keras")
# Prefixes of variables that libraries read while they are imported or started; a warm parent must have them as well.
_READ_AT_IMPORT = ("KERAS_", "TF_", "XLA_", "CUDA_", "OMP_", "OPENBLAS_", "MKL_", "JAX_")
_HARMLESS = {"TF_CPP_MIN_LOG_LEVEL", "TF2_BEHAVIOR"}


def inspect(ref: WorkloadRef) -> InspectAnswer:
    """Loads the user's file and describes it.

    Raises:
        UnsuitableFileError: it offers nothing to tune.
        BaseException: whatever the user's code raises.
    """
    source = Path(ref.path).read_bytes()
    before = dict(os.environ)
    code = load(ref)
    size = _dataset_size(code.value.dataset()) if code.kind == "workload" else None
    changed = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_READ_AT_IMPORT) and name not in _HARMLESS and before.get(name) != value
    }
    loaded = set(sys.modules)
    info = WorkloadInfo(
        kind=code.kind,
        attribute=code.attribute,
        axes=_axes(code),
        dataset_size=size,
        source_hash=hashlib.sha256(source).hexdigest(),
        frameworks=tuple(name for name in _FRAMEWORKS if name in loaded),
        import_environment=tuple(sorted(changed)),
    )
    return InspectAnswer(info=info, environment=changed, preload=_preload(code, source, loaded, changed))


def _axes(code: UserCode) -> tuple[str, ...]:
    if code.kind == "make_loop":
        return code.axes
    return _WORKLOAD_AXES + (("recompute",) if code.value.recompute else ())


def _dataset_size(dataset: Any) -> int | None:
    size = int(dataset.cardinality())
    return size if size >= 0 else None  # negative: infinite, or unknown without reading it all


def _preload(code: UserCode, source: bytes, loaded: set[str], environment: dict[str, str]) -> tuple[str, ...]:
    if code.kind == "workload":
        return ("tensorflow", "keras", "autotune.training")
    if environment.get("KERAS_BACKEND", "tensorflow") != "tensorflow":
        return ()  # JAX and PyTorch run threads from their import on, and are not safe to fork from
    wanted = loaded | _imported_anywhere(source)
    return tuple(name for name in _PRELOADABLE if name in wanted)


def _imported_anywhere(source: bytes) -> set[str]:
    """Top-level names of modules that the source imports, also inside functions that have not run yet."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
        elif isinstance(node, (ast.Attribute, ast.alias)) and "AccumulationLoop" in (
            getattr(node, "attr", None),
            getattr(node, "name", None),
        ):
            names |= {"tensorflow", "keras"}
    return names
