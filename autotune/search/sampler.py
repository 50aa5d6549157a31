"""An Optuna sampler that proposes what the policy says, and lets TPE choose where the policy has no preference."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, TPESampler
from optuna.trial import FrozenTrial

from autotune.core.candidate import Candidate
from autotune.core.policy import Open, Proposal, Stop, next_candidate
from autotune.core.select import MEMORY_SHARE
from autotune.core.space import SearchSpace
from autotune.core.study import Objective
from autotune.core.trial import TrialRecord
from autotune.search.params import distributions, nearest, to_params
from autotune.search.records import candidate_of, record_of

TPE_STARTUP_TRIALS = 5  # random ones; the policy's own trials count, so TPE mostly starts informed


class PolicySampler(BaseSampler):
    """Proposes candidates of one space, never one that is already in the study.

    Each trial's randomness comes from the seed and the trial's number alone, so that a resumed study goes on as an
    uninterrupted one would.

    Args:
        space: what may be run.
        memory_limit_bytes: limit on the peak; None for none.
        objective: what the search is for.
        memory_share: share of the best throughput that objective ``memory`` keeps.
        seed: seeds TPE; the policy itself draws nothing.
    """

    def __init__(
        self,
        space: SearchSpace,
        *,
        memory_limit_bytes: int | None = None,
        objective: Objective = "throughput",
        memory_share: float = MEMORY_SHARE,
        seed: int = 0,
    ) -> None:
        self.space = space
        self._memory_limit_bytes = memory_limit_bytes
        self._objective: Objective = objective
        self._memory_share = memory_share
        self._seed = seed
        self._planned: Proposal | Open | None = None

    def decide(
        self, records: Sequence[TrialRecord], pending: Iterable[Candidate], *, seconds_left: float | None = None
    ) -> Proposal | Open | Stop:
        """Asks the policy. What it answers, unless :class:`Stop`, is what the study's next ``ask`` gets."""
        decision = next_candidate(
            self.space,
            records,
            memory_limit_bytes=self._memory_limit_bytes,
            objective=self._objective,
            memory_share=self._memory_share,
            pending=pending,
            seconds_left=seconds_left,
        )
        self._planned = None if isinstance(decision, Stop) else decision
        return decision

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """All axes are sampled together."""
        return distributions(self.space)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Returns the parameters of the next candidate."""
        others = [t for t in study.get_trials(deepcopy=False) if t.number != trial.number]
        decision: Proposal | Open | Stop | None = self._planned
        if decision is None:  # asked by Optuna itself, not by our loop
            records = [r for t in others if (r := record_of(t)) is not None]
            decision = self.decide(records, [c for t in others if (c := candidate_of(t)) is not None])
        self._planned = None
        if isinstance(decision, Proposal):
            return to_params(decision.candidate, self.space)
        if isinstance(decision, Open):
            return to_params(nearest(decision.candidates, self._drawn(study, trial)), self.space)
        taken = {candidate_of(t) for t in others}
        left = [c for c in self.space.candidates() if c not in taken] or self.space.candidates()
        return to_params(nearest(left, self._drawn(study, trial)), self.space)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """A parameter that is none of our axes: TPE's business."""
        return self._tpe(trial).sample_independent(study, trial, param_name, param_distribution)

    def _drawn(self, study: Study, trial: FrozenTrial) -> dict[str, Any]:
        tpe = self._tpe(trial)
        joint = tpe.sample_relative(study, trial, tpe.infer_relative_search_space(study, trial))
        return {
            name: joint[name] if name in joint else tpe.sample_independent(study, trial, name, distribution)
            for name, distribution in distributions(self.space).items()
        }

    def _tpe(self, trial: FrozenTrial) -> TPESampler:
        seed = (self._seed * 1_000_003 + trial.number) % 2**32
        return TPESampler(seed=seed, multivariate=True, n_startup_trials=TPE_STARTUP_TRIALS)
