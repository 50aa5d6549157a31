"""How trials and studies are written into Optuna's storage, and read back."""

from __future__ import annotations

from typing import Any

from optuna.trial import FrozenTrial, Trial, TrialState

from autotune.core.candidate import Candidate
from autotune.core.codec import from_plain, to_plain
from autotune.core.outcome import State
from autotune.core.trial import TrialRecord

CANDIDATE = "candidate"
RECORD = "record"
STATE = "state"
ATTEMPTS = "attempts"
DUPLICATE_OF = "duplicate_of"
OWNER = "owner"
CLAIM = "claim"
TURN = "turn"
TURN_READY = "turn_ready"
TURN_DONE = "turn_done"


def candidate_of(trial: FrozenTrial) -> Candidate | None:
    """Returns the candidate of a trial of ours; None for a foreign, half-created or duplicate one."""
    plain = trial.user_attrs.get(CANDIDATE)
    return None if plain is None or DUPLICATE_OF in trial.user_attrs else from_plain(Candidate, plain)


def record_of(trial: FrozenTrial) -> TrialRecord | None:
    """Returns what happened in a trial; None where that is not known (yet)."""
    plain = trial.user_attrs.get(RECORD)
    return None if plain is None else from_plain(TrialRecord, plain)


def write_record(trial: Trial, record: TrialRecord, memory_limit_bytes: int | None) -> None:
    """Writes a record and its constraints into a running trial; what is in it survives a kill right after."""
    trial.set_user_attr(STATE, str(record.state))  # readable in any Optuna tool
    trial.set_user_attr(RECORD, to_plain(record))
    for name, value in constraints(record, memory_limit_bytes).items():
        if name not in trial.constraints:
            trial.set_constraint(name, value)


def constraints(record: TrialRecord, memory_limit_bytes: int | None) -> dict[str, float]:
    """Returns constraint values as Optuna reads them: above 0 is infeasible, and larger is worse.

    ``memory``: share of the limit that the peak lies above it (negative below); an out-of-memory trial whose need is
    not known counts as twice the limit. ``failed``: 1 for a trial that failed in any other way.
    """
    over = -1.0
    if record.peak_bytes is not None and memory_limit_bytes:
        over = record.peak_bytes / memory_limit_bytes - 1
    if record.state is State.OUT_OF_MEMORY:
        over = over if over > 0 else 1.0
    failed = record.state not in (State.COMPLETED, State.OUT_OF_MEMORY)
    return {"memory": over, "failed": 1.0 if failed else 0.0}


def optuna_outcome(record: TrialRecord) -> tuple[TrialState, list[float] | None]:
    """Returns the state and values to tell Optuna.

    A failed candidate is told as PRUNED, with its constraint: Optuna's samplers drop FAILED trials and would propose
    the same again, but learn from PRUNED ones (optuna 5.0, ``TPESampler._sample`` and ``_split_trials``). A peak that
    was not measured is infinite, the worst, because Optuna has no missing values.
    """
    if not record.completed or record.samples_per_s is None:
        return TrialState.PRUNED, None
    peak = float("inf") if record.peak_bytes is None else float(record.peak_bytes)
    return TrialState.COMPLETE, [record.samples_per_s, peak]


def attempts(trial: FrozenTrial) -> int:
    """How often a trial was started without its end being known."""
    value: Any = trial.user_attrs.get(ATTEMPTS, 0)
    return int(value)
