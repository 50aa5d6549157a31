"""``autotune report`` on real study files."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from autotune.cli.main import main
from autotune.core.outcome import State
from autotune.core.space import build_space
from autotune.search.opening import open_study
from tests.sample_studies import MIB, completed, failed, job


def store_study(folder, *, faster: float = 1.0, trials: int = 4):
    """Stores a small study the way ``tune`` does."""
    folder.mkdir(parents=True)
    asked_for = job(axes={"micro_batch": ("1..256",)})
    space = build_space(256, dataset_size=1797, axes={})
    store = open_study(folder, asked_for, space)
    fastest = None
    for _ in range(trials):
        asked = store.ask()
        size = asked.candidate.micro_batch
        made = (
            failed(asked.number, size, State.OUT_OF_MEMORY, "needs more than 200 MiB")
            if size > 200
            else completed(asked.number, size, faster * (1000.0 - size), (20 + size) * MIB)
        )
        record = replace(made, candidate=asked.candidate)
        store.tell(record)
        if record.completed and (fastest is None or record.samples_per_s > fastest.samples_per_s):
            fastest = record
    store.update(chosen=fastest.number, pareto=(fastest.number,), verdict="the verdict", command="autotune tune x")
    return folder


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return store_study(tmp_path_factory.mktemp("results") / "digits-256-cpu")


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    return store_study(tmp_path_factory.mktemp("results") / "faster", faster=2.0)


@pytest.mark.parametrize("name", ["table", "csv", "json", "markdown", "html", "latex", "parquet"])
def test_every_format_goes_to_stdout(study, capfdbinary, name):
    assert main(["report", str(study), "--format", name]) == 0
    seen = capfdbinary.readouterr()
    assert seen.out and seen.err == b""
    starts = {"csv": b"trial,state,reason,", "parquet": b"PAR1", "html": b"<!DOCTYPE html>", "json": b"{"}
    assert seen.out.startswith(starts.get(name, b""))


def test_json_is_the_same_by_both_names(study, capfdbinary):
    outputs = []
    for options in (["--json"], ["--format", "json"], ["--json", "--format", "json"]):
        assert main(["report", str(study), *options]) == 0
        outputs.append(json.loads(capfdbinary.readouterr().out))
    assert outputs[0] == outputs[1] == outputs[2] and len(outputs[0]["trials"]) == 4


def test_tables_and_phases(study, capfdbinary):
    assert main(["report", str(study), "--table", "accumulation", "--format", "csv"]) == 0
    assert capfdbinary.readouterr().out.startswith(b"precision,replicas,accumulation_steps,")
    assert main(["report", str(study), "--phases"]) == 0
    text = capfdbinary.readouterr().out.decode()
    assert "the verdict" in text and "memory pass" in text and "\x1b" not in text


def test_the_database_file_names_the_study_too(study, capfdbinary):
    assert main(["report", str(study / "study.db"), "--table", "pareto", "--format", "csv"]) == 0
    assert capfdbinary.readouterr().out.count(b"\n") == 2


def test_files_and_charts_again(study, tmp_path, capfdbinary):
    assert main(["report", str(study), "--out", str(tmp_path / "again")]) == 0
    seen = capfdbinary.readouterr()
    names = {p.name for p in (tmp_path / "again").iterdir()}
    assert {"trials.csv", "report.html", "tuned.toml", "tuned.json", "tuned.yaml", "pareto.svg", "peak.png"} <= names
    assert all(name in seen.err.decode() for name in names)


def test_several_studies_are_compared(study, other, capfdbinary):
    assert main(["report", str(study), str(other)]) == 0
    text = capfdbinary.readouterr().out.decode()
    assert "faster has 2.00x the throughput of digits-256-cpu" in text
    assert main(["report", str(study), str(other), "--json"]) == 0
    assert json.loads(capfdbinary.readouterr().out)["studies"] == ["digits-256-cpu", "faster"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["nowhere"],
        ["{study}", "--json", "--format", "csv"],
        ["{study}", "--format", "docx"],
        ["{study}", "--table", "summary"],
        ["{study}", "{study}", "--out", "x"],
        ["{study}", "{study}", "--phases"],
        ["{study}", "--out", "{study}/study.db"],
        ["{study}", "--name", "another"],
        [],
    ],
)
def test_bad_usage_is_one_sentence_and_exit_code_2(study, tmp_path, monkeypatch, capfd, arguments):
    monkeypatch.chdir(tmp_path)
    assert main(["report", *(a.format(study=study) for a in arguments)]) == 2
    seen = capfd.readouterr()
    assert seen.out == "" and seen.err.startswith("autotune: ") and seen.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "autotune", "report", *arguments]
    return subprocess.run(command, capture_output=True, env=os.environ | environment)


def test_another_encoding_and_width(study):
    done = run(str(study), PYTHONIOENCODING="ascii", COLUMNS="60")
    assert done.returncode == 0 and done.stderr == b""
    lines = done.stdout.decode("ascii").splitlines()
    assert max(len(line) for line in lines if not line.startswith(("accumulation", ">"))) <= 60


def test_no_tensorflow_is_loaded_and_no_optuna_before_it_is_needed(study):
    script = (
        "import sys; from autotune.cli.main import main; main(['report', '--help']);"
        "heavy = {'tensorflow', 'pandas', 'optuna', 'altair', 'rich'} & set(sys.modules);"
        f"main(['report', {str(study)!r}]); print(sorted(heavy), 'tensorflow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[] False", done.stderr
