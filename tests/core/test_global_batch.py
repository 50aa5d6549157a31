"""A global batch that may vary: the space, the search, and what it asks of the learning rate."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.core.axes.micro_batch import balanced_sizes
from autotune.core.learning_rate import advice, learning_rate_rules
from autotune.core.policy import Proposal, Stop, next_candidate
from autotune.core.space import build_space, parse_axis
from autotune.errors import UsageError
from autotune.prepare import parse_global_batch
from tests.fakes.landscapes import drawn_gpu


def varied(text="256..2048", **options):
    said = [parse_axis(f"global_batch={text}"), *map(parse_axis, options.pop("said", ()))]
    return build_space(256, axes={"jit_compile": (False, True)}, restrictions=said, **options)


def test_the_batches_of_a_range_are_exact_and_each_has_its_own_balanced_sizes():
    space = varied()
    assert space.axes_text()["global_batch"] == ("256", "512", "1024", "2048")
    for batch in (256, 512, 1024, 2048):
        own = {c.micro_batch for c in space.candidates() if c.global_batch == batch}
        assert own == set(balanced_sizes(batch))
    assert len(set(space.candidates())) == len(space.candidates())
    assert varied("256..1000").axes_text()["global_batch"] == ("256", "512", "1000")


def test_one_batch_is_no_axis():
    assert build_space(256, axes={}).axes_text().keys() == {"micro_batch"}
    assert varied("256").candidates() == build_space(256, axes={"jit_compile": (False, True)}).candidates()


def test_restrictions_and_errors():
    sizes = {c.micro_batch for c in varied(said=["micro_batch=100"]).candidates()}
    assert sizes == {100}
    with pytest.raises(ValueError, match="global batch 2048 is larger than the data set"):
        varied(dataset_size=1500)
    with pytest.raises(ValueError, match="write the smaller number first"):
        varied("512..256")
    with pytest.raises(ValueError, match="cannot be shared evenly by 3 replicas"):
        varied("258..2048", replicas=3)


def test_what_the_user_writes():
    assert parse_global_batch(256) == (256, ())
    assert parse_global_batch("256") == (256, ())
    assert parse_global_batch("256..2048") == (256, ("global_batch=256..2048",))
    with pytest.raises(UsageError, match=r"LOW\.\.HIGH"):
        parse_global_batch("many")


def test_the_search_finds_the_best_batch_too():
    scene = drawn_gpu(2)
    batches = (scene.space.global_batch, 2 * scene.space.global_batch, 4 * scene.space.global_batch)
    axes = {name: values for name, values in scene.space.axes if name != "micro_batch"}
    said = [parse_axis(f"global_batch={batches[0]}..{batches[-1]}")]
    space = build_space(batches[0], alignment=8, axes=axes, restrictions=said)
    scene = replace(scene, space=space, limit=4 * scene.limit)
    records = []
    for number in range(24):
        decision = next_candidate(space, records, memory_limit_bytes=scene.limit)
        if isinstance(decision, Stop):
            break
        assert isinstance(decision, Proposal)
        records.append(scene.trial(number, decision.candidate))
    best = max((r for r in records if r.completed), key=lambda r: r.samples_per_s)
    assert scene.rate(best.candidate) >= 0.98 * scene.rate(scene.best())
    assert records[0].candidate.global_batch == batches[0]
    reference = next(r for r in records if r.candidate.accumulation_steps == 1)
    assert reference.candidate.global_batch == batches[0]


def test_the_rules_and_their_sources():
    rules = {rule.name: rule for rule in learning_rate_rules(64, 256)}  # 4 steps added at a micro-batch of 64
    assert {name: rule.factor for name, rule in rules.items()} == {"none": 1.0, "sqrt": 2.0, "linear": 4.0}
    assert all("arXiv" in rule.source and rule.holds for rule in rules.values())
    assert {rule.factor for rule in learning_rate_rules(256, 256)} == {1.0}
    assert [rule.factor for rule in learning_rate_rules(256, 64)] == [1.0, 0.5, 0.25]
    assert advice(256, 256) is None
    sentence = advice(256, 1024)
    assert "global batch 1024 instead of 256" in sentence
    assert "by 2 for Adam" in sentence and "by 4 for SGD" in sentence and "2205.10287" in sentence
    with pytest.raises(ValueError, match="at least 1"):
        learning_rate_rules(0, 1)
