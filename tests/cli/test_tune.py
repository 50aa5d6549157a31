"""The main job as a user runs it: real processes, real training, real memory limits."""

import json
import sqlite3
import subprocess
import sys

import pandas as pd
import pytest

import autotune as package
from tests.cli.conftest import autotune

FIRST_COLUMNS = [
    *("trial", "state", "reason", "micro_batch", "accumulation_steps", "global_batch", "replicas", "precision"),
    *("initial_loss_scale", "jit_compile", "execution", "recompute", "samples_per_s", "samples_per_s_low"),
    *("samples_per_s_high", "update_s", "peak_bytes", "peak_source", "nvml_peak_bytes", "host_peak_bytes"),
    *("updates_measured", "updates_skipped", "energy_j_per_sample", "pareto", "chosen", "wall_s"),
]
TRIALS = (2, 3)  # how many of the three candidates are worth a trial depends on how fast the machine turns out to be


def test_a_study_ends_with_the_table_the_choice_and_the_paths(mlp_study):
    folder, done = mlp_study
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[0].startswith("no GPU is used: trials run on the CPU")
    assert "[1/3]" in done.stderr
    assert "chosen: micro-batch" in done.stdout
    for name in ("trials.csv", "trials.parquet", "pareto.csv", "tuned.toml", "report.html", "pareto.png"):
        assert (folder / name).stat().st_size > 0
        assert name in done.stdout
    assert (folder / "study.db").is_file()


def test_every_line_of_the_result_fits_80_columns_up_to_the_choice(mlp_study):
    table = mlp_study[1].stdout.split("chosen:")[0]
    assert max(map(len, table.splitlines())) <= 80


def test_the_tables_have_the_promised_columns(mlp_study):
    folder, _ = mlp_study
    for frame in (pd.read_csv(folder / "trials.csv"), pd.read_parquet(folder / "trials.parquet")):
        assert list(frame.columns[: len(FIRST_COLUMNS)]) == FIRST_COLUMNS
        assert len(frame) in TRIALS
        assert (frame.state == "completed").all()
        assert frame.chosen.sum() == 1
        assert (frame.global_batch == 256).all()
        assert (frame.micro_batch * frame.accumulation_steps >= 256).all()
        assert (frame.peak_bytes.between(2_000_000, 200 << 20)).all()
        assert (frame.peak_source == "tf_bfc_cpu").all()
        assert frame.nvml_peak_bytes.isna().all()
        assert (frame.samples_per_s_low <= frame.samples_per_s).all()
        assert (frame.samples_per_s <= frame.samples_per_s_high).all()


def test_the_tuned_config_reads_back_equal_and_gives_settings(mlp_study):
    folder, _ = mlp_study
    config = package.TunedConfig.load(folder / "tuned.toml")
    chosen = pd.read_parquet(folder / "trials.parquet").query("chosen").iloc[0]
    settings = config.settings()
    assert (settings.micro_batch, settings.accumulation_steps) == (chosen.micro_batch, chosen.accumulation_steps)
    assert settings.global_batch == 256
    assert settings.jit_compile == chosen.jit_compile
    config.save(folder.parent / "again.toml")
    assert package.TunedConfig.load(folder.parent / "again.toml") == config


def test_an_ordinary_optuna_study_is_left(mlp_study):
    import optuna

    folder, _ = mlp_study
    study = optuna.load_study(study_name="study", storage=f"sqlite:///{folder / 'study.db'}")
    assert len(study.trials) in TRIALS
    assert [d.name for d in study.directions] == ["MAXIMIZE", "MINIMIZE"]


def test_an_existing_study_is_refused_and_resumed_on_request(mlp_study):
    folder, _ = mlp_study
    refused = autotune("tune", "mlp", "--global-batch", 256, "--out", folder, cwd=folder.parent)
    assert refused.returncode == 2
    assert "--resume" in refused.stderr
    before = _finished(folder)
    other = autotune(
        "tune", "mlp", "--global-batch", 128, "--out", folder, "--resume", "--seed", 1, "--memory-limit", "200MiB",
        "--axis", "execution=fused", "--axis", "jit_compile=off", "--axis", "micro_batch=64,128",
        cwd=folder.parent,
    )  # fmt: skip
    assert other.returncode == 2
    assert "global batch (256 stored, 128 now)" in other.stderr
    assert _finished(folder) == before


