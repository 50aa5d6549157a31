"""Studies in a real SQLite file: what is written, how it reads in plain Optuna, and what resuming refuses."""

from __future__ import annotations

import math
import threading
from dataclasses import replace

import optuna
import pytest
from optuna.trial import TrialState

from autotune.core.codec import to_plain
from autotune.core.outcome import State
from autotune.core.policy import Stop
from autotune.core.tuned import WorkloadId
from autotune.errors import UsageError
from autotune.search.opening import load_study
from autotune.search.records import CANDIDATE, constraints, optuna_outcome
from autotune.search.run import search
from tests.fakes.landscapes import MIB
from tests.sample_studies import completed, failed
from tests.search.studies import Trials, job_for, kill, landscape, opened


@pytest.fixture
def finished(tmp_path):
    folder = tmp_path / "digits-256"
    scene = landscape()
    store = opened(folder, scene)
    trials = Trials(scene)
    reason = search(store, trials, trials=24, clock=trials.clock)
    return folder, scene, store, reason, trials.records


def test_what_was_recorded_reads_back_equal(finished):
    folder, scene, store, reason, records = finished
    study = load_study(folder)
    assert study == store.study()
    assert study.name == "digits-256"
    assert study.job == job_for(scene)
    assert study.stop_reason == reason
    assert study.records == tuple(records)
    assert load_study(folder / "study.db") == study
    assert load_study(f"sqlite:///{folder / 'study.db'}", name="digits-256") == study


@pytest.mark.filterwarnings("ignore:PedAnova")
def test_plain_optuna_can_read_it(finished):
    folder, *_ = finished
    plain = optuna.load_study(study_name=None, storage=f"sqlite:///{folder / 'study.db'}")
    frame = plain.trials_dataframe()
    assert {"params_micro_batch", "params_execution", "params_jit_compile", "user_attrs_state"} <= set(frame.columns)
    assert plain.metric_names == ["samples_per_s", "peak_bytes"]
    assert [d.name for d in plain.directions] == ["MAXIMIZE", "MINIMIZE"]
    for trial in plain.trials:
        assert isinstance(trial.distributions["micro_batch"], optuna.distributions.IntDistribution)
        assert trial.constraints.keys() == {"memory", "failed"}
    # Its own idea of the front needs no knowledge of ours.
    assert {t.number for t in plain.best_trials}
    assert optuna.importance.get_param_importances(plain, target=lambda t: -t.values[0])


def test_an_out_of_memory_trial_is_pruned_with_its_constraint(tmp_path):
    scene = landscape("mlp", limit=120 * MIB)
    store = opened(tmp_path / "s", scene)
    trials = Trials(scene)
    search(store, trials, trials=24, clock=trials.clock)
    dead = [r.number for r in store.records() if r.state is State.OUT_OF_MEMORY]
    assert dead
    plain = optuna.load_study(study_name=None, storage=f"sqlite:///{tmp_path / 's' / 'study.db'}")
    assert plain.trials[dead[0]].state is TrialState.PRUNED
    assert plain.trials[dead[0]].constraints["memory"] > 0
    assert dead[0] not in {t.number for t in plain.best_trials}


def test_states_and_constraints():
    limit = 200 * MIB
    fine = completed(0, 64, 1000.0, 100 * MIB)
    assert constraints(fine, limit) == {"memory": -0.5, "failed": 0.0}
    assert optuna_outcome(fine) == (TrialState.COMPLETE, [1000.0, 100.0 * MIB])
    no_peak = completed(0, 64, 1000.0, None)
    assert optuna_outcome(no_peak) == (TrialState.COMPLETE, [1000.0, math.inf])
    for state in (State.CRASHED, State.TIMED_OUT, State.NON_FINITE, State.INVALID):
        assert constraints(failed(0, 64, state, ""), limit) == {"memory": -1.0, "failed": 1.0}
        assert optuna_outcome(failed(0, 64, state, ""))[0] is TrialState.PRUNED
    assert constraints(failed(0, 64, State.OUT_OF_MEMORY, ""), limit) == {"memory": 1.0, "failed": 0.0}


def test_an_existing_study_needs_resume(tmp_path):
    scene = landscape()
    opened(tmp_path / "s", scene)
    with pytest.raises(UsageError, match="'s' exists already; add --resume"):
        opened(tmp_path / "s", scene)
    opened(tmp_path / "s", scene, resume=True)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"global_batch": 512}, r"global batch \(256 stored, 512 now\)"),
        ({"memory_limit_bytes": 100 * MIB}, "memory limit"),
        ({"seed": 7}, r"seed \(1 stored, 7 now\)"),
        ({"objective": "memory"}, "objective"),
        ({"workload": WorkloadId(entry_point="digits", source_hash="aa" * 32, dataset_size=1797)}, "workload source"),
    ],
)
def test_resuming_another_job_is_refused(tmp_path, change, named):
    scene = landscape()
    opened(tmp_path / "s", scene)
    with pytest.raises(UsageError, match=named) as caught:
        opened(tmp_path / "s", scene, resume=True, **change)
    assert "choose another --out" in str(caught.value)


