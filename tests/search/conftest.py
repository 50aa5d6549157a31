"""Studies of these tests live in memory-backed files: they commit hundreds of times, and the disk is not under test."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def tmp_path():
    base = "/dev/shm" if Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="autotune-search-", dir=base))
    yield folder
    shutil.rmtree(folder)
