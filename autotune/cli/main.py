"""Parses the command line, runs one command, and turns errors into one sentence and an exit code."""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import sys
import traceback
from collections.abc import Sequence
from types import ModuleType
from typing import NoReturn

from autotune.cli import commands
from autotune.errors import AutotuneError, UserCodeError


def main(argv: Sequence[str] | None = None) -> int:
    """Runs ``autotune ARGV`` and returns its exit code (0, 1, 2, 3 or 130)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        args = _parser(arguments).parse_args(arguments)
    except SystemExit as stop:  # argparse has printed its sentence, or the help
        return int(stop.code or 0)
    try:
        code = int(args.run(args))
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("autotune: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our pipe has gone; nothing more to say to it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except AutotuneError as error:
        if args.debug:
            traceback.print_exc()
            if isinstance(error, UserCodeError) and error.traceback:
                print(error.traceback, file=sys.stderr)
        print(f"autotune: {error}", file=sys.stderr)
        return error.exit_code


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    parser = _Parser(
        prog="autotune",
        description="Finds the micro-batch, accumulation steps, precision and compilation that train your model "
        "fastest within your GPU's memory, by running your real training loop.",
        epilog="example: autotune tune digits --global-batch 256",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=_version(), help="print the version and exit")
    # --debug works before and after the command name.
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)
    for name in command_names():
        module = load_command(name)
        sub = subparsers.add_parser(
            name, help=module.HELP, description=module.HELP, epilog=f"example: {module.EXAMPLE}", allow_abbrev=False
        )
        sub.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help="show tracebacks")
        module.add_arguments(sub)
        sub.set_defaults(run=module.run)
    return parser


def command_names() -> list[str]:
    """Returns the names of all commands, from the files that hold them."""
    return sorted(m.name for m in pkgutil.iter_modules(commands.__path__) if not m.name.startswith("_"))


def load_command(name: str) -> ModuleType:
    """Returns the module behind one command."""
    return importlib.import_module(f"autotune.cli.commands.{name}")


def _version() -> str:
    from autotune import __version__

    return f"autotune {__version__}"


class _Parser(argparse.ArgumentParser):
    """argparse, with errors as one sentence that starts like all others."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"autotune: {message} (see '{self.prog} --help')\n")


if __name__ == "__main__":
    sys.exit(main())
