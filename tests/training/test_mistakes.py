"""The documentation's examples of the six mistakes run, and show what they say (each asserts it)."""

import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "mistakes"
EXAMPLES = sorted(path.stem for path in FOLDER.glob("*.py"))


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name):
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")


def test_every_mistake_is_in_the_documentation():
    page = (FOLDER.parent / "training-loop.md").read_text()
    assert len(EXAMPLES) == 6
    assert all(f"mistakes/{name}.py" in page for name in EXAMPLES)
