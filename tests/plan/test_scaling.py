"""Throughput on other GPUs and on several, against published tables."""

import itertools
import math
import statistics
import tomllib
from pathlib import Path

import pytest

from autotune.core.plan.scaling import (
    RATIO_ERROR,
    Work,
    all_reduce_s,
    link_speed,
    peak_flops,
    runs_at_speed,
    time_ratio,
)
from autotune.probe.catalogue import load_catalogue

PUBLIC = tomllib.loads((Path(__file__).parent / "data" / "public_throughput.toml").read_text())
CATALOGUE = load_catalogue()


def board(name):
    return CATALOGUE.find(name)


def predicted_ratios():
    """(logarithmic error, model, tables' precision) of every ordered pair of GPUs in every public table."""
    counted = {name: Work(**values) for name, values in PUBLIC["work"].items()}
    found = []
    for table in PUBLIC["table"]:
        for column, model in enumerate(table["columns"]):
            for a, b in itertools.permutations(table["gpus"], 2):
                source, target = board(a), board(b)
                work = counted.get(PUBLIC["like"].get(model, model))
                ratio = time_ratio(source, target, table["precision"], work)
                measured = table["gpus"][a][column] / table["gpus"][b][column]
                found.append((math.log(ratio.expected / measured), ratio.holds(measured), model, table["precision"]))
    return found


def test_ratios_of_public_tables():
    found = predicted_ratios()
    assert len(found) > 1500
    errors = [math.exp(abs(error)) - 1 for error, *_ in found]
    assert statistics.median(errors) < 0.18 and statistics.mean(errors) < 0.24
    held = sum(h for _, h, *_ in found) / len(found)
    assert 0.80 <= held <= 0.98


def test_two_tables_of_independent_publishers():
    assert len({table["source"].split(",")[0] for table in PUBLIC["table"]}) >= 2


@pytest.mark.parametrize("precision", ["float32", "mixed_float16", "mixed_bfloat16"])
def test_the_same_board_changes_nothing(precision):
    ratio = time_ratio(board("T4"), board("T4"), precision, None)
    assert (ratio.low, ratio.expected, ratio.high) == (1, 1, 1)


def test_there_and_back_again_is_where_it_began():
    work = Work(flops_per_sample=1e11, bytes_per_sample=1e9)
    there = time_ratio(board("T4"), board("H100"), "mixed_float16", work)
    back = time_ratio(board("H100"), board("T4"), "mixed_float16", work)
    assert there.expected * back.expected == pytest.approx(1)
    assert there.high / there.expected == pytest.approx(math.exp(RATIO_ERROR))


def test_an_unknown_share_is_wider_than_a_counted_one():
    unknown = time_ratio(board("T4"), board("H100"), "mixed_float16", None)
    work = Work(flops_per_sample=1e11, bytes_per_sample=1e9)
    counted = time_ratio(board("T4"), board("H100"), "mixed_float16", work)
    assert unknown.low < counted.low and unknown.high > counted.high


def test_work_that_multiplies_more_is_more_arithmetic():
    light, heavy = Work(flops_per_sample=1e9, bytes_per_sample=1e9), Work(flops_per_sample=1e12, bytes_per_sample=1e9)
    a100 = board("A100")
    assert light.arithmetic_share(a100, "float32") < 0.1 < 0.8 < heavy.arithmetic_share(a100, "float32")
    # Faster units leave a smaller share of the time to arithmetic; 16-bit types also halve the traffic.
    assert heavy.arithmetic_share(a100, "float32") > heavy.arithmetic_share(board("H100"), "float32")


def test_units_by_dtype():
    assert peak_flops(board("A100"), "float32") == pytest.approx(156e12)  # TF32
    assert peak_flops(board("T4"), "float32") == pytest.approx(8.1e12, rel=0.01)
    assert not runs_at_speed(board("V100"), "mixed_bfloat16") and runs_at_speed(board("A100"), "mixed_bfloat16")
    assert runs_at_speed(board("GTX-1660-TI"), "mixed_float16") and runs_at_speed(board("T4"), "float32")


def test_all_reduce_moves_nearly_twice_the_gradients():
    assert all_reduce_s(1e9, 1, 1e9) == 0
    assert all_reduce_s(1e9, 8, 1e9) == pytest.approx(2 * 7 / 8)
    assert link_speed(board("A100-SXM-80GB")) > 5 * link_speed(board("A100-PCIE-80GB")) > link_speed(board("T4"))


@pytest.mark.parametrize("case", PUBLIC["scaling"], ids=lambda case: f"{case['gpu']}-{case['model']}")
def test_data_parallel_scaling_of_public_tables(case):
    """One all-reduce per update of one micro-batch, as in those benchmarks."""
    gpu, one = board(case["gpu"]), case["rates"]["1"]
    for count, rate in case["rates"].items():
        exchange = all_reduce_s(case["gradient_bytes"], int(count), link_speed(gpu))
        own = case["batch"] / one
        waits = int(count) * case["batch"] / (own + exchange)
        hides = int(count) * case["batch"] / (own + max(0.0, exchange - 2 / 3 * own))
        assert 0.85 * waits <= rate <= 1.05 * hides, (count, waits, rate, hides)
