"""A PostgreSQL server of the tests' own: started, with a password, and stopped again."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

PASSWORD = "hunter2-tune"


def _binaries() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    assert found, "PostgreSQL is needed: apt-get install postgresql"
    return found[-1].parent


def _as_server(command: list[object], **options: object) -> None:
    """Runs a command as an ordinary user: the server refuses to run as root."""
    user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    subprocess.run([*user, *map(str, command)], check=True, stdout=subprocess.DEVNULL, timeout=60, **options)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def server() -> Iterator[str]:
    """Runs a server for the length of a block.

    Yields:
        the URL of its database, with a password.
    """
    base = "/dev/shm" if Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="autotune-pg-", dir=base))
    folder.chmod(0o777)
    secret = folder / "password"
    secret.write_text(PASSWORD)
    secret.chmod(0o644)
    data, port, binaries = folder / "data", _free_port(), _binaries()
    try:
        _as_server(
            [binaries / "initdb", "-D", data, "-U", "tuner", "--auth=scram-sha-256", f"--pwfile={secret}", "-N"],
            cwd="/",
        )
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
        _as_server([binaries / "pg_ctl", "-D", data, "-w", "-o", options, "-l", folder / "log", "start"], cwd="/")
        try:
            yield f"postgresql://tuner:{PASSWORD}@127.0.0.1:{port}/postgres"
        finally:
            _as_server([binaries / "pg_ctl", "-D", data, "-w", "-m", "immediate", "stop"], cwd="/")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
