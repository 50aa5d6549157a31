"""What is measured, on a clock that the loop under test moves itself: no test here waits or depends on the machine."""

import itertools
import json

import pytest

from autotune.core.passes import Progress
from autotune.core.trial import MeasurePlan
from autotune.worker.loops import BadUpdateError, Update, read
from autotune.worker.phases import Phases
from autotune.worker.timing import HopelessError, IdleLoopError, Stopwatch, throughput, time_updates

BATCH = 100


class Scripted:
    """A loop whose updates take the seconds and return the values that a script says, on its own clock."""

    def __init__(self, seconds, returns=None, waits=0.0):
        self.now = 0.0
        self.seconds, self.returns, self.waits = iter(seconds), iter(returns or itertools.repeat(None)), waits
        self.input_wait_s = 0.0
        self.done = 0
        self.pending = 0.0
        self.shapes_compiled = 0
        self.compiles_at = set()

    def update(self):
        """Returns at once, as a GPU does; the work is waited for in synchronize."""
        self.pending += next(self.seconds)
        self.input_wait_s += self.waits
        self.done += 1
        self.shapes_compiled += self.done in self.compiles_at
        return next(self.returns)

    def synchronize(self):
        self.now += self.pending
        self.pending = 0.0

    def clock(self):
        return self.now


def measure(loop, tmp_path, **plan):
    stopwatch = Stopwatch(loop, global_batch=BATCH, clock=loop.clock)
    timing = time_updates(stopwatch, MeasurePlan(**plan), Phases(str(tmp_path / "p.json"), loop.clock))
    return timing, throughput(timing, global_batch=BATCH)


def test_warm_up_is_left_out_and_the_device_is_waited_for(tmp_path):
    loop = Scripted(itertools.chain([60.0, 5.0, 2.0, 0.5, 0.11, 0.1], itertools.repeat(0.1)))
    timing, rate = measure(loop, tmp_path)
    assert rate.samples_per_s == pytest.approx(1000)
    assert rate.update_s == pytest.approx(0.1)
    assert (rate.samples_per_s_low, rate.samples_per_s_high) == pytest.approx((1000, 1000))
    assert rate.steady
    assert rate.updates_measured < len(timing.updates) == loop.done


def test_an_update_that_compiles_for_a_new_shape_is_no_measure_of_the_others(tmp_path):
    # XLA over lines of text: a new length bucket now and then, six seconds each.
    seconds = itertools.chain([9.0, 6.0, 6.1, 0.1, 6.0, 0.1, 0.1, 0.1, 0.1, 6.2], itertools.repeat(0.1))
    loop = Scripted(seconds)
    loop.compiles_at = {1, 2, 3, 5, 10}
    _, rate = measure(loop, tmp_path, give_up_update_s=1.0)
    assert rate.samples_per_s == pytest.approx(1000)
    assert (rate.samples_per_s_low, rate.samples_per_s_high) == pytest.approx((1000, 1000))
    assert rate.steady
    slow = Scripted(itertools.chain([9.0, 6.0, 6.1], itertools.repeat(3.0)))
    slow.compiles_at = {1, 2, 3}
    with pytest.raises(HopelessError, match="takes about 3"):
        measure(slow, tmp_path, give_up_update_s=1.0)


def test_a_wide_interval_is_measured_to_the_end_and_said(tmp_path):
    loop = Scripted(itertools.chain([9.0], itertools.cycle([0.1, 0.2, 0.4, 0.15])))
    _, rate = measure(loop, tmp_path, max_measure_s=3.0)
    assert not rate.steady
    assert rate.updates_measured * 0.2125 >= 2.9
    assert rate.samples_per_s_low < rate.samples_per_s < rate.samples_per_s_high


def test_a_short_tail_window_that_costs_a_whole_micro_batch_does_not_blur_the_rate(tmp_path):
    # Seven full windows and a tail of five samples per epoch, as digits has it; under XLA the tail is padded.
    seconds = itertools.cycle([1.0] * 7 + [0.25])
    returns = itertools.cycle([{"samples": BATCH}] * 7 + [{"samples": 5}])
    _, rate = measure(Scripted(seconds, returns), tmp_path, max_measure_s=10.0)
    assert rate.samples_per_s == pytest.approx(100)
    assert (rate.samples_per_s_low, rate.samples_per_s_high) == pytest.approx((100, 100))
    assert rate.steady


