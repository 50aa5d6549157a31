"""Tables: columns, types, missing values, and round trips through CSV and Parquet."""

import math

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from autotune.report.accumulation import accumulation_rows, full_batch_record
from autotune.report.files import csv_bytes, parquet_bytes
from autotune.report.frames import accumulation_frame, pareto_frame, read_trials_csv, trials_frame
from tests.sample_studies import empty_study, hopeless_study, rich_study

CONTRACT = """trial state reason micro_batch accumulation_steps global_batch replicas precision initial_loss_scale
    jit_compile execution recompute samples_per_s samples_per_s_low samples_per_s_high update_s peak_bytes peak_source
    nvml_peak_bytes host_peak_bytes updates_measured updates_skipped energy_j_per_sample pareto chosen wall_s"""
STUDIES = [rich_study(), empty_study(), hopeless_study()]


@pytest.mark.parametrize("study", STUDIES, ids=lambda s: s.name)
@pytest.mark.parametrize("frame_of", [trials_frame, pareto_frame])
def test_contract_columns_come_first_with_nullable_types(study, frame_of):
    frame = frame_of(study)
    assert list(frame.columns[:26]) == CONTRACT.split()
    assert {str(dtype) for dtype in frame.dtypes} <= {"Int64", "Float64", "string", "boolean"}
    assert str(frame["peak_bytes"].dtype) == "Int64" and str(frame["pareto"].dtype) == "boolean"


def test_values_and_missing_values():
    frame = trials_frame(rich_study()).set_index("trial")
    assert frame.loc[1, "samples_per_s"] == 5240.5 and frame.loc[1, "accumulation_steps"] == 4
    assert frame.loc[1, "peak_bytes"] == 76 * 2**20 + 1
    assert frame.loc[11, "accumulation_steps"] == 3
    for trial, column in ((4, "samples_per_s"), (4, "updates_skipped"), (10, "peak_bytes"), (0, "initial_loss_scale")):
        assert frame.loc[trial, column] is pd.NA, (trial, column)
    assert frame["nvml_peak_bytes"].isna().all() and frame["energy_j_per_sample"].isna().all()
    assert frame.loc[0, "updates_skipped"] == 0, "measured as zero is not missing"
    assert frame.index[frame["pareto"]].tolist() == [1, 2, 3]
    assert frame.index[frame["chosen"]].tolist() == [1]
    assert frame.loc[9, "warnings"] == "clocks throttled; another process <b>on</b> the device"
    assert frame.loc[0, "phase_memory_pass_s"] == 2.0 and frame.loc[4, "phase_memory_pass_s"] is pd.NA


def test_front_is_ordered_by_peak():
    assert pareto_frame(rich_study())["trial"].tolist() == [3, 1, 2]


@pytest.mark.parametrize("study", STUDIES, ids=lambda s: s.name)
@pytest.mark.parametrize("frame_of", [trials_frame, pareto_frame])
def test_csv_and_parquet_round_trips(tmp_path, study, frame_of):
    frame = frame_of(study)
    (tmp_path / "t.csv").write_bytes(csv_bytes(frame))
    (tmp_path / "t.parquet").write_bytes(parquet_bytes(frame))
    assert_frame_equal(read_trials_csv(tmp_path / "t.csv"), frame, check_exact=True)
    assert_frame_equal(pd.read_parquet(tmp_path / "t.parquet"), frame, check_exact=True)


def test_csv_survives_what_users_write(tmp_path):
    from autotune.core.outcome import State
    from autotune.core.study import Study
    from tests.sample_studies import failed, job

    reasons = ['a "quote", comma\nand line', "NA", "null", "=1+1", "tab\there", "ünïcode ✓", "carriage\rreturn", None]
    records = tuple(failed(i, 8, State.CRASHED, reason) for i, reason in enumerate(reasons))
    frame = trials_frame(Study(name="s", job=job(), records=records))
    (tmp_path / "t.csv").write_bytes(csv_bytes(frame))
    assert_frame_equal(read_trials_csv(tmp_path / "t.csv"), frame, check_exact=True)


def test_csv_writes_whole_numbers_whole_and_missing_empty():
    lines = csv_bytes(trials_frame(rich_study())).decode().splitlines()
    header, first = lines[0].split(","), lines[1].split(",")
    row = dict(zip(header, first, strict=True))
    assert (row["peak_bytes"], row["initial_loss_scale"], row["nvml_peak_bytes"]) == (str(180 * 2**20), "", "")


def test_accumulation_is_relative_to_one_step_of_the_same_precision():
    frame = accumulation_frame(rich_study())
    assert frame["precision"].tolist() == ["float32"] * 5 + ["mixed_float16"] * 3
    assert frame["accumulation_steps"].tolist() == [1, 2, 3, 4, 16, 1, 2, 4]
    rows = frame[frame["precision"] == "float32"].set_index("accumulation_steps")
    assert rows.loc[1, ["relative_samples_per_s", "relative_update_s", "relative_peak"]].tolist() == [1.0, 1.0, 1.0]
    assert rows.loc[4, "relative_samples_per_s"] == pytest.approx(5240.5 / 4000)
    assert rows.loc[4, "relative_update_s"] == pytest.approx(4000 / 5240.5)
    assert rows.loc[4, "relative_peak"] == pytest.approx((76 * 2**20 + 1) / (180 * 2**20))
    assert rows.loc[4, "trial"] == 1, "the lower number of two equal trials"
    assert rows.loc[4, "trials"] == 2
    assert rows.loc[2, "state"] == "crashed" and rows.loc[2, "samples_per_s"] is pd.NA
    half = frame[frame["precision"] == "mixed_float16"].set_index("accumulation_steps")
    assert half.loc[4, "relative_samples_per_s"] == pytest.approx(900 / 1100)
    assert half.loc[4, "relative_peak"] is pd.NA, "the full batch's peak was not measured"


def test_accumulation_without_a_full_batch_has_no_relatives():
    study = rich_study()
    records = tuple(r for r in study.records if r.candidate.accumulation_steps > 1)
    rows = accumulation_rows(rich_study(records=records))
    assert {row.relative_samples_per_s for row in rows} == {None} and {row.baseline for row in rows} == {None}
    assert full_batch_record(rich_study(records=records)) is None


def test_every_figure_is_finite():
    frame = accumulation_frame(rich_study())
    assert all(math.isfinite(v) for v in frame["relative_samples_per_s"].dropna())
