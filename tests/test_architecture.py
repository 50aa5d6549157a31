"""The house rules that no linter knows."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = sorted((ROOT / "autotune").rglob("*.py"))
LONGEST = 350


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_modules_can_be_read_in_one_sitting_and_say_what_they_are(path):
    source = path.read_text()
    assert len(source.splitlines()) <= LONGEST
    tree = ast.parse(source)
    assert not source.strip() or ast.get_docstring(tree), "a module says what lives in it"


def test_core_imports_the_standard_library_alone():
    import sys

    for path in (ROOT / "autotune" / "core").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                top = name.split(".")[0]
                assert top in sys.stdlib_module_names or name.startswith("autotune.core"), f"{path.name}: {name}"


def test_the_architecture_page_names_what_exists():
    text = (ROOT / "docs" / "architecture.md").read_text()
    tree = text.split("```")[1]
    for line in tree.splitlines():
        name = line.strip().split(" ")[0]
        if name.endswith((".py", "/")) and name != "autotune/":
            assert any(ROOT.rglob(name.rstrip("/"))), name
