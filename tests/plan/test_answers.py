"""Rows of a plan from studies whose figures are known."""

from dataclasses import replace

import pytest

import autotune
from autotune.core.plan.values import Range
from autotune.errors import UsageError
from autotune.plan import Plan
from autotune.plan_sources import target_of
from autotune.probe.catalogue import load_catalogue
from tests.plan.studies import GIB, cpu_study, gpu_study
from tests.sample_studies import completed

PRICES = {"A100-80GB": 2.0, "T4": 0.4, "H100": 4.0}
STRAIGHT = {m: (400 + 8 * m) * 2**20 for m in (16, 32, 64, 128)}


def plan(study=None, **question) -> Plan:
    return autotune.plan(study or gpu_study(), **question)


def row(found: Plan, gpu: str, count: int = 1):
    return next(r for r in found.rows if (r.gpu, r.count) == (gpu, count))


def test_the_studys_own_device_is_asked_about_by_default():
    found = plan()
    assert [r.gpu for r in found.rows] == ["A100-SXM-80GB"]
    only = found.rows[0]
    assert only.fits and only.fit_probability > 0.95
    assert only.micro_batch * only.accumulation_steps >= 512 and only.memory_basis in ("measured", "fitted")
    assert only.samples_per_s.low < only.samples_per_s.expected < only.samples_per_s.high


def test_the_largest_micro_batch_that_fits_with_the_probability_asked_for():
    study = cpu_study(STRAIGHT)
    sure = row(plan(study, gpus=["GTX-1650"], confidence=0.99), "GTX-1650")
    bold = row(plan(study, gpus=["GTX-1650"], confidence=0.5), "GTX-1650")
    assert sure.fits and bold.fits and sure.micro_batch < bold.micro_batch
    usable = target_of(load_catalogue().find("GTX-1650")).usable_bytes
    assert sure.usable_bytes == usable and sure.peak_bytes.expected < usable
    assert sure.fit_probability >= 0.99 and 0.5 <= bold.fit_probability < 0.99
    assert sure.basis == "estimated"


def test_usable_memory_is_the_catalogues_total_less_what_others_take():
    t4 = load_catalogue().find("T4")
    free = t4.memory_total_bytes - t4.memory_reserved_bytes
    assert free - 2 * GIB < target_of(t4).usable_bytes < free - GIB


def test_a_board_without_units_for_the_dtype_gets_no_row_that_fits():
    found = row(plan(gpus=["V100"]), "V100-SXM2-16GB")  # the study is bfloat16
    assert not found.fits
    assert "holds mixed_bfloat16 alone" in found.why_not and "--precision" in found.why_not


def test_hours_cost_and_energy():
    found = plan(gpus=["A100-80GB", "H100"], samples_per_epoch=1_000_000, epochs=3, prices=PRICES)
    a100, h100 = row(found, "A100-SXM-80GB"), row(found, "H100-SXM-80GB")
    assert a100.hours.expected == pytest.approx(3e6 / a100.samples_per_s.expected / 3600)
    assert a100.cost.expected == pytest.approx(2 * a100.hours.expected)
    assert a100.kwh.expected == pytest.approx(0.4 * a100.hours.expected)  # 400 W
    assert h100.samples_per_s.expected > a100.samples_per_s.expected
    assert h100.hours.low < h100.hours.expected < h100.hours.high and h100.rate_basis == "estimated"
    own, other = (r.hours.high / r.hours.low for r in (a100, h100))
    assert other > own
    assert [r.cost.expected for r in found.rows] == sorted(r.cost.expected for r in found.rows)


def test_sorted_by_what_was_asked():
    question = {"gpus": ["A100-80GB", "H100"], "samples_per_epoch": 10**6, "epochs": 1, "prices": PRICES}
    by_time = [r.hours.expected for r in plan(**question, sort="time").rows]
    by_energy = [r.kwh.expected for r in plan(**question, sort="energy").rows]
    assert by_time == sorted(by_time) and by_energy == sorted(by_energy)


def test_epochs_alone_take_the_data_sets_size():
    found = plan(epochs=2)
    assert found.rows[0].hours.expected == pytest.approx(2 * 50_000 / found.rows[0].samples_per_s.expected / 3600)


