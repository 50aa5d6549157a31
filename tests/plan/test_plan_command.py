"""``autotune plan`` on stored studies: every format, every refusal."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.cli.main import main
from autotune.report.plan_columns import PLAN_COLUMNS
from tests.plan.studies import GIB, cpu_study, gpu_study, stored, without_peak
from tests.sample_studies import MIB, completed

PEAKS = {m: (400 + 8 * m) * MIB for m in (16, 32, 64, 128)}
HOURS = ["--samples-per-epoch", "1000000", "--epochs", "90"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("results")


@pytest.fixture(scope="module")
def gpu(folder):
    return stored(gpu_study(), folder / "gpu")


@pytest.fixture(scope="module")
def cpu(folder):
    return stored(cpu_study(PEAKS), folder / "cpu")


def run(capfdbinary, *arguments) -> tuple[int, str, str]:
    code = main(["plan", *map(str, arguments)])
    seen = capfdbinary.readouterr()
    return code, seen.out.decode("utf-8", "replace"), seen.err.decode()


def test_json_is_the_documented_one(gpu, capfdbinary):
    code, out, _ = run(capfdbinary, gpu, "--gpus", "T4,A100-80GB", "--json")
    document = json.loads(out)
    assert code == 0 and document["schema_version"] == 1 and len(document["rows"]) == 2
    by_gpu = {row["gpu"]: row for row in document["rows"]}
    a100 = by_gpu["A100-SXM-80GB"]
    assert a100["fits"] is True and a100["peak_bytes_low"] <= a100["peak_bytes"] <= a100["peak_bytes_high"]
    assert {
        "count",
        "micro_batch",
        "accumulation_steps",
        "samples_per_s",
        "hours",
        "cost",
        "kwh",
        "basis",
        "why_not",
    } <= set(a100)


@pytest.mark.parametrize("name", ["table", "csv", "json", "markdown", "html", "latex", "parquet"])
def test_every_format_goes_to_stdout(cpu, capfdbinary, name):
    assert main(["plan", str(cpu), "--gpus", "T4,H100", "--format", name]) == 0
    out = capfdbinary.readouterr().out
    starts = {"csv": b"gpu,count,fits,", "parquet": b"PAR1", "html": b"<!DOCTYPE html>", "json": b"{"}
    assert out.startswith(starts.get(name, b"")) and (name == "parquet" or b"H100-SXM-80GB" in out)


def test_a_deadline_with_prices(gpu, folder, monkeypatch, capfdbinary):
    monkeypatch.setenv("COLUMNS", "240")
    prices = folder / "prices.toml"
    prices.write_text('[per_hour]\n"A100-80GB" = 2.0\nH100 = 4.5\n')
    question = ["--gpus", "A100-80GB,H100,A10", "--prices", prices, "--deadline", "10h", "--budget-cost", "20"]
    code, out, _ = run(capfdbinary, gpu, *question, *HOURS, "--counts", "1,4")
    assert code == 0 and "the deadline is 10h 00m" in out and "the budget is 20" in out
    assert "the prices have no A10" in out and "hours" in out and "kWh" in out


def test_the_chart(gpu, folder, capfdbinary):
    code, _, err = run(capfdbinary, gpu, "--gpus", "T4,A100-80GB", *HOURS, "--chart", folder / "plan.png")
    assert code == 0 and f"wrote {folder / 'plan.png'}" in err
    assert (folder / "plan.png").read_bytes().startswith(b"\x89PNG")
    assert main(["plan", str(gpu), "--chart", str(folder / "plan.svg")]) == 0
    assert (folder / "plan.svg").read_text().startswith("<svg")


def test_the_inverse_question(gpu, capfdbinary):
    code, out, _ = run(capfdbinary, gpu, "--memory-for", "64", "--json")
    document = json.loads(out)
    assert code == 0 and document["schema_version"] == 1
    assert document["rows"][0]["micro_batch"] == 64 and document["rows"][0]["usable_bytes"] > 4 * GIB
    code, out, _ = run(capfdbinary, gpu, "--memory-for", "64")
    assert code == 0 and "must be usable" in out


@pytest.mark.parametrize(
    ("study", "arguments", "sentence"),
    [
        ("cpu", ["--gpus", "A1OO-80GB"], "did you mean A100-"),
        ("cpu", ["--gpus", "T4", *HOURS], "the study ran on a CPU, which says nothing about a GPU's throughput"),
        ("cpu", ["--gpus", "T4", "--deadline", "24h"], "the study ran on a CPU"),
        ("gpu", ["--deadline", "24h"], "give --samples-per-epoch and --epochs"),
        ("gpu", ["--budget-cost", "5", *HOURS], "a budget needs your prices"),
        ("gpu", ["--confidence", "2"], "a probability from 0.5 to below 1"),
        ("gpu", ["--counts", "0"], "a whole number of at least 1"),
        ("gpu", ["--prices", "nowhere.toml", *HOURS], "the prices nowhere.toml cannot be read"),
        ("gpu", ["--chart", "plan.pdf"], "a chart is a .png or a .svg"),
        ("gpu", ["--json", "--format", "csv"], "contradict each other"),
        ("gpu", ["--validate", "--gpus", "T4"], "--gpus is no part of --validate"),
        ("gpu", ["--validate"], "train.py is not here, or has changed since the study"),
    ],
)
def test_a_refusal_is_one_sentence_and_exit_code_2(
    request, tmp_path, monkeypatch, capfdbinary, study, arguments, sentence
):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capfdbinary, request.getfixturevalue(study), *arguments)
    assert code == 2 and out == "" and sentence in err
    assert err.startswith("autotune: ") and err.count("\n") == 1


def refused(study, folder, capfdbinary, *arguments) -> str:
    code, out, err = run(capfdbinary, stored(study, folder / study.name), *arguments)
    assert code == 2 and out == "" and err.count("\n") == 1
    return err


def test_a_study_with_one_feasible_point(folder, capfdbinary):
    one = cpu_study({64: 500 * MIB}, name="one")
    assert "the study has micro-batch 64 alone: run 'autotune tune'" in refused(
        one, folder, capfdbinary, "--gpus", "T4"
    )


def test_a_study_without_peaks(folder, capfdbinary):
    study = cpu_study(PEAKS)
    bare = replace(study, name="bare", records=tuple(map(without_peak, study.records)))
    assert "has no trial with a peak" in refused(bare, folder, capfdbinary)


def test_mixed_machines(folder, capfdbinary):
    study = gpu_study()
    other = completed(9, 256, 900.0, 9 * GIB, global_batch=512)  # measured by the CPU's allocator
    mixed = replace(study, name="mixed", records=(*study.records, other))
    assert "mixes machines: its peaks are from tf_allocator_gpu and tf_bfc_cpu" in refused(mixed, folder, capfdbinary)


def test_an_unlisted_gpu_cannot_be_compared(folder, capfdbinary):
    study = gpu_study()
    name = "NVIDIA Nonesuch 9000"
    odd_job = replace(
        study.job, device=replace(study.job.device, name=name), hardware=replace(study.job.hardware, device=name)
    )
    odd = replace(study, name="odd", job=odd_job)
    folder_of = stored(odd, folder / "odd")
    code, out, err = run(capfdbinary, folder_of, "--gpus", "T4")
    assert code == 2 and f"the study's GPU '{name}' is not in the catalogue" in err and "gpus.toml" in err
    code, out, _ = run(capfdbinary, folder_of)
    assert code == 0 and name in out


def test_no_study_there(capfdbinary, tmp_path):
    code, _, err = run(capfdbinary, tmp_path / "nothing", "--gpus", "T4")
    assert code == 2 and "there is no study at" in err and "add --dry" in err


def test_no_tensorflow_is_loaded(cpu):
    script = (
        "import sys; from autotune.cli.main import main; main(['plan', '--help']);"
        "heavy = {'tensorflow', 'pandas', 'optuna', 'altair', 'rich'} & set(sys.modules);"
        f"main(['plan', {str(cpu)!r}, '--gpus', 'T4']); print(sorted(heavy), 'tensorflow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[] False", done.stderr


def test_the_documentation_names_every_column():
    text = (Path(__file__).parents[2] / "docs" / "plan.md").read_text()
    for column in PLAN_COLUMNS:
        assert f"| `{column.name}` | {column.meaning} |" in text
