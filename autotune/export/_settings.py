"""What all targets share: the settings by name, and the line that says where they are from."""

from __future__ import annotations

from autotune.config import TunedConfig
from autotune.core.units import format_bytes, format_rate

Setting = int | float | str | bool


def named_settings(config: TunedConfig) -> dict[str, Setting]:
    """Returns the settings by name, in the order of the config file; what the loop does not offer is left out."""
    candidate = config.record.config
    settings: dict[str, Setting | None] = {
        "global_batch": candidate.global_batch,
        "micro_batch": candidate.micro_batch,
        "accumulation_steps": candidate.accumulation_steps,
        "replicas": candidate.replicas,
        "precision": candidate.precision,
        "initial_loss_scale": candidate.initial_loss_scale,
        "jit_compile": candidate.jit_compile,
        "execution": candidate.execution,
        "recompute": candidate.recompute,
        "seed": config.record.seed,
    }
    return {name: value for name, value in settings.items() if value is not None}


def origin(config: TunedConfig) -> str:
    """Returns where the settings are from, in one line without line breaks."""
    record = config.record
    evidence = record.evidence
    peak = f", peak {format_bytes(evidence.peak_bytes)}" if evidence.peak_bytes is not None else ""
    text = (
        f"tuned by autotune: {record.config.describe()}; {format_rate(evidence.samples_per_s)} samples/s{peak} "
        f"on {record.hardware.device}"
    )
    return " ".join("".join(c for c in text if c.isprintable()).split())
