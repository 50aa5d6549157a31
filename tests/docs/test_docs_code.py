"""Every code block of the documentation is run as a reader would, in one folder; pages build on earlier ones."""

import argparse
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from autotune.cli.main import command_names, load_command
from autotune.core.workload import Workload
from tests.train.conftest import write_config

ROOT = Path(__file__).parents[2]
PAGES = {str(path.relative_to(ROOT / "docs")): path.read_text() for path in sorted((ROOT / "docs").rglob("*.md"))}
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
BUILDS_ON = {
    "tutorials/several-machines.md": ["tutorials/own-loop.md"],
    "tutorials/capacity-planning.md": ["tutorials/pick-settings.md"],
}
LEAVES = {
    "tutorials/own-loop.md": ["results/own/tuned.toml"],
    "tutorials/pick-settings.md": ["results/mlp/report.html", "runs/mlp/model.weights.h5"],
    "tutorials/several-machines.md": ["results/worker-a/tuned.toml", "results/worker-b/tuned.toml"],
    "training-loop.md": ["checkpoints/90.index"],
}


class Reader:
    """Follows pages in one folder."""

    def __init__(self, folder):
        self.folder = folder
        self.done = set()
        self.tmp = folder / "tmp"  # device locks live there: whoever else measures on this host is not waited for
        self.tmp.mkdir()
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path, "TMPDIR": str(self.tmp), "NO_COLOR": "1"}

    def follow(self, page):
        for earlier in BUILDS_ON.get(page, []):
            self.follow(earlier)
        if page in self.done:
            return
        self.done.add(page)
        names = self._what_the_page_supposes(page)
        for language, code in BLOCK.findall(PAGES[page]):
            if language == "bash":
                self._shell(page, code)
            elif language == "python":
                self._python(page, code, names)
            elif language == "toml":
                tomllib.loads(code)
            else:
                assert language in ("", "text"), f"{page}: a block of {language} that nothing checks"
        for name in LEAVES.get(page, []):
            assert (self.folder / name).exists(), f"{page}: {name}"

    def _shell(self, page, code):
        exported = self.tmp / "environment"  # one shell for all of a reader's commands
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", f"{code}\nenv -0 > {exported}"],
            cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, f"{page}:\n{code}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr, f"{page}:\n{code}\n{done.stderr}"
        self.environment = dict(entry.split("=", 1) for entry in exported.read_text().split("\0") if entry)

    def _python(self, page, code, names):
        file = re.match(r"# (\w+\.py)\n", code)
        if file:
            (self.folder / file[1]).write_text(code)
        else:
            exec(compile(code, page, "exec"), {"__name__": "__main__", **names})

    def _what_the_page_supposes(self, page):
        if page != "training-loop.md":
            return {}
        import keras
        import tensorflow as tf

        write_config(self.folder / "tuned.toml", global_batch=4, micro_batch=2)
        workload = Workload(
            model=lambda: keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]),
            optimizer=lambda: keras.optimizers.SGD(0.1),
            loss=lambda model, batch: tf.square(model(batch))[:, 0],
            dataset=lambda: tf.data.Dataset.from_tensor_slices(tf.ones([6, 2])),
        )
        return {"workload": workload}


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    return Reader(tmp_path_factory.mktemp("docs"))


@pytest.mark.parametrize("page", [name for name, text in PAGES.items() if BLOCK.search(text)])
def test_code_blocks_run(page, reader, monkeypatch):
    monkeypatch.chdir(reader.folder)
    reader.follow(page)


def test_the_commands_and_options_that_pages_name_exist():
    for page, text in PAGES.items():
        for name, rest in re.findall(r"\bautotune ([a-z]+)((?: (?:--)?[\w.,/:=$<>{}\"'-]+)*)", text):
            if name not in command_names():
                assert not re.search(rf"`autotune {name}\b|^ *autotune {name}\b", text, re.M), f"{page}: {name}"
                continue
            for option in re.findall(r"--[a-z][a-z-]*", rest):
                assert option in _options(name), f"{page}: autotune {name} {option}"


def _options(name):
    parser = argparse.ArgumentParser()
    load_command(name).add_arguments(parser)
    return {"--debug", *(option for action in parser._actions for option in action.option_strings)}


def test_links_lead_somewhere():
    for page, text in PAGES.items():
        for target in re.findall(r"\]\(((?!http)[^)#\s]+)", text):
            assert (ROOT / "docs" / page).parent.joinpath(target).exists(), f"{page}: {target}"
