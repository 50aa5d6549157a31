from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from autotune.cli.main import main
from autotune.probe import nvml
from autotune.probe.recorded import load_recording, recording_names
from autotune.profiles_path import profiles_folder

from .conftest import assert_absent_is_named, clean_environment, run_cli

NUMBER = {"type": ["integer", "null"]}
SCHEMA = {
    "type": "object",
    "required": ["schema_version", "driver_version", "cuda_version", "gpus", "warnings"],
    "properties": {
        "schema_version": {"const": 1},
        "driver_version": {"type": ["string", "null"]},
        "cuda_version": {"type": ["string", "null"], "pattern": r"^\d+\.\d+$"},
        "warnings": {"type": "array", "items": {"type": "string"}},
        "gpus": {
            "type": "array",
            "items": {
                "type": "object",
                "required": [
                    "index",
                    "cuda_index",
                    "uuid",
                    "name",
                    "memory_total_bytes",
                    "memory_reserved_bytes",
                    "memory_used_bytes",
                    "memory_free_bytes",
                    "memory_usable_bytes",
                    "compute_capability",
                    "tensor_cores",
                    "advised_policy",
                    "mig",
                    "processes",
                    "not_available",
                ],
                "properties": {
                    "index": {"type": "integer"},
                    **{f"memory_{n}_bytes": NUMBER for n in ("total", "reserved", "used", "free", "usable")},
                    "cuda_index": NUMBER,
                    "compute_capability": {"type": ["string", "null"], "pattern": r"^\d+\.\d+$"},
                    "tensor_cores": {
                        "type": "object",
                        "required": ["present", "generation", "dtypes"],
                        "properties": {
                            "dtypes": {"items": {"enum": ["float16", "bfloat16", "tf32", "float8", "int8"]}}
                        },
                    },
                    "advised_policy": {"enum": [None, "float32", "mixed_float16", "mixed_bfloat16"]},
                    "not_available": {"type": "object", "additionalProperties": {"type": "string", "minLength": 1}},
                },
            },
        },
    },
}


@pytest.mark.parametrize("name", recording_names())
def test_json_follows_the_contract(name, capsys):
    assert main(["probe", "--replay", f"profiles/{name}", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    jsonschema.validate(report, SCHEMA)
    assert_absent_is_named(report)


@pytest.mark.parametrize("name", recording_names())
@pytest.mark.parametrize("extra", [[], ["--verbose"]])
def test_text_starts_with_the_verdict(name, extra, capsys):
    assert main(["probe", "--replay", name, *extra]) == 0
    out = capsys.readouterr().out
    assert "None" not in out
    if name == "a100-40gb":
        assert "40.0 GiB, 37.6 GiB usable now, Tensor Cores (Ampere): mixed_bfloat16 or mixed_float16" in out
    if name == "no-driver":
        assert out.startswith("No NVIDIA driver")
    if name == "server-8-lost":
        assert len(out.splitlines()) < 25 or extra


def test_without_a_driver_it_is_calm():
    done = run_cli("probe", "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 0
    if not report["gpus"]:  # this machine may have one
        assert len(report["warnings"]) == 1
        assert run_cli("probe", "--require-gpu").returncode == 1


@pytest.mark.parametrize(
    ("name", "code"), [("a100-40gb", 0), ("a100-mig-container", 0), ("gb10", 0), ("no-driver", 1), ("mismatch", 1)]
)
def test_require_gpu(name, code, capsys):
    assert main(["probe", "--replay", name, "--require-gpu", "--json"]) == code
    captured = capsys.readouterr()
    json.loads(captured.out)
    assert captured.err.count("\n") == code


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--replay", "profiles/nothing"], "shipped are"),
        (["--replay", "gpus"], "not a recorded machine"),
        (["--watch", "0"], "above 0"),
        (["--watch", "x"], "--watch"),
        (["--replay", "t4", "--catalogue"], "not allowed"),
    ],
)
def test_bad_usage_is_one_sentence(arguments, says, capsys):
    assert main(["probe", *arguments]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert len(error.splitlines()) == 1


def test_watch_follows_a_machine_that_changes(machine):
    fake = machine("t4")
    command = [sys.executable, "-m", "autotune", "probe", "--watch", "0.05", "--json"]
    with subprocess.Popen(command, env=fake.environment, stdout=subprocess.PIPE, text=True) as child:
        first = json.loads(child.stdout.readline())
        recording = load_recording("t4")
        recording.gpu[0].values["temperature_c"] = 77
        fake.rewrite(recording)
        temperature = first["gpus"][0]["temperature_c"]
        for line in child.stdout:  # the reading in flight may still be the old one
            temperature = json.loads(line)["gpus"][0]["temperature_c"]
            if temperature == 77:
                break
        child.send_signal(signal.SIGINT)
        child.stdout.read()
        assert child.wait(timeout=30) == 130
    assert (first["gpus"][0]["temperature_c"], temperature) == (36, 77)


def test_catalogue(capsys):
    assert main(["probe", "--catalogue"]) == 0
    assert "A100-SXM-80GB" in capsys.readouterr().out
    assert main(["probe", "--catalogue", "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert plain["schema_version"] == 1
    assert {"source", "confidence"} == set(plain["gpus"][0]["provenance"]["sm_count"])


def test_nothing_heavy_is_loaded(machine):
    script = (
        "import sys; from autotune.cli.main import main; code = main(['probe', '--json']); "
        "print(*sorted({m.partition('.')[0] for m in sys.modules}), file=sys.stderr); sys.exit(code)"
    )
    environment = machine("a100-40gb").environment
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    loaded = set(done.stderr.split())
    assert "pynvml" in loaded
    assert not loaded & {"tensorflow", "keras", "pandas", "optuna", "numpy", "rich", "altair", "yaml", "pyarrow"}


def test_the_package_is_the_function():
    script = (
        "import autotune, autotune.probe.nvml\n"
        "print(autotune.probe(replay='t4').gpus[0].name, autotune.probe.probe(replay='l4').gpus[0].name)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "Tesla T4 NVIDIA L4"


def test_only_reading_calls_are_made():
    """The probe changes nothing: no NVML function that sets, resets, creates or destroys is named in it."""
    source = Path(nvml.__file__).read_text()
    called = set(re.findall(r"(?<![_\w])nvml[A-Z]\w+", source)) - {"nvmlMemory_v2"}
    assert called
    assert all(re.match(r"nvml(Device|System)Get|nvmlInit$|nvmlShutdown$", name) for name in called), called


def test_the_layout_of_a_wheel(tmp_path):
    """A wheel has profiles/ inside the package; a checkout has it beside."""
    package = Path(nvml.__file__).parents[1]
    shutil.copytree(package, tmp_path / "autotune", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(profiles_folder(), tmp_path / "autotune" / "_profiles")
    command = [
        sys.executable,
        "-c",
        "import autotune; print(autotune.__file__, autotune.probe(replay='t4').gpus[0].name)",
    ]
    done = subprocess.run(
        command, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split(maxsplit=1) == [str(tmp_path / "autotune" / "__init__.py"), "Tesla T4\n"]
