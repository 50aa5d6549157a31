"""The loop: when it ends, what it hands down, and what interruptions leave behind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.core.outcome import Outcome, State
from autotune.errors import UserCodeError
from autotune.search.run import TrialEnded, TrialStarted, search
from tests.fakes.landscapes import MIB
from tests.search.studies import Trials, kill, landscape, opened


def run(store, scripted, **options):
    options = {"trials": 24, "clock": scripted.clock} | options
    return search(store, scripted, **options)


def test_it_finds_the_best_of_a_landscape_and_says_why_it_ended(tmp_path):
    scene = landscape()
    store, trials, events = opened(tmp_path / "s", scene), Trials(scene), []
    reason = run(store, trials, on_event=events.append)
    assert "likely to improve the throughput by more than 1 %" in reason
    best = max((r for r in store.records() if r.completed), key=lambda r: r.samples_per_s)
    assert scene.rate(best.candidate) >= 0.98 * scene.rate(scene.best())
    assert [type(e) for e in events] == [TrialStarted, TrialEnded] * len(store.records())
    assert all(e.why for e in events if isinstance(e, TrialStarted))
    assert trials.give_ups[0] is None
    best = max(trials.scene.rate(r.candidate) for r in store.records()[:-1] if r.completed)
    assert trials.give_ups[-1] == pytest.approx(3 * 256 / best, rel=0.1)


def test_number_of_trials(tmp_path):
    scene = landscape()
    store, trials = opened(tmp_path / "s", scene), Trials(scene)
    assert run(store, trials, trials=3) == "3 trials were run"
    assert run(store, trials, trials=3) == "3 trials were run"
    assert len(store.records()) == 3
    run(store, trials, trials=5)
    assert trials.numbers == [0, 1, 2, 3, 4]


def test_the_budget_covers_the_trial_in_flight(tmp_path):
    scene = landscape()
    store, trials = opened(tmp_path / "s", scene), Trials(scene)
    reason = run(store, trials, budget_s=20.0)
    assert "time budget is spent" in reason
    assert trials.now <= 20.0
    assert trials.timeouts[0] == 20.0
    assert trials.timeouts == sorted(trials.timeouts, reverse=True)
    short = opened(tmp_path / "t", scene)
    hurried = Trials(scene)
    run(short, hurried, budget_s=2.0)
    assert [r.state for r in short.records()] == [State.TIMED_OUT]
    assert hurried.now == 2.0


def test_resumed_after_every_trial_it_does_the_same(tmp_path):
    scene = landscape()
    whole, in_one = opened(tmp_path / "whole", scene), Trials(scene)
    run(whole, in_one)
    for count in range(1, len(whole.records()) + 1):
        part = Trials(scene)
        part.now = sum(r.wall_s for r in whole.records()[: count - 1])
        run(opened(tmp_path / "parts", scene, resume=True), part, trials=count)
        assert part.numbers == [count - 1]
    resumed = opened(tmp_path / "parts", scene, resume=True).records()
    assert [r.candidate for r in resumed] == [r.candidate for r in whole.records()]


@pytest.mark.parametrize("objective", ["throughput", "memory", "pareto"])
def test_the_same_measurements_and_seed_give_the_same_trials(tmp_path, objective):
    scene = landscape("mlp", limit=None)
    ways = []
    for name in ("a", "b"):
        store, trials = opened(tmp_path / name, scene, objective=objective), Trials(scene)
        run(store, trials, trials=18)
        ways.append([r.candidate for r in store.records()])
    assert ways[0] == ways[1]
    assert len(set(ways[0])) == len(ways[0])


def test_ctrl_c_leaves_a_study_that_goes_on(tmp_path):
    scene = landscape()
    store, trials = opened(tmp_path / "s", scene), Trials(scene)

    def interrupt(record):
        if record.number == 2:
            raise KeyboardInterrupt
        return record

    trials.then = interrupt
    with pytest.raises(KeyboardInterrupt):
        run(store, trials)
    assert [r.number for r in store.records()] == [0, 1]
    again = Trials(scene)
    store = opened(tmp_path / "s", scene, resume=True)
    run(store, again)
    assert again.numbers[0] == 2  # the one that was broken off comes first: nothing is held against it
    assert [r.number for r in store.records()] == list(range(len(store.records())))


def killed_during(tmp_path, scene, number, *, resume=False):
    """A tuner that dies without a word while trial ``number`` runs."""

    class Killed(BaseException):
        pass

    store, trials = opened(tmp_path / "s", scene, resume=resume), Trials(scene)

    def die(record):
        if record.number == number:
            kill(store)
            raise Killed
        return record

    trials.then = die
    with pytest.raises(Killed):
        run(store, trials)


def test_a_trial_whose_tuner_died_is_run_once_more_and_last(tmp_path):
    scene = landscape()
    killed_during(tmp_path, scene, 2)
    store, trials = opened(tmp_path / "s", scene, resume=True), Trials(scene)
    unknown = store.unfinished()[0][0].candidate
    run(store, trials)
    assert trials.numbers[-1] == 2
    assert trials.numbers.count(2) == 1
    assert unknown not in {r.candidate for r in store.records() if r.number != 2}
    assert store.records()[2] == trials.records[-1]
    assert not store.unfinished()


def test_a_trial_that_kills_the_tuner_twice_is_crashed_and_never_run_again(tmp_path):
    scene = landscape()
    killed_during(tmp_path, scene, 2)
    killed_during(tmp_path, scene, 2, resume=True)
    store, trials = opened(tmp_path / "s", scene, resume=True), Trials(scene)
    run(store, trials)
    assert 2 not in trials.numbers
    assert store.records()[2].state is State.CRASHED
    assert "ended twice" in store.records()[2].outcome.reason
    assert not store.unfinished()


def test_stop_after_the_trial_in_flight(tmp_path):
    scene = landscape()
    store, trials = opened(tmp_path / "s", scene), Trials(scene)
    reason = run(store, trials, stop_requested=lambda: len(trials.numbers) == 2)
    assert reason == "stopped on request after the trial in flight"
    assert len(store.records()) == 2


def crash_of_the_user(record):
    outcome = Outcome(
        state=State.CRASHED, reason="ValueError", user_error="train.py:7: ValueError: no", traceback="Traceback ..."
    )
    return replace(record, outcome=outcome)


def test_the_users_own_error_ends_the_study_while_nothing_has_completed(tmp_path):
    scene = landscape()
    store, trials = opened(tmp_path / "s", scene), Trials(scene)
    trials.then = crash_of_the_user
    with pytest.raises(UserCodeError, match=r"train\.py:7: ValueError: no") as caught:
        run(store, trials)
    assert caught.value.traceback == "Traceback ..."
    assert [r.state for r in store.records()] == [State.CRASHED]


def test_after_a_success_the_users_error_is_one_candidates_outcome(tmp_path):
    scene = landscape()
    store, trials = opened(tmp_path / "s", scene), Trials(scene)
    trials.then = lambda record: crash_of_the_user(record) if record.number == 2 else record
    run(store, trials)
    assert store.records()[2].state is State.CRASHED
    assert len(store.records()) > 4


def test_nothing_fits_ends_with_the_table_of_what_was_tried(tmp_path):
    scene = landscape("cnn", limit=10 * MIB)
    store, trials = opened(tmp_path / "s", scene), Trials(scene)
    reason = run(store, trials)
    assert reason.startswith("nothing fits")
    assert len(store.records()) >= 3
    assert {r.state for r in store.records()} == {State.OUT_OF_MEMORY}


def test_a_broken_machine_is_passed_on_and_not_the_candidates_fault(tmp_path):
    scene = landscape()
    store, trials = opened(tmp_path / "s", scene), Trials(scene)

    def break_down(record):
        raise OSError("no space left on device")

    trials.then = break_down
    with pytest.raises(OSError, match="no space left"):
        run(store, trials)
    assert not store.records()
    assert store.unfinished()[0][1] == 0
