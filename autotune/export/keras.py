"""The lines that a ``compile``/``fit`` user needs."""

from __future__ import annotations

from autotune.config import TunedConfig
from autotune.core.settings import DEFAULT_LOSS_SCALE, LossScaleSettings
from autotune.core.tuned import TunedRecord
from autotune.errors import UsageError
from autotune.export._settings import origin

HELP = "lines for model.compile and model.fit"


def render(config: TunedConfig) -> str:
    """Returns Python lines: policy, optimizer, and the arguments of ``compile`` and ``fit``.

    Raises:
        UsageError: tuned for several replicas, which Keras's own accumulation does not survive.
    """
    record = config.record
    candidate = record.config
    if candidate.replicas > 1 and candidate.accumulation_steps > 1:
        raise UsageError(
            f"this config accumulates on {candidate.replicas} replicas, and Keras's accumulation fails under a "
            "distribution strategy; use --to python or autotune.AccumulationLoop"
        )
    policy = f'\nkeras.config.set_dtype_policy("{candidate.precision}")  # before the model is built\n'
    return f"""# {origin(config)}
import keras

{policy.lstrip() if candidate.precision is not None else ""}
{_optimizer(record)}

COMPILE = {{"jit_compile": {bool(candidate.jit_compile)}}}
FIT = {{"batch_size": {candidate.micro_batch * candidate.replicas}}}
# model.compile(optimizer=tuned_optimizer(keras.optimizers.AdamW, learning_rate=1e-3), loss=..., **COMPILE)
# model.fit(x, y, **FIT)
{_remarks(record)}"""


def _optimizer(record: TunedRecord) -> str:
    candidate = record.config
    # Keras refuses 1, and refuses accumulation on the LossScaleOptimizer: it belongs on the optimizer inside.
    steps = candidate.accumulation_steps if candidate.accumulation_steps > 1 else None
    lines = [
        "",
        "def tuned_optimizer(optimizer_class, **arguments):",
        f"    optimizer = optimizer_class(gradient_accumulation_steps={steps}, **arguments)",
    ]
    if candidate.precision == "mixed_float16":
        scale = candidate.initial_loss_scale or DEFAULT_LOSS_SCALE
        growth = LossScaleSettings().growth_interval * candidate.accumulation_steps
        lines += [
            "    return keras.optimizers.LossScaleOptimizer(",
            f"        optimizer, initial_scale={scale!r}, dynamic_growth_steps={growth}",
            "    )",
        ]
    else:
        lines.append("    return optimizer")
    return "\n".join(lines) + "\n"


def _remarks(record: TunedRecord) -> str:
    candidate = record.config
    steps, micro = candidate.accumulation_steps, candidate.micro_batch
    remarks = []
    if steps > 1:
        remarks.append(f"Keras counts micro-batches: give a learning-rate schedule {steps} times its steps.")
        remarks.append("Keras averages micro-batch means, and carries what is left of an epoch into the next one.")
        if steps * micro != candidate.global_batch:
            remarks.append(
                f"Its updates take {steps} x {micro} = {steps * micro} samples, not {candidate.global_batch}."
            )
        if candidate.execution is not None:
            remarks.append(f"Measured with autotune's own loop ({candidate.execution}); fit may be slower.")
    if candidate.recompute:
        remarks.append("Measured with recomputed blocks: wrap them in keras.remat.")
    return "".join(f"# {remark}\n" for remark in remarks)
