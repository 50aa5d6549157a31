"""The tuned config survives a round trip in every format, and a damaged file is refused in one sentence."""

import json
import tomllib
import warnings
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
import yaml

from autotune.config import TunedConfig, TunedConfigWarning
from autotune.config.schema import json_schema
from autotune.core.study import Study
from autotune.core.tuned import Hardware, Software, WorkloadId
from autotune.errors import AutotuneError, UsageError
from tests.sample_studies import HOSTILE, completed, job, measured, rich_study

KINDS = ("toml", "json", "yaml")
READERS = {"toml": tomllib.loads, "json": json.loads, "yaml": yaml.safe_load}


def config_of(**candidate) -> TunedConfig:
    record = completed(0, 64, 1234.5, 10_000_000, warnings=('a remark, with "quotes" and \\ and ünïcode',), **candidate)
    return TunedConfig.from_study(Study(name="s", job=job(), records=(record,), chosen=0))


def load(path) -> TunedConfig:
    return TunedConfig.load(path, check=False)


CONFIGS = {
    "chosen of a rich study": TunedConfig.from_study(rich_study()),
    "float16": config_of(precision="mixed_float16", initial_loss_scale=2.0**-3, jit_compile=True),
    "a loop of the user's own": config_of(precision=None, execution=None, jit_compile=None, recompute=None),
    "two replicas": config_of(replicas=2, recompute=True),
    "no peak": TunedConfig.from_study(Study(name="s", job=job(), records=(completed(0, 256, 3.0, None),), chosen=0)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CONFIGS)
def test_round_trip(tmp_path, name, kind):
    config = CONFIGS[name]
    path = config.save(tmp_path / f"tuned.{kind}")
    assert load(path) == config
    assert load(path).settings() == config.settings()
    assert [p.name for p in tmp_path.iterdir()] == [f"tuned.{kind}"]


@pytest.mark.parametrize("name", CONFIGS)
def test_the_three_formats_hold_the_same_and_follow_the_published_schema(name):
    contents = [READERS[kind](CONFIGS[name].dumps(kind)) for kind in KINDS]
    assert contents[0] == contents[1] == contents[2]
    jsonschema.Draft202012Validator(json_schema()).validate(contents[0])


def test_sections_and_keys_of_the_contract():
    content = tomllib.loads(config_of(precision="mixed_float16", initial_loss_scale=2.0**10).dumps("toml"))
    assert content["schema_version"] == 1
    assert list(content)[-5:] == ["config", "evidence", "hardware", "software", "workload"]
    contract = (
        "global_batch micro_batch accumulation_steps precision initial_loss_scale jit_compile execution recompute"
    )
    assert set(contract.split()) <= set(content["config"])
    assert content["config"]["accumulation_steps"] == 4
    assert content["workload"]["entry_point"] == HOSTILE


def test_evidence_is_the_confirmation_where_there_is_one():
    confirmed = TunedConfig.from_study(rich_study(confirmation=measured(5000.0)))
    assert confirmed.record.evidence.samples_per_s == 5000.0 and confirmed.record.evidence.confirmed
    assert TunedConfig.from_study(rich_study()).record.evidence.samples_per_s == 5240.5


def test_settings_are_what_was_chosen():
    settings = TunedConfig.from_study(rich_study()).settings()
    assert (settings.micro_batch, settings.accumulation_steps, settings.jit_compile, settings.seed) == (64, 4, True, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_cut_anywhere_is_refused_in_one_sentence(tmp_path, kind):
    text = CONFIGS["float16"].dumps(kind)
    whole = len(text.rstrip())
    if kind == "json":
        whole -= 1
    path = tmp_path / f"tuned.{kind}"
    for length in range(whole):
        path.write_text(text[:length], encoding="utf-8")
        with pytest.raises(UsageError) as caught:
            load(path)
        assert str(path) in str(caught.value) and "\n" not in str(caught.value).strip()


def damaged(tmp_path, change) -> str:
    content = json.loads(CONFIGS["float16"].dumps("json"))
    change(content)
    path = tmp_path / "tuned.json"
    path.write_text(json.dumps(content))
    with pytest.raises(UsageError) as caught:
        load(path)
    assert caught.value.exit_code == 2
    return str(caught.value)


@pytest.mark.parametrize(
    ("section", "key", "value", "expected"),
    [
        ("config", "micro_batch", "64", "config.micro_batch must be a whole number"),
        ("config", "micro_batch", 64.5, "config.micro_batch must be a whole number"),
        ("config", "micro_batch", True, "config.micro_batch must be a whole number"),
        ("config", "micro_batch", 0, "micro_batch must be a whole number of at least 1"),
        ("config", "micro_batch", 512, "larger than a replica's share"),
        ("config", "accumulation_steps", 5, "config.accumulation_steps is 5"),
        ("config", "jit_compile", "yes", "config.jit_compile must be true or false"),
        ("config", "jit_compile", None, "config.jit_compile must be true or false"),
        ("config", "precision", "float8", "config.precision must be one of float32, mixed_float16"),
        ("config", "precision", None, "config.precision must be one of float32, mixed_float16"),
        ("config", "initial_loss_scale", float("inf"), "config.initial_loss_scale must be a finite number"),
        ("config", "initial_loss_scale", -1.0, "initial_loss_scale must be above 0"),
        ("config", "not_offered", ["seed"], "config.not_offered must be a list of"),
        ("config", "not_offered", ["precision"], "config.precision is set although"),
        ("config", "learning_rate", 0.1, "unknown key 'learning_rate'"),
        ("evidence", "samples_per_s", "fast", "evidence.samples_per_s must be a number"),
        ("workload", "source_hash", 5, "workload.source_hash must be a string"),
    ],
)
def test_a_wrong_value_is_named(tmp_path, section, key, value, expected):
    message = damaged(tmp_path, lambda content: content[section].update({key: value}))
    assert expected in message


@pytest.mark.parametrize(
    "key", ["global_batch", "micro_batch", "accumulation_steps", "replicas", "precision", "recompute"]
)
def test_a_missing_key_is_named(tmp_path, key):
    assert f"'{key}'" in damaged(tmp_path, lambda content: content["config"].pop(key))


@pytest.mark.parametrize("section", ["config", "evidence", "hardware", "software", "workload"])
def test_a_missing_section_is_named(tmp_path, section):
    assert section in damaged(tmp_path, lambda content: content.pop(section))


@pytest.mark.parametrize("version", [0, 2, "1", True, None, 1.5])
def test_an_unknown_version_is_refused(tmp_path, version):
    message = damaged(tmp_path, lambda content: content.update(schema_version=version))
    assert f"schema_version {version!r}" in message


def test_a_future_version_is_told_apart_before_its_unknown_keys(tmp_path):
    message = damaged(tmp_path, lambda content: content.update(schema_version=7, novelty={}))
    assert "schema_version 7" in message and "novelty" not in message


@pytest.mark.parametrize("text", ["[]", "3", '"text"', "null", "{}", '{"config": 3, "schema_version": 1}'])
def test_other_json_is_refused(tmp_path, text):
    path = tmp_path / "tuned.json"
    path.write_text(text)
    with pytest.raises(UsageError):
        load(path)


def test_files_that_are_not_there_or_not_text(tmp_path):
    with pytest.raises(UsageError, match=r"cannot read .*none\.toml"):
        load(tmp_path / "none.toml")
    with pytest.raises(UsageError, match="cannot read"):
        (tmp_path / "folder.toml").mkdir()
        load(tmp_path / "folder.toml")
    with pytest.raises(UsageError, match=r"must end in \.toml, \.json or \.yaml"):
        load(tmp_path / "train.py")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="UTF-8"):
        load(tmp_path / "bytes.toml")


def test_unsafe_yaml_is_refused(tmp_path):
    path = tmp_path / "tuned.yaml"
    path.write_text("!!python/object/apply:os.system ['true']")
    with pytest.raises(UsageError, match="not valid YAML"):
        load(path)


def test_a_study_without_a_choice_has_no_config():
    with pytest.raises(AutotuneError, match="no chosen trial"):
        TunedConfig.from_study(rich_study(chosen=None))


def here() -> TunedConfig:
    """A config that was measured on this very machine, with this software, of a workload that has not changed."""
    import hashlib
    import platform
    from importlib import metadata

    from autotune import __version__, workloads
    from autotune.probe import probe

    host = probe().host
    source = Path(workloads.resolve("digits").path).read_bytes()
    record = CONFIGS["float16"].record
    return TunedConfig(
        replace(
            record,
            hardware=Hardware(device="CPU", kind="cpu", cpu=host.cpu, cpu_cores=host.cpu_cores, memory_bytes=1),
            software=Software(
                autotune=__version__,
                python=platform.python_version(),
                tensorflow=metadata.version("tensorflow"),
                keras=metadata.version("keras"),
            ),
            workload=WorkloadId(entry_point="digits", source_hash=hashlib.sha256(source).hexdigest()),
        )
    )


def test_no_warning_where_nothing_differs(tmp_path):
    path = here().save(tmp_path / "tuned.toml")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert TunedConfig.load(path) == here()


def test_one_warning_lists_what_differs(tmp_path):
    record = here().record
    other = replace(
        record,
        hardware=replace(record.hardware, cpu_cores=4096),
        software=replace(record.software, tensorflow="1.0.0", keras=None),
        workload=replace(record.workload, source_hash="0" * 64),
    )
    path = TunedConfig(other).save(tmp_path / "tuned.toml")
    with pytest.warns(TunedConfigWarning) as caught:
        TunedConfig.load(path)
    message = str(caught[0].message)
    assert len(caught) == 1 and caught[0].filename == __file__
    lines = [line for line in message.splitlines() if line.startswith("  - ")]
    assert [line.split(":")[0] for line in lines] == ["  - CPU cores", "  - TensorFlow", "  - workload"]
    assert "4096 when measured" in message and "1.0.0 when measured" in message


def test_a_gpu_that_is_not_here_is_named():
    record = replace(here().record, hardware=Hardware(device="NVIDIA Imaginary 9000", kind="gpu", driver_version="1.0"))
    (difference,) = TunedConfig(record).differences()
    assert difference.startswith("device: NVIDIA Imaginary 9000 when measured, ")
