"""What all tests share: a folder for temporary files of its own for each of pytest-xdist's workers."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def own_temporary_folder() -> Iterator[None]:
    """Trials of one device wait for each other through a lock there (`autotune-locks`): each worker has its own."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="autotune-tests-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", None)
        yield
