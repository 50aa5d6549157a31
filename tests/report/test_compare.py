"""Studies side by side."""

from dataclasses import replace

import pytest

from autotune.core.study import Study
from autotune.core.tuned import Hardware, Software
from autotune.report.compare import change, compare, comparison_rows
from autotune.report.compare_sheet import comparison_sheet
from tests.sample_studies import completed, empty_study, job, measured, rich_study


def faster(study: Study, factor: float, **changes) -> Study:
    records = []
    for record in study.records:
        if record.completed:
            rate = record.samples_per_s * factor
            record = replace(record, outcome=replace(record.outcome, throughput=measured(rate)))
        records.append(record)
    return replace(study, records=tuple(records), **changes)


def test_a_change_counts_only_beyond_both_intervals():
    base = measured(1000.0, spread=0.02)  # 980 to 1010
    assert change(base, measured(1030.0, spread=0.02)) == "within intervals"  # from 1009.4
    assert change(base, measured(1031.0, spread=0.02)) == "faster"  # from 1010.4
    assert change(base, measured(970.0, spread=0.02)) == "slower"  # to 979.7
    assert change(base, measured(971.0, spread=0.02)) == "within intervals"  # to 980.7
    assert change(base, base) == "within intervals"


def test_candidates_are_matched_and_related_to_the_first_study():
    comparison = compare([rich_study(), faster(rich_study(), 1.5, name="new")])
    assert comparison.labels == ("digits-256-cpu", "new")
    assert len(comparison.candidates) == 7, "those that completed in both"
    assert {c.changes for c in comparison.candidates} == {("baseline", "faster")}
    for item in comparison.candidates:
        assert item.relative_samples_per_s == (1.0, pytest.approx(1.5))
    assert comparison.verdicts == (
        "new has 1.50x the throughput of digits-256-cpu over 7 common candidates (geometric mean), beyond the "
        "intervals in 7; its chosen configuration has 1.50x that of digits-256-cpu's, beyond the intervals",
    )


def test_equal_studies_differ_in_nothing():
    comparison = compare([rich_study(), rich_study()])
    assert comparison.labels == ("digits-256-cpu (1)", "digits-256-cpu (2)")
    assert comparison.differences == () and "beyond the intervals in 0" in comparison.verdicts[0]
    assert "within the intervals" in comparison.verdicts[0]
    assert "hardware, software, workload and job are the same" in comparison_sheet([rich_study(), rich_study()]).text


def test_what_differs_is_listed_with_every_value():
    other = job(
        hardware=Hardware(device="Tesla T4", kind="gpu", memory_bytes=16 * 2**30, compute_capability="7.5"),
        software=Software(autotune="0.1.0", python="3.11.7", tensorflow="2.22.0", keras="3.15.1"),
        seed=2,
        axes={"precision": ("float32",), "micro_batch": ("1..256",)},
    )
    comparison = compare([rich_study(), rich_study(name="gpu", job=other)])
    found = {(d.topic, d.name): d.values for d in comparison.differences}
    assert found[("hardware", "device")] == ("CPU, 2 cores", "Tesla T4")
    assert found[("hardware", "compute_capability")] == (None, "7.5")
    assert found[("software", "tensorflow")] == ("2.21.0", "2.22.0")
    assert found[("job", "seed")] == ("1", "2")
    assert found[("job", "axis precision")] == ("float32, mixed_float16", "float32")
    assert ("software", "keras") not in found and ("workload", "source_hash") not in found
    text = comparison_sheet([rich_study(), rich_study(name="gpu", job=other)]).text
    assert "  hardware, memory bytes: A 8.00 GiB; B 16.0 GiB" in text
    assert "  hardware, cpu: A Example CPU; B not known" in text


def test_three_studies_and_one_that_has_little():
    few = Study(name="few", job=job(), records=(completed(0, 64, 6000.0, 10, jit_compile=True),))
    comparison = compare([rich_study(), few, empty_study()])
    (shared,) = comparison.candidates
    assert shared.changes == ("baseline", "faster", None) and shared.records[1].number == 0
    assert comparison.verdicts[1] == "digits-256-cpu and empty have no completed candidate in common"
    assert [row["study"] for row in comparison_rows(comparison)] == ["digits-256-cpu", "few"]


def test_sheet_has_exact_rows_for_files_and_rounded_columns_for_people():
    sheet = comparison_sheet([rich_study(), faster(rich_study(), 0.5, name="slow")], width=100)
    rows = sheet.frame[sheet.frame["trial"] == 1]
    assert rows["study"].tolist() == ["digits-256-cpu", "slow"]
    assert rows["change"].tolist() == ["baseline", "slower"] and rows["chosen"].tolist() == [True, True]
    assert rows["relative_samples_per_s"].tolist() == [1.0, 0.5]
    assert "64 x 4 float32 fused jit" in sheet.text and "0.50x -" in sheet.text