def test_where_every_block_has_a_tail_all_of_them_count(tmp_path):
    returns = itertools.cycle([{"samples": 60}])
    _, rate = measure(Scripted(itertools.repeat(1.0), returns), tmp_path, max_measure_s=5.0)
    assert rate.samples_per_s == pytest.approx(60)


def test_fewest_updates_are_run_however_slow(tmp_path):
    loop = Scripted(itertools.repeat(20.0))
    _, rate = measure(loop, tmp_path, min_updates=5, max_measure_s=1.0)
    assert rate.updates_measured == 5


def test_a_hopeless_update_ends_it(tmp_path):
    loop = Scripted(itertools.repeat(20.0))
    with pytest.raises(HopelessError):
        measure(loop, tmp_path, give_up_update_s=1.0)
    assert loop.done == 2


def test_quick_updates_are_timed_in_blocks(tmp_path):
    loop = Scripted(itertools.repeat(0.001))
    timing, rate = measure(loop, tmp_path)
    assert {len(b.updates) for b in timing.blocks} == {50}
    assert rate.update_s == pytest.approx(0.001)


def test_an_update_that_does_nothing(tmp_path):
    with pytest.raises(IdleLoopError, match="it does nothing"):
        measure(Scripted(itertools.repeat(1e-7)), tmp_path)


def test_goodput_counts_applied_samples_and_weighs_the_tail(tmp_path):
    full = {"samples": BATCH, "applied": True}
    epoch = [(0.1, full), (0.1, full), (0.1, {**full, "applied": False}), (0.02, {"samples": 20, "applied": True})]
    seconds, returns = zip(*itertools.islice(itertools.cycle(epoch), 4000), strict=True)
    _, rate = measure(Scripted(seconds, returns), tmp_path)
    assert rate.update_s == pytest.approx(0.1)
    assert rate.samples_per_s == pytest.approx(1000 * 220 / 320, rel=0.1), "the epoch may be cut short at either end"
    assert rate.updates_skipped == pytest.approx(rate.updates_measured / 4, abs=1)


def test_nothing_applied_has_no_throughput(tmp_path):
    loop = Scripted(itertools.repeat(0.1), itertools.repeat({"applied": False}))
    assert measure(loop, tmp_path)[1] is None


def test_waiting_for_input_is_a_share_of_the_time(tmp_path):
    _, rate = measure(Scripted(itertools.repeat(0.1), waits=0.03), tmp_path)
    assert rate.input_wait_share == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("raw", "update"),
    [
        (None, Update()),
        ({}, Update()),
        ({"loss": 2, "other": object()}, Update(loss=2.0)),
        (
            {"loss": None, "applied": 0, "samples": 3.0, "loss_scale": 8},
            Update(applied=False, samples=3, loss_scale=8.0),
        ),
    ],
)
def test_what_an_update_may_return(raw, update):
    assert read(raw) == update


@pytest.mark.parametrize("raw", [3, "loss", (1, 2), {"loss": "much"}, {"samples": [1, 2]}])
def test_what_an_update_may_not_return(raw):
    with pytest.raises(BadUpdateError, match="update"):
        read(raw)


def test_progress_names_the_phase_and_a_full_disk_is_no_matter(tmp_path):
    ticks = itertools.count()
    path = tmp_path / "p.json"
    phases = Phases(str(path), lambda: float(next(ticks)))
    with phases("build"):
        pass
    with phases("measure"):
        assert json.loads(path.read_text()) == {"phase": "measure", "phases": {"build": 1.0}}
    assert Progress(**json.loads(path.read_text())).phase == "measure"
    nowhere = Phases("/dev/full", lambda: float(next(ticks)))
    with nowhere("build"):
        pass
    assert nowhere.seconds == {"build": 1.0}
