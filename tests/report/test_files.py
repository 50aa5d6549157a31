"""The files of a study's folder."""

import pytest

from autotune.config import TunedConfig
from autotune.report.files import replace_file, write_charts, write_study_files
from tests.sample_studies import empty_study, hopeless_study, rich_study

ALWAYS = ["trials.csv", "trials.parquet", "pareto.csv", "report.html", "pareto.png"]


def test_names_are_those_of_the_contract(tmp_path):
    folder = tmp_path / "deep" / "results"
    written = write_study_files(rich_study(), folder)
    assert [p.name for p in written] == [*ALWAYS, "tuned.toml"]
    assert sorted(p.name for p in folder.iterdir()) == sorted(p.name for p in written), "nothing half-written is left"
    assert TunedConfig.load(folder / "tuned.toml", check=False) == TunedConfig.from_study(rich_study())


def test_other_formats_on_request(tmp_path):
    written = write_study_files(rich_study(), tmp_path, formats=("json", "yaml"))
    configs = [TunedConfig.load(p, check=False) for p in written if p.stem == "tuned"]
    assert len(configs) == 3 and configs[0] == configs[1] == configs[2]


@pytest.mark.parametrize("study", [empty_study(), hopeless_study()], ids=lambda s: s.name)
def test_without_a_choice_there_is_no_config(tmp_path, study):
    assert [p.name for p in write_study_files(study, tmp_path)] == ALWAYS


def test_writing_again_replaces(tmp_path):
    write_study_files(hopeless_study(), tmp_path)
    before = (tmp_path / "trials.csv").read_bytes()
    write_study_files(rich_study(), tmp_path)
    assert (tmp_path / "trials.csv").read_bytes() != before


def test_a_failed_write_leaves_the_old_file_and_no_rubbish(tmp_path):
    target = tmp_path / "trials.csv"
    target.mkdir()
    (target / "kept").write_text("x")
    with pytest.raises(OSError):
        replace_file(target, b"new")
    assert [p.name for p in tmp_path.iterdir()] == ["trials.csv"]


def test_charts(tmp_path):
    names = [p.name for p in write_charts(rich_study(), tmp_path)]
    assert names[:2] == ["pareto.png", "pareto.svg"] and len(names) == 10
