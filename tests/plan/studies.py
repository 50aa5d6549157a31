"""Studies for planning: one with a GPU's figures made up for the tests, and one with peaks that were measured."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from autotune.core.outcome import Memory
from autotune.core.study import Study
from autotune.core.trial import Device
from autotune.core.tuned import Hardware, WorkloadId
from autotune.workloads import resolve
from tests.sample_studies import MIB, completed, job

GIB = 2**30
GPU_NAME = "NVIDIA A100-SXM4-80GB"


def builtin_id(name: str) -> WorkloadId:
    source = Path(resolve(name).path).read_bytes()
    return WorkloadId(entry_point=name, source_hash=hashlib.sha256(source).hexdigest(), dataset_size=1797)


def _on(record, peak_source: str):
    memory = record.outcome.memory
    return replace(record, outcome=replace(record.outcome, memory=replace(memory, peak_source=peak_source)))


def gpu_study(*, entry: str = "train.py", static: int = 2 * GIB, per_sample: int = 40 * MIB, **changes) -> Study:
    """A made-up study on an A100: peak = static + per_sample x micro-batch, rates that saturate; batch 512."""
    records = []
    for number, micro in enumerate((8, 16, 32, 64, 128)):
        rate = 2000 * micro / (micro + 12)
        made = completed(number, micro, rate, static + per_sample * micro, precision="mixed_bfloat16", global_batch=512)
        records.append(_on(made, "tf_allocator_gpu"))
    study = Study(
        name="made-up-gpu",
        job=job(
            workload=WorkloadId(entry_point=entry, source_hash="5f" * 32, dataset_size=50_000),
            device=Device(
                kind="gpu", cuda_index=0, uuid="GPU-1", name=GPU_NAME, memory_usable_bytes=77 * GIB, alignment=8
            ),
            hardware=Hardware(
                device=GPU_NAME, kind="gpu", memory_bytes=81920 * MIB, compute_capability="8.0", driver_version="550"
            ),
            global_batch=512,
            memory_limit_bytes=None,
        ),
        records=tuple(records),
        chosen=4,
    )
    return replace(study, **changes)


def cpu_study(peaks: dict[int, int], *, entry: str = "mlp", batch: int = 1024, **changes) -> Study:
    """A study on a CPU whose peaks were measured."""
    records = [
        completed(i, micro, 100.0 + micro, peak, global_batch=batch) for i, (micro, peak) in enumerate(peaks.items())
    ]
    study = Study(name="cpu", job=job(workload=builtin_id(entry), global_batch=batch), records=tuple(records), chosen=0)
    return replace(study, **changes)


def without_peak(record):
    return replace(record, outcome=replace(record.outcome, memory=Memory()))


def stored(study: Study, folder: Path) -> Path:
    """Writes a study into a database, as it would lie in its folder."""
    import optuna

    from autotune.core.codec import to_plain
    from autotune.search import records as written

    folder.mkdir(parents=True)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    database = optuna.create_study(
        storage=f"sqlite:///{folder / 'study.db'}", study_name=study.name, directions=["maximize", "minimize"]
    )
    database.set_user_attr("job", to_plain(study.job))
    database.set_user_attr("chosen", study.chosen)
    for record in study.records:
        attributes = {written.CANDIDATE: to_plain(record.candidate), written.RECORD: to_plain(record)}
        values = [record.samples_per_s or 0.0, float(record.peak_bytes or 0)]
        database.add_trial(optuna.trial.create_trial(values=values, user_attrs=attributes))
    return folder
