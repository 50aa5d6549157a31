"""The sampler inside plain Optuna, and TPE where the policy leaves the choice open."""

from __future__ import annotations

import optuna
from optuna.trial import TrialState

from autotune.core.codec import to_plain
from autotune.core.pareto import pareto_front
from autotune.search.params import distributions, nearest, to_params
from autotune.search.records import CANDIDATE, RECORD
from autotune.search.run import search
from autotune.search.sampler import PolicySampler
from tests.fakes.landscapes import MIB
from tests.search.studies import Trials, landscape, opened


def test_every_candidate_survives_the_way_through_parameters():
    space = landscape().space
    ranges = distributions(space)
    for candidate in space.candidates():
        params = to_params(candidate, space)
        assert params.keys() == ranges.keys()
        for name, value in params.items():
            assert ranges[name]._contains(ranges[name].to_internal_repr(value))
        assert nearest(space.candidates(), params) == candidate


def test_plain_optuna_drives_it_without_repeats():
    scene = landscape("mlp", limit=None)
    sampler = PolicySampler(scene.space, seed=3)
    study = optuna.create_study(directions=["maximize", "minimize"], sampler=sampler)

    def objective(trial):
        params = {name: trial._suggest(name, d) for name, d in distributions(scene.space).items()}
        candidate = nearest(scene.space.candidates(), params)
        record = scene.trial(trial.number, candidate)
        trial.set_user_attr(CANDIDATE, to_plain(candidate))
        trial.set_user_attr(RECORD, to_plain(record))
        trial.suggest_float("something_else", 0, 1)
        return record.samples_per_s, record.peak_bytes

    study.optimize(objective, n_trials=20)  # past the point where the policy would stop
    seen = [tuple(sorted((k, v) for k, v in t.params.items() if k != "something_else")) for t in study.trials]
    assert len(set(seen)) == 20
    assert {t.state for t in study.trials} == {TrialState.COMPLETE}


def test_pareto_spends_its_trials_on_the_front(tmp_path):
    scene = landscape("mlp", limit=None)
    fronts = {}
    for objective in ("throughput", "pareto"):
        store, trials = opened(tmp_path / objective, scene, objective=objective), Trials(scene)
        search(store, trials, trials=24, clock=trials.clock)
        front = set(pareto_front(store.records()))
        fronts[objective] = [r for r in store.records() if r.number in front]
    assert len(fronts["pareto"]) > len(fronts["throughput"])
    assert min(r.peak_bytes for r in fronts["pareto"]) < 40 * MIB