def test_a_limit_is_enforced_and_nothing_that_fits_is_exit_1_with_the_table(tmp_path):
    done = autotune(
        "tune", "digits", "--global-batch", 256, "--memory-limit", "60MiB", "--axis", "micro_batch=256",
        "--axis", "jit_compile=off", "--measure-time", "0.5s", "--out", "study", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 1
    assert "nothing fits in memory, not even micro-batch 256" in done.stderr
    assert "out of memory" in done.stderr
    trials = pd.read_csv(tmp_path / "study" / "trials.csv")
    assert list(trials.state) == ["out_of_memory"]
    assert trials.reason.str.contains("OOM when allocating|above the limit|ran out of memory trying to allocate").all()
    assert not (tmp_path / "study" / "tuned.toml").exists()


def test_a_data_set_smaller_than_the_global_batch_is_refused_before_anything_is_written(tmp_path):
    done = autotune("tune", "mlp", "--global-batch", 1798, cwd=tmp_path)
    assert done.returncode == 2
    assert "the global batch 1798 is larger than the data set (1797 samples); use at most 1797" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_json_holds_the_choice_and_every_trial(own_loop):
    done = autotune(
        "tune", "own.py", "--global-batch", 512, "--trials", 2, "--measure-time", "0.5s", "--json", cwd=own_loop
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["schema_version"] == 1
    assert len(result["trials"]) == 2
    assert result["tuned"]["config"]["global_batch"] == 512
    assert result["tuned"]["config"]["precision"] is None


def test_a_dry_run_lists_exact_candidates_and_writes_nothing(own_loop):
    done = autotune("tune", "own.py", "--global-batch", 100, "--axis", "micro_batch=20..50", "--dry-run", cwd=own_loop)
    assert done.returncode == 0
    assert "micro-batch 50 x 2 accumulation steps" in done.stdout
    assert "micro-batch 34 x 3 accumulation steps" in done.stdout
    assert not (own_loop / "results").exists()


def test_a_small_space_ends_when_it_is_exhausted(own_loop):
    done = autotune(
        "tune", "own.py", "--global-batch", 4, "--trials", 20, "--objective", "pareto", "--measure-time", "0.2s",
        "--out", "s", cwd=own_loop,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    trials = pd.read_csv(own_loop / "s" / "trials.csv")
    assert len(trials) <= 3
    assert not trials.duplicated(["micro_batch"]).any()


@pytest.mark.parametrize("objective", ["throughput", "memory"])
def test_objectives(own_loop, objective):
    done = autotune(
        "tune", "own.py", "--global-batch", 64, "--trials", 3, "--objective", objective, "--measure-time", "0.2s",
        "--out", objective, cwd=own_loop,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (own_loop / objective / "tuned.toml").is_file()


def test_the_tuner_never_loads_tensorflow(own_loop):
    code = (
        "import sys; from autotune.cli.main import main;"
        "rc = main(['tune', 'own.py', '--global-batch', '64', '--trials', '2', '--measure-time', '0.2s']);"
        "print(rc, [m for m in ('tensorflow', 'keras', 'torch', 'jax') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=own_loop, capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines()[-1] == "0 []", done.stderr


def test_python_api_without_a_main_guard_leaves_the_caller_as_it_was(own_loop):
    (own_loop / "script.py").write_text(
        "import os, random, autotune\n"
        "random.seed(7); state = random.getstate(); environment = dict(os.environ); folder = os.getcwd()\n"
        "study = autotune.tune('own.py', global_batch=64, trials=2, measure_time=0.2, out='api')\n"
        "assert random.getstate() == state and dict(os.environ) == environment and os.getcwd() == folder\n"
        "print(len(study.trials), study.tuned.settings().global_batch, list(study.pareto.columns)[:2])\n"
        "print(len(study.accumulation))\n"
    )
    done = subprocess.run([sys.executable, "script.py"], cwd=own_loop, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2 64 ['trial', 'state']")


def test_trials_leave_their_spec_outcome_and_logs(mlp_study):
    folder, _ = mlp_study
    trials = sorted((folder / "trials").iterdir())
    assert len(trials) in TRIALS
    for trial in trials:
        assert json.loads((trial / "spec.json").read_text())["candidate"]["global_batch"] == 256
        assert (trial / "timing.stderr.txt").is_file()
        assert not list(trial.glob("*.part"))
    with sqlite3.connect(folder / "study.db") as database:
        assert database.execute("select count(*) from trials").fetchone() == (len(trials),)


def _finished(folder):
    return {p.name: p.stat().st_mtime_ns for p in (folder / "trials").glob("*/record.json")}
