"""``autotune tune``: the main job."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

from autotune.cli.arguments import parsed
from autotune.core.settings import PRECISIONS
from autotune.core.units import parse_duration, parse_memory_limit

HELP = "find the settings that train a workload fastest on this machine, by running it"
EXAMPLE = "autotune tune digits --global-batch 256 --memory-limit 200MiB"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this command's options."""
    parser.add_argument("workload", metavar="WORKLOAD", help="a built-in name, path/to/train.py, or train.py:name")
    parser.add_argument(
        "--global-batch", required=True, type=_batch, metavar="B",
        help="samples per optimizer update, kept exactly; LOW..HIGH lets it vary by factors of two",
    )  # fmt: skip
    search = parser.add_argument_group("the search")
    search.add_argument("--trials", type=_whole(1), default=24, metavar="N", help="at most N trials (24)")
    search.add_argument("--budget", type=_duration, metavar="TIME", help="stop after this long: 10m, 2h (none)")
    search.add_argument(
        "--trial-timeout", type=_duration, default=600.0, metavar="TIME", help="stop a trial after this long (10m)"
    )
    search.add_argument(
        "--memory-limit", type=parsed(parse_memory_limit), metavar="SIZE",
        help="hold every trial to this much device memory: 200MiB, 8GiB, or 90%% of what is usable (all of it)",
    )  # fmt: skip
    search.add_argument(
        "--objective", choices=("throughput", "memory", "pareto"), default="throughput",
        help="fastest within the limit; or lightest at 95 %% of the best throughput; or a knee of both (throughput)",
    )  # fmt: skip
    search.add_argument(
        "--precision", metavar="P[,P]", help=f"dtype policies to search: {', '.join(PRECISIONS)} (by device)"
    )
    search.add_argument(
        "--axis", action="append", default=[], metavar="NAME=VALUES",
        help="fix or restrict an axis: micro_batch=8..128, execution=fused,stepped, jit_compile=off (repeatable)",
    )  # fmt: skip
    search.add_argument("--seed", type=_whole(0), default=0, metavar="N", help="seeds the search and every trial (0)")
    where = parser.add_argument_group("where")
    where.add_argument("--device", default="auto", metavar="D", help="auto, cpu, gpu, gpu:N (as CUDA counts) or a UUID")
    where.add_argument("--out", metavar="FOLDER", help="folder of the study (results/WORKLOAD-BATCH-DEVICE)")
    where.add_argument("--study", metavar="NAME", help="name of the study in its storage (the folder's name)")
    where.add_argument(
        "--storage", metavar="URL", help="an Optuna storage, or env:NAME to read its URL there (study.db in the folder)"
    )
    where.add_argument("--resume", action="store_true", help="continue the study in the folder")
    parser.add_argument("--dry-run", action="store_true", help="print the candidates and an estimate of the time")
    parser.add_argument(
        "--measure-time", type=_duration, default=10.0, metavar="TIME", help="longest measuring of one trial (10s)"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Runs the study with progress on stderr and the result on stdout."""
    from autotune.cli.study_view import run_and_print

    return run_and_print(args)


def _whole(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"write a whole number of at least {least}, got {text!r}")
        return value

    return parse


def _batch(text: str) -> int | str:
    return text if ".." in text else _whole(1)(text)


def _duration(text: str) -> float:
    seconds = float(parsed(parse_duration)(text))
    if not math.isfinite(seconds):
        raise argparse.ArgumentTypeError(f"write a duration like 45s, 10m or 2h, got {text!r}")
    return seconds
