"""Every target's lines are executed; the Keras and Python ones in one TensorFlow process."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from autotune.cli.main import main
from autotune.config import TunedConfig
from autotune.core.study import Study
from autotune.errors import UsageError
from autotune.export import load_target, target_names
from tests.sample_studies import completed, job, rich_study

CANDIDATES = {
    "four steps, float32": {"micro_batch": 64, "execution": "fused", "jit_compile": True},
    "one step": {"micro_batch": 256},
    "float16": {"micro_batch": 64, "precision": "mixed_float16", "initial_loss_scale": 1024.0},
    "float16, one step, default scale": {"micro_batch": 256, "precision": "mixed_float16"},
    "a smaller last micro-batch": {"micro_batch": 100, "execution": "stepped", "recompute": True},
    "a loop of the user's own": {
        "micro_batch": 64, "precision": None, "execution": None, "jit_compile": None, "recompute": None
    },
}  # fmt: skip


def config_of(name: str, **changes) -> TunedConfig:
    candidate = CANDIDATES[name] | changes
    record = completed(0, candidate.pop("micro_batch"), 1000.0, 10_000_000, **candidate)
    return TunedConfig.from_study(Study(name="s", job=job(), records=(record,), chosen=0))


def test_targets_are_those_of_the_contract():
    assert target_names() == ["args", "env", "keras", "python"]


@pytest.mark.parametrize("name", CANDIDATES)
def test_env_is_read_by_a_shell(tmp_path, name):
    config = config_of(name)
    (tmp_path / "tuned.env").write_text(load_target("env").render(config))
    show = "import json, os; print(json.dumps({k: v for k, v in os.environ.items() if k.startswith('AUTOTUNE_')}))"
    script = f"set -a; . ./tuned.env; {shlex.quote(sys.executable)} -c {shlex.quote(show)}"
    seen = json.loads(subprocess.run(["sh", "-ec", script], cwd=tmp_path, capture_output=True, check=True).stdout)
    settings = config.settings()
    assert int(seen["AUTOTUNE_MICRO_BATCH"]) == settings.micro_batch
    assert int(seen["AUTOTUNE_ACCUMULATION_STEPS"]) == settings.accumulation_steps
    assert seen.get("AUTOTUNE_PRECISION", "float32") == settings.precision
    assert bool(int(seen.get("AUTOTUNE_JIT_COMPILE", "0"))) is settings.jit_compile
    scale = seen.get("AUTOTUNE_INITIAL_LOSS_SCALE")
    assert (float(scale) if scale else None) == settings.initial_loss_scale


@pytest.mark.parametrize("name", CANDIDATES)
def test_args_are_read_by_a_script(tmp_path, name):
    config = config_of(name)
    (tmp_path / "train.py").write_text(
        "import argparse, json\n"
        "p = argparse.ArgumentParser()\n"
        "for n in ('global-batch', 'micro-batch', 'accumulation-steps', 'replicas', 'seed'):\n"
        "    p.add_argument('--' + n, type=int, required=True)\n"
        "p.add_argument('--precision')\n"
        "p.add_argument('--execution')\n"
        "p.add_argument('--initial-loss-scale', type=float)\n"
        "for n in ('jit-compile', 'recompute'):\n"
        "    p.add_argument('--' + n, action=argparse.BooleanOptionalAction)\n"
        "print(json.dumps(vars(p.parse_args())))\n"
    )
    script = f"{shlex.quote(sys.executable)} train.py {load_target('args').render(config)}"
    seen = json.loads(subprocess.run(["sh", "-ec", script], cwd=tmp_path, capture_output=True, check=True).stdout)
    candidate = config.record.config
    for key in (
        "global_batch",
        "micro_batch",
        "accumulation_steps",
        "replicas",
        "precision",
        "execution",
        "jit_compile",
    ):
        assert seen[key] == getattr(candidate, key), key
    assert seen["initial_loss_scale"] == candidate.initial_loss_scale


def test_keras_and_python_lines_run(tmp_path):
    """One process builds every optimizer, fits for real, and compares the custom loop with the full batch."""
    for name in CANDIDATES:
        for target in ("keras", "python"):
            stem = f"{target}-{list(CANDIDATES).index(name)}"
            (tmp_path / f"{stem}.py").write_text(load_target(target).render(config_of(name)))
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1"}
    command = [sys.executable, str(Path(__file__).with_name("run_exports.py")), str(tmp_path), json.dumps(CANDIDATES)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout) == {"keras": len(CANDIDATES), "python": len(CANDIDATES)}


def test_keras_refuses_accumulation_over_replicas():
    with pytest.raises(UsageError, match="2 replicas"):
        load_target("keras").render(config_of("four steps, float32", replicas=2))


@pytest.mark.parametrize("target", ["keras", "python"])
def test_a_device_name_cannot_leave_its_comment(target):
    from dataclasses import replace

    config = TunedConfig.from_study(rich_study())
    hardware = replace(config.record.hardware, device="CPU\nimport os; os.abort()\r\u2028x = 1")
    text = load_target(target).render(TunedConfig(replace(config.record, hardware=hardware)))
    first = text.splitlines()[0]
    assert first.startswith("# ") and "os.abort()" in first
    compile(text, "exported", "exec")


def test_the_command_prints_lines_and_warns_on_stderr(tmp_path, capfdbinary):
    path = TunedConfig.from_study(rich_study()).save(tmp_path / "tuned.toml")
    assert main(["export", str(path), "--to", "env"]) == 0
    seen = capfdbinary.readouterr()
    assert seen.out.startswith(b"AUTOTUNE_GLOBAL_BATCH=256\n")
    assert b"autotune: warning: " in seen.err and b"CPU: Example CPU when measured" in seen.err


@pytest.mark.parametrize("arguments", [["none.toml", "--to", "env"], ["tuned.toml", "--to", "fortran"], ["tuned.toml"]])
def test_bad_usage_is_one_sentence_and_exit_code_2(tmp_path, monkeypatch, capsys, arguments):
    monkeypatch.chdir(tmp_path)
    assert main(["export", *arguments]) == 2
    seen = capsys.readouterr()
    assert seen.out == "" and seen.err.startswith("autotune: ") and seen.err.count("\n") == 1
