"""``autotune report``: tables and pictures again, from a study."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.cli.output import add_format_options, chosen_format, print_bytes
from autotune.errors import UsageError

if TYPE_CHECKING:
    from autotune.core.study import Study
    from autotune.report.sheet import Sheet

HELP = "print a study's tables in any format, or compare studies"
EXAMPLE = "autotune report results/digits-256-cpu --format markdown"
_TABLES = ("trials", "pareto", "accumulation")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this command's options."""
    parser.add_argument(
        "studies",
        nargs="+",
        metavar="STUDY",
        help="a study's folder, its study.db, or a storage URL; several are compared",
    )
    add_format_options(parser, note="; html is the whole report page")
    parser.add_argument(
        "--table", choices=_TABLES, help="only this table (trials, and for people accumulation as well)"
    )
    parser.add_argument("--phases", action="store_true", help="also show where each trial's time went")
    parser.add_argument("--name", metavar="NAME", help="name of the study, where a storage holds several")
    parser.add_argument(
        "--out", metavar="FOLDER", help="also write the study's files and all charts (PNG, SVG) to this folder"
    )


def run(args: argparse.Namespace) -> int:
    """Prints to stdout."""
    module = chosen_format(args, "trials")
    print_bytes(module.render(_sheet(args)))
    return 0


def _sheet(args: argparse.Namespace) -> Sheet:
    from autotune.report.compare_sheet import comparison_sheet
    from autotune.report.sheet import study_sheet
    from autotune.search.opening import load_study

    width = shutil.get_terminal_size().columns
    studies = [load_study(_place(text), name=args.name) for text in args.studies]
    if len(studies) > 1:
        for option in ("out", "table", "phases"):
            if getattr(args, option):
                raise UsageError(f"--{option} is for one study; leave it out to compare {len(studies)}")
        return comparison_sheet(studies, width=width)
    if args.out is not None:
        _write(studies[0], Path(args.out))
    color = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return study_sheet(studies[0], args.table, phases=args.phases, width=width, color=color)


def _place(text: str) -> Path | str:
    return text if "://" in text or text.startswith("env:") else Path(text)


def _write(study: Study, folder: Path) -> None:
    from autotune.report.files import write_charts, write_study_files

    try:
        written = (*write_study_files(study, folder, formats=("json", "yaml")), *write_charts(study, folder))
        for path in dict.fromkeys(written):
            print(f"wrote {path}", file=sys.stderr)
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror or error}; name another --out") from None