def test_a_missed_deadline_and_budget_say_by_how_much():
    question = {"samples_per_epoch": 10**8, "epochs": 10, "prices": PRICES}
    late = plan(**question, deadline="1h").rows[0]
    assert late.fits and late.why_not.startswith("takes ") and "the deadline is 1h 00m" in late.why_not
    dear = plan(**question, budget_cost=1).rows[0]
    assert "the budget is 1" in dear.why_not
    assert plan(**question, deadline="9999h").rows[0].why_not is None


def test_several_gpus_share_the_batch_and_pay_for_the_exchange():
    found = plan(counts=(1, 2, 4, 3), samples_per_epoch=10**6, epochs=1)
    one, two, four = (row(found, "A100-SXM-80GB", n) for n in (1, 2, 4))
    assert two.micro_batch * two.accumulation_steps == 256 and four.micro_batch * four.accumulation_steps == 128
    assert one.samples_per_s.expected < two.samples_per_s.expected < 2 * one.samples_per_s.expected
    assert row(found, "A100-SXM-80GB", 3).why_not == "the global batch 512 cannot be shared evenly by 3 GPUs"
    slow = plan(counts=(4,), link_bytes_per_s=1e9).rows[0]
    assert slow.samples_per_s.expected < four.samples_per_s.expected


def test_where_nothing_fits_it_says_what_would():
    heavy = gpu_study(static=60 * GIB)
    found = row(plan(heavy, gpus=["RTX-4090"]), "RTX-4090")
    assert not found.fits and found.micro_batch is None and found.fit_probability < 0.05
    assert "needs" in found.why_not and "usable" in found.why_not and "model parallelism" in found.why_not


def test_what_it_takes_is_named_with_the_bytes_where_the_model_is_at_hand():
    found = plan(cpu_study({m: (9 * GIB) + m * 2**20 for m in (1, 2, 4, 8)}, batch=64), gpus=["GTX-1650"])
    why = found.rows[0].why_not
    assert "an optimizer without state (SGD) saves 16.6 MiB" in why and "one step instead" in why


def test_the_inverse_question():
    found = plan(memory_for=320)
    assert not found.rows and len(found.needs) >= 1
    need = found.needs[0]
    assert need.usable_bytes > need.peak.expected == pytest.approx(14.5 * GIB, rel=0.1)
    boards = dict(zip(found.needs_table["smallest_gpu"], found.boards, strict=True))
    assert "T4" not in found.boards[0] and "A100-SXM-80GB" in found.boards[0] and len(boards) == len(found.needs)


def test_a_cpu_study_gives_memory_only():
    found = plan(cpu_study(STRAIGHT), gpus=["T4", "A100-80GB"])
    assert all(r.fits and r.samples_per_s is None and r.peak_bytes is not None for r in found.rows)
    assert any("measured on a CPU" in note for note in found.notes)
    for hours in ({"epochs": 1}, {"deadline": "24h"}, {"samples_per_epoch": 10}, {"sort": "cost"}):
        with pytest.raises(UsageError, match="ran on a CPU, which says nothing about a GPU's throughput"):
            plan(cpu_study(STRAIGHT), gpus=["T4"], **hours)


def test_16_bit_peaks_of_a_cpu_are_no_forecast_of_a_gpu():
    study = cpu_study(STRAIGHT)
    odd = [
        completed(10 + i, m, 50, 9 * GIB, precision="mixed_float16", global_batch=1024) for i, m in enumerate((16, 64))
    ]
    mixed = replace(study, records=study.records + tuple(odd))
    assert row(plan(mixed, gpus=["T4"]), "T4").precision == "float32"


def test_the_table_is_a_frame_with_missing_values():
    found = plan(cpu_study(STRAIGHT), gpus=["T4"])
    table = found.table
    assert list(table.columns[:5]) == ["gpu", "count", "fits", "micro_batch", "accumulation_steps"]
    assert table["samples_per_s"].isna().all() and str(table["peak_bytes"].dtype) == "Int64"


def test_ranges():
    found = Range(low=8, expected=10, high=16)
    assert found.chance_within(10) == pytest.approx(0.5) and found.chance_within(16) == pytest.approx(0.95, abs=0.01)
    assert found.chance_within(8) == pytest.approx(0.05, abs=0.01)
    assert found.inverted(80) == Range(low=5, expected=8, high=10)
    wide = found.widened(0.3)
    assert wide.low < found.low and wide.high > found.high and wide.expected == 10
