"""The tuner's side of a trial: start it, hold it to its deadline, end it whole, and say what it came to."""

from autotune.trial.folder import trial_in_flight
from autotune.trial.launcher import TrialLauncher

__all__ = ["TrialLauncher", "trial_in_flight"]
