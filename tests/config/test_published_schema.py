"""The generated documents are those that the code makes now."""

import importlib.util
from pathlib import Path

import jsonschema
import pytest

DOCS = Path(__file__).parents[2] / "docs"


def generated() -> dict[str, str]:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.generated()


@pytest.mark.parametrize("name", ["columns.md", "commands.md", "tuned.schema.json"])
def test_document_is_current(name):
    assert (DOCS / name).read_text(encoding="utf-8") == generated()[name], "run: python docs/generate.py"


def test_schema_is_a_schema_and_refuses_what_loading_refuses():
    import json

    from autotune.config.schema import json_schema
    from autotune.config.tuned import TunedConfig
    from tests.sample_studies import rich_study

    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    good = json.loads(TunedConfig.from_study(rich_study()).dumps("json"))
    assert validator.is_valid(good)
    for change in (
        {"schema_version": 2},
        {"config": good["config"] | {"precision": "float8"}},
        {"config": {k: v for k, v in good["config"].items() if k != "precision"}},
        {"config": good["config"] | {"not_offered": ["precision"]}},
        {"config": good["config"] | {"micro_batch": 0}},
        {"surprise": 1},
    ):
        assert not validator.is_valid(good | change), change
