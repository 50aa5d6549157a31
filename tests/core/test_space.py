"""The space: exact global batches, no duplicates, restrictions that say what is wrong."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.core.axes.micro_batch import balanced_sizes
from autotune.core.space import build_space, default_axes, parse_axis

ALL = {
    "precision": ("float32", "mixed_float16"),
    "execution": ("fused", "stepped", "unrolled"),
    "jit_compile": (False, True),
    "recompute": (False, True),
}


@given(batch=st.integers(1, 3000), alignment=st.sampled_from([1, 8, 16]))
@settings(max_examples=200, deadline=None)
def test_sizes_hold_every_number_of_steps_once_and_are_balanced(batch, alignment):
    sizes = balanced_sizes(batch, alignment)
    steps = [-(-batch // size) for size in sizes]
    assert sizes[0] == batch
    assert sizes[-1] == 1
    assert list(sizes) == sorted(set(sizes), reverse=True)
    assert len(set(steps)) == len(steps)
    # Every number of steps that balanced micro-batches can give is there.
    assert set(steps) == {-(-batch // -(-batch // n)) for n in range(1, batch + 1)}
    for size, n in zip(sizes, steps, strict=True):
        smallest = -(-batch // n)
        assert smallest <= size < smallest + alignment


def test_sizes_that_people_quote():
    assert balanced_sizes(256)[:6] == (256, 128, 86, 64, 52, 43)
    assert balanced_sizes(256, 8)[:6] == (256, 128, 88, 64, 56, 48)
    assert balanced_sizes(100)[:3] == (100, 50, 34)


def test_candidates_are_exact_and_unique():
    space = build_space(256, axes=ALL)
    candidates = space.candidates()
    assert len(set(candidates)) == len(candidates)
    assert {c.global_batch for c in candidates} == {256}
    for c in candidates:
        assert (c.accumulation_steps - 1) * c.micro_batch < 256 <= c.accumulation_steps * c.micro_batch


def test_one_step_has_one_execution():
    full = [c for c in build_space(64, axes=ALL).candidates() if c.accumulation_steps == 1]
    assert {c.execution for c in full} == {"fused"}
    assert len(full) == 2 * 2 * 2
    only = build_space(64, axes=ALL, restrictions=[parse_axis("execution=unrolled,stepped")]).candidates()
    assert {c.execution for c in only if c.accumulation_steps == 1} == {"unrolled"}


def test_loss_scale_is_for_float16_only():
    space = build_space(8, axes=ALL, restrictions=[parse_axis("initial_loss_scale=1024..4096")])
    scales = {(c.precision, c.initial_loss_scale) for c in space.candidates()}
    assert scales == {("float32", None), *(("mixed_float16", s) for s in (1024.0, 2048.0, 4096.0))}


def test_axes_that_are_not_offered_stay_none():
    candidates = build_space(12, axes={}).candidates()
    assert [c.micro_batch for c in candidates] == [12, 6, 4, 3, 2, 1]
    assert {(c.precision, c.execution, c.jit_compile, c.recompute) for c in candidates} == {(None, None, None, None)}
    added = build_space(12, axes={}, restrictions=[parse_axis("jit_compile=on,off")]).candidates()
    assert {c.jit_compile for c in added} == {True, False}


def test_replicas_share_the_global_batch():
    candidates = build_space(64, replicas=4, axes={}).candidates()
    assert candidates[0].micro_batch == 16
    assert {c.replicas for c in candidates} == {4}
    with pytest.raises(ValueError, match="cannot be shared evenly by 4 replicas; use 60 or 64"):
        build_space(62, replicas=4, axes={})


def test_restrictions():
    sizes = {
        c.micro_batch for c in build_space(256, axes={}, restrictions=[parse_axis("micro_batch=8..64")]).candidates()
    }
    assert min(sizes) == 8
    assert max(sizes) == 64
    assert 128 not in sizes
    # A size that the user names is used as it is, balanced or not.
    named = build_space(256, axes={}, restrictions=[parse_axis("micro_batch=100,30")]).candidates()
    assert [c.micro_batch for c in named] == [100, 30]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: parse_axis("precison=float32"), "no axis named 'precison'; did you mean 'precision'"),
        (lambda: parse_axis("precision=mixed_floaty16"), "did you mean 'mixed_float16'"),
        (lambda: parse_axis("banana=1"), "known: global_batch, micro_batch, precision, execution"),
        (lambda: parse_axis("jit_compile=maybe"), "jit_compile is on or off, got 'maybe'"),
        (lambda: parse_axis("jit_compile"), "write an axis as jit_compile=VALUE"),
        (lambda: parse_axis("micro_batch=0"), "whole number of at least 1, got '0'"),
        (lambda: parse_axis("micro_batch=1.5"), "whole number of at least 1, got '1.5'"),
        (lambda: parse_axis("micro_batch=64..8"), "write the smaller number first"),
        (lambda: parse_axis("execution=fused..stepped"), "execution has no order"),
        (lambda: parse_axis("initial_loss_scale=3..3.5"), "holds no power of two"),
        (lambda: parse_axis("initial_loss_scale=-1"), "must be a number above 0"),
        (lambda: build_space(0, axes={}), "at least 1, got 0"),
        (lambda: build_space(True, axes={}), "at least 1, got True"),
        (lambda: build_space(200, dataset_size=100, axes={}), r"larger than the data set \(100 samples\)"),
        (lambda: build_space(64, axes={}, restrictions=[parse_axis("micro_batch=128")]), "use at most 64"),
        (
            lambda: build_space(64, axes={}, restrictions=[parse_axis("micro_batch=40..60")]),
            "no micro-batch between 40 and 60 .*nearest are 32 and 64",
        ),
        (lambda: build_space(64, axes={"colour": ("red",)}), "no axis named 'colour'"),
    ],
)
def test_errors_name_the_thing_and_the_mend(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


def test_defaults_by_device():
    offered = ("precision", "execution", "jit_compile", "initial_loss_scale")
    cpu = default_axes(offered, device_kind="cpu")
    assert cpu["precision"] == ("float32",)
    assert "float32" in default_axes(offered, device_kind="gpu")["precision"]
    assert {c.initial_loss_scale for c in build_space(8, axes=cpu).candidates()} == {None}


def test_axes_as_text_for_the_job():
    text = build_space(4, axes=ALL, restrictions=[parse_axis("jit_compile=off")]).axes_text()
    assert text["micro_batch"] == ("4", "2", "1")
    assert text["jit_compile"] == ("off",)
    assert text["recompute"] == ("off", "on")
