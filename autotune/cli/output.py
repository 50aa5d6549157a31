"""``--format`` and ``--json``, for the commands that print tables in any format."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from autotune.errors import UsageError


def add_format_options(parser: Any, *, note: str = "") -> None:
    """Adds the two options to a parser or a group of one.

    Args:
        parser: to add them to.
        note: what else the help of ``--format`` says.
    """
    from autotune.report.formats import format_names

    parser.add_argument("--format", choices=format_names(), help="how to print it (table)" + note)
    parser.add_argument("--json", action="store_true", help="the same as --format json")


def chosen_format(args: argparse.Namespace, what: str) -> Any:
    """Returns the module of the format that was asked for.

    Args:
        args: holding ``format`` and ``json``.
        what: a file's stem to propose where the format is not text.

    Raises:
        UsageError: both options contradict each other, or stdout is a terminal that cannot show the format.
    """
    from autotune.report.formats import load_format

    if args.json and args.format not in (None, "json"):
        raise UsageError(f"--json and --format {args.format} contradict each other; give one")
    name = "json" if args.json else args.format or "table"
    module = load_format(name)
    if getattr(module, "BINARY", False) and sys.stdout.isatty():
        raise UsageError(f"{name} is not text: send it to a file, as in '> {what}.{name}'")
    return module


def print_bytes(content: bytes) -> None:
    """Writes to stdout as it is, behind whatever was printed before."""
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
