"""``autotune dashboard``: the Optuna dashboard on a study."""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotune.errors import AutotuneError, UsageError

if TYPE_CHECKING:
    from optuna.storages import RDBStorage

HELP = "open the Optuna dashboard on a study, also while it runs"
EXAMPLE = "autotune dashboard results/digits-256-cpu"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this command's options."""
    parser.add_argument("study", metavar="STUDY", help="a study's folder, its study.db, or a storage URL (or env:NAME)")
    parser.add_argument(
        "--port", type=_port, default=8080, metavar="N", help="port to serve; 0 takes a free one (8080)"
    )
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="NAME",
        help="address to serve on; whoever reaches it can also change the study (127.0.0.1: this machine only)",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Serves until Ctrl-C; prints the address to stdout."""
    if importlib.util.find_spec("optuna_dashboard") is None:
        raise AutotuneError("the Optuna dashboard is not installed; pip install 'autotune[dashboard]' brings it")
    storage = _storage(args.study)
    wsgi = importlib.import_module("optuna_dashboard").wsgi  # an extra, and untyped
    with _serve(wsgi(storage), args.host, args.port) as server:
        print(f"http://{args.host}:{server.server_port}/dashboard/ (Ctrl-C ends it)", flush=True)
        server.serve_forever()
    return 0


def _storage(text: str) -> RDBStorage:
    from autotune.search.storage import DATABASE_FILE, connect, database_url, redact, resolve_url

    if "://" in text or text.startswith("env:"):
        storage = connect(resolve_url(text))
    else:
        path = Path(text)
        path = path / DATABASE_FILE if path.is_dir() else path
        if not path.is_file():
            raise UsageError(f"there is no study at {text}: no file {path.name} there")
        storage = connect(database_url(path))
    if not storage.get_all_studies():
        raise UsageError(f"{redact(text)} holds no study")
    return storage


def _serve(application: Any, host: str, port: int) -> Any:
    from socketserver import ThreadingMixIn
    from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

    class Server(ThreadingMixIn, WSGIServer):
        daemon_threads = True

    class Quiet(WSGIRequestHandler):
        def log_message(self, format: str, *arguments: object) -> None:
            """One line per request would bury what matters."""

    try:
        return make_server(host, port, application, server_class=Server, handler_class=Quiet)
    except OSError as problem:
        raise AutotuneError(
            f"cannot serve on {host} port {port}: {problem.strerror or problem}; choose another --port"
        ) from None


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"write a port from 0 to 65535, got {text!r}")
    return int(text)