def test_resuming_on_another_machine_is_refused_but_free_memory_may_differ(tmp_path):
    scene = landscape()
    job = job_for(scene)
    opened(tmp_path / "s", scene)
    busier = replace(job.device, memory_usable_bytes=4 * 2**30)
    opened(tmp_path / "s", scene, resume=True, device=busier)
    with pytest.raises(UsageError, match="processor cores"):
        opened(tmp_path / "s", scene, resume=True, hardware=replace(job.hardware, cpu_cores=64))
    with pytest.raises(UsageError, match="device memory"):
        opened(tmp_path / "s", scene, resume=True, hardware=replace(job.hardware, memory_bytes=2**40))
    with pytest.raises(UsageError, match="TensorFlow"):
        opened(tmp_path / "s", scene, resume=True, software=replace(job.software, tensorflow="9.9"))
    with pytest.raises(UsageError, match=r"axis precision .*not searched"):
        opened(tmp_path / "s", scene, resume=True, axes={k: v for k, v in job.axes.items() if k != "precision"})


def test_a_record_written_right_before_a_kill_is_not_lost(tmp_path, monkeypatch):
    scene = landscape()
    store = opened(tmp_path / "s", scene)
    asked = store.ask()
    record = scene.trial(asked.number, asked.candidate)
    monkeypatch.setattr(store._study, "tell", lambda *a, **k: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        store.tell(record)
    kill(store)
    again = opened(tmp_path / "s", scene, resume=True)
    assert again.records() == (record,)
    assert not again.unfinished()
    assert again._study.trials[0].state is TrialState.COMPLETE


def test_two_workers_never_measure_the_same(tmp_path):
    scene = landscape()
    first = opened(tmp_path / "s", scene)
    second = opened(tmp_path / "s", scene, resume=True)
    asked = [store.ask() for store in (first, second, first, second)]
    assert len({a.candidate for a in asked}) == 4
    assert [a.number for a in asked] == [0, 1, 2, 3]


def test_of_two_equal_trials_the_lower_number_wins(tmp_path, monkeypatch):
    scene = landscape()
    first = opened(tmp_path / "s", scene)
    second = opened(tmp_path / "s", scene, resume=True)
    decide = second._sampler.decide
    blind = iter([True])  # the second worker decides once without having seen the first one's trial
    monkeypatch.setattr(
        second._sampler,
        "decide",
        lambda records, pending, **kw: decide(records, [] if next(blind, False) else pending, **kw),
    )
    one, two = first.ask(), second.ask()
    assert one.number == 0
    assert two.number == 2  # number 1 was the twin, withdrawn
    assert two.candidate != one.candidate
    assert second.trial_count() == 2
    assert second._study.trials[1].state is TrialState.FAIL


def test_a_trial_that_is_just_being_announced_is_waited_for(tmp_path):
    scene = landscape()
    first = opened(tmp_path / "s", scene)
    second = opened(tmp_path / "s", scene, resume=True)
    wanted = second._sampler.decide([], []).candidate
    half = first._study.ask()  # created, but its candidate is not written yet
    announce = threading.Timer(0.4, lambda: half.set_user_attr(CANDIDATE, to_plain(wanted)))
    announce.start()
    asked = second.ask()
    announce.join()
    assert asked.candidate != wanted
    assert second._study.trials[1].state is TrialState.FAIL


def test_a_whole_small_space(tmp_path):
    scene = landscape("mlp", limit=None)
    small = replace(scene, space=replace(scene.space, axes=(("micro_batch", (256, 128)), ("jit_compile", (False,)))))
    store = opened(tmp_path / "s", small)
    for _ in range(2):
        asked = store.ask()
        store.tell(scene.trial(asked.number, asked.candidate))
    assert store.ask() == Stop(reason="the space is exhausted: all 2 candidates were run")


def test_notes(tmp_path):
    store = opened(tmp_path / "s", landscape())
    store.update(command="autotune tune x --storage postgresql://u:hunter2@h/d", warnings=("a", "b"), pareto=(2, 1))
    study = load_study(tmp_path / "s")
    assert study.command == "autotune tune x --storage postgresql://u:***@h/d"
    assert study.warnings == ("a", "b")
    assert study.pareto == (2, 1)
    with pytest.raises(ValueError, match="no note 'colour'"):
        store.update(colour="red")


def test_what_is_no_study_is_said(tmp_path):
    with pytest.raises(UsageError, match="no study at"):
        load_study(tmp_path)
    foreign = f"sqlite:///{tmp_path / 'study.db'}"
    optuna.create_study(storage=foreign, study_name="mine")
    with pytest.raises(UsageError, match="not made by autotune"):
        load_study(tmp_path)
    optuna.create_study(storage=foreign, study_name="yours")
    with pytest.raises(UsageError, match="it holds mine, yours; name one"):
        load_study(tmp_path)
    with pytest.raises(UsageError, match="no study named 'ours'"):
        load_study(tmp_path, name="ours")
