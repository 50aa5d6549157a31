"""What a plan is made from: the study, the GPUs asked about, prices, and the model built once in a worker."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.core.candidate import Candidate
from autotune.core.gpu_spec import GpuSpec
from autotune.core.plan.answers import Target
from autotune.core.plan.dry import DryRequest
from autotune.core.plan.parts import Parts
from autotune.core.plan.scaling import Work
from autotune.core.study import Study
from autotune.core.workload import WorkloadRef
from autotune.errors import AutotuneError, UsageError
from autotune.prepare import resolve_workload

if TYPE_CHECKING:
    from autotune.probe.catalogue import Catalogue
    from autotune.trial.dry import DryResult

MODEL_TIMEOUT_S = 180.0
# Two small updates of one step each tell what grows with the batch from what does not.
_COUNTED = (4, 8)


def is_study(text: str) -> bool:
    """True where ``text`` names a study: a storage URL, a folder, or a database file."""
    path = Path(text)
    return "://" in text or text.startswith("env:") or path.is_dir() or path.suffix in (".db", ".sqlite")


def targets(catalogue: Catalogue, gpus: Sequence[str]) -> tuple[Target, ...]:
    """Finds the GPUs that were named, each once.

    Raises:
        UsageError: one is not in the catalogue; the sentence names the nearest and how to add one.
    """
    found = dict.fromkeys(catalogue.find(name).id for name in gpus)
    return tuple(target_of(catalogue.find(name)) for name in found)


def target_of(spec: GpuSpec, *, own: bool = False) -> Target:
    """Returns a board with what a TensorFlow process may use of it when nothing else runs."""
    from autotune.probe.usable import usable_memory

    free = spec.memory_total_bytes - (spec.memory_reserved_bytes or 0)
    major = int(spec.compute_capability.split(".")[0])
    usable = usable_memory(free, cc_major=major, multiprocessors=spec.sm_count, environment={}).usable_bytes
    alignment = 8 if spec.tensor_flops_per_s else 1
    return Target(name=spec.id, usable_bytes=usable, spec=spec, own=own, alignment=alignment)


def own_board(catalogue: Catalogue, study: Study) -> GpuSpec | None:
    """Returns the study's own GPU as the catalogue lists it; None for a CPU or an unlisted board."""
    if study.job.device.kind == "cpu":
        return None
    return catalogue.match(study.job.hardware.device, study.job.hardware.memory_bytes) or catalogue.match(
        study.job.device.name
    )


def own_target(study: Study, board: GpuSpec | None) -> Target:
    """Returns the study's own device, with the memory that its trials were held to."""
    device = study.job.device
    usable = study.job.memory_limit_bytes or device.memory_usable_bytes
    name = board.id if board else study.job.hardware.device
    return Target(name=name, usable_bytes=usable, spec=board, own=True, alignment=device.alignment)


def read_prices(prices: str | Path | Mapping[str, float] | None, catalogue: Catalogue) -> dict[str, float] | None:
    """Reads prices of one GPU-hour, by catalogue id or alias.

    Args:
        prices: a TOML file of lines such as ``"A100-80GB" = 2.5`` (at the top, or in a table ``[per_hour]``), or the
            same as a mapping.

    Raises:
        UsageError: it cannot be read, names an unknown GPU, or a price is no number of at least 0.
    """
    if prices is None:
        return None
    table: Mapping[str, object] = prices if isinstance(prices, Mapping) else _price_file(Path(prices))
    found = {}
    for name, price in table.items():
        if isinstance(price, bool) or not isinstance(price, (int, float)) or price < 0:
            raise UsageError(f"the price of {name} must be a number of at least 0 per GPU and hour, got {price!r}")
        found[catalogue.find(name).id] = float(price)
    return found


def _price_file(path: Path) -> Mapping[str, object]:
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise UsageError(f"the prices {path} cannot be read: {problem}") from None
    table = data.get("per_hour", data)
    if not isinstance(table, dict) or not table:
        raise UsageError(f'{path} holds no prices; write one line per GPU, such as "A100-80GB" = 2.5 (for each hour)')
    return table


def find_workload(study: Study) -> WorkloadRef | None:
    """Returns the study's workload where its file is at hand and unchanged."""
    try:
        ref = resolve_workload(study.job.workload.entry_point)
        same = hashlib.sha256(Path(ref.path).read_bytes()).hexdigest() == study.job.workload.source_hash
    except (UsageError, OSError):
        return None
    return ref if same else None


def build_model(ref: WorkloadRef, *, count: bool, usable_bytes: int, seed: int = 0) -> tuple[Parts, Work | None]:
    """Builds the model once in a worker process: its bytes, and what its update computes and moves.

    Args:
        ref: the workload.
        count: also compile two small updates, in float32, and count their operations and traffic.
        usable_bytes: memory of this machine.
        seed: of the loop.

    Raises:
        UsageError, UserCodeError, AutotuneError: as :func:`autotune.trial.dry.run_dry`.
    """
    from autotune.trial.dry import run_dry

    candidates = [
        Candidate(global_batch=size, micro_batch=size, jit_compile=True) for size in (_COUNTED if count else ())
    ]
    request = DryRequest(workload=ref, candidates=tuple(candidates), count=count, seed=seed, usable_bytes=usable_bytes)
    result = run_dry(request, timeout_s=MODEL_TIMEOUT_S)
    return result.parts, _work(result)


def _work(result: DryResult) -> Work | None:
    compiled = [answer.compiled for answer in result.answers if answer.compiled is not None]
    if len(compiled) != len(_COUNTED):
        return None
    small, large = compiled
    step = _COUNTED[1] - _COUNTED[0]
    flops = ((large.flops or 0.0) - (small.flops or 0.0)) / step
    traffic = ((large.traffic_bytes or 0.0) - (small.traffic_bytes or 0.0)) / step
    return Work(
        flops_per_sample=max(flops, 0.0),
        bytes_per_sample=max(traffic, 0.0),
        flops_per_update=max((small.flops or 0.0) - _COUNTED[0] * flops, 0.0),
        bytes_per_update=max((small.traffic_bytes or 0.0) - _COUNTED[0] * traffic, 0.0),
        gradient_bytes=float(result.parts.gradient_bytes),
    )


def try_model(study: Study, *, count: bool, say: Callable[[str], None]) -> tuple[Parts | None, Work | None, str | None]:
    """Builds a study's model where its file is at hand; returns a sentence instead where it is not, or fails."""
    ref = find_workload(study)
    entry = study.job.workload.entry_point
    if study.job.workload.kind != "workload":
        return None, None, f"{entry} is a loop of its own, so its model cannot be looked into"
    if ref is None:
        return None, None, f"{entry} is not here, or has changed since the study: its model was not looked into"
    say(f"building the model of {entry} once, in a process of its own")
    try:
        usable = study.job.device.memory_usable_bytes if study.job.device.kind == "cpu" else 2**33
        parts, work = build_model(ref, count=count, usable_bytes=usable)
    except AutotuneError as problem:
        return None, None, f"the model of {entry} could not be looked into: {problem}"
    return parts, work, None
