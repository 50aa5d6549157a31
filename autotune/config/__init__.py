"""The tuned config as a file: what a study writes and a training script loads."""

from autotune.config.tuned import TunedConfig, TunedConfigWarning

__all__ = ["TunedConfig", "TunedConfigWarning"]
