import os
import subprocess
import sys

import pytest


def autotune(*arguments, cwd, timeout=240, **environment):
    """Runs the command line in a process of its own, as a user does, into a pipe."""
    return subprocess.run(
        [sys.executable, "-m", "autotune", *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, "NO_COLOR": "1", **environment},
    )


@pytest.fixture(scope="session")
def mlp_study(tmp_path_factory):
    """One real study of a built-in workload, shared by all tests that only look at it."""
    folder = tmp_path_factory.mktemp("mlp")
    done = autotune(
        *("tune", "mlp", "--global-batch", 256, "--trials", 3, "--measure-time", "0.5s", "--memory-limit", "200MiB"),
        *("--axis", "execution=fused", "--axis", "jit_compile=off", "--axis", "micro_batch=64,128,256"),
        *("--seed", 1, "--out", "study"),
        cwd=folder,
    )
    return folder / "study", done


OWN_LOOP = """
import numpy as np


class Loop:
    def __init__(self, settings):
        self.settings = settings
        self.x = np.random.default_rng(settings.seed).normal(size=(2048, 128))
        self.w = np.zeros(128)

    def update(self):
        for start in range(0, self.settings.global_batch, self.settings.micro_batch):
            part = self.x[start : start + self.settings.micro_batch]
            self.w -= 1e-3 * part.T @ (part @ self.w - 1)
        return {"loss": float(np.abs(self.w).sum())}


def make_loop(settings):
    return Loop(settings)
"""


@pytest.fixture
def own_loop(tmp_path):
    """A loop of the user's own that never loads TensorFlow: studies of it take seconds."""
    (tmp_path / "own.py").write_text(OWN_LOOP)
    return tmp_path
