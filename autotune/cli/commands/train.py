"""``autotune train``: real training with a tuned config."""

from __future__ import annotations

import argparse
import math

from autotune.core.units import parse_duration

HELP = "train a workload for real, with tuned settings: checkpoints, resume, metrics"
EXAMPLE = "autotune train digits --config results/digits-256-cpu/tuned.toml --epochs 10 --out runs/digits"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this command's options."""
    parser.add_argument("workload", metavar="WORKLOAD", help="a built-in name, path/to/train.py, or train.py:name")
    parser.add_argument("--config", required=True, metavar="FILE", help="a tuned.toml, .json or .yaml")
    parser.add_argument(
        "--epochs", required=True, type=_epochs, metavar="N", help="epochs in all, those before a resume included"
    )
    parser.add_argument(
        "--out", required=True, metavar="FOLDER", help="folder of the run: metrics.csv, tensorboard, checkpoints, "
        "weights, and train.log with all that the workload prints",
    )  # fmt: skip
    parser.add_argument(
        "--resume", action="store_true", help="continue the run in the folder from its latest checkpoint, if it has one"
    )
    parser.add_argument(
        "--checkpoint-every", type=_duration, default=600.0, metavar="TIME",
        help="save at least this often within an epoch; the end of an epoch is always saved (10m)",
    )  # fmt: skip
    parser.add_argument(
        "--device", default="auto", metavar="D", help="auto, cpu, gpu, gpu:N (as CUDA counts) or a UUID"
    )


def run(args: argparse.Namespace) -> int:
    """Trains, with progress on stderr and the names of the files on stdout."""
    from autotune.cli.train_view import run_and_print

    return run_and_print(args)


def _epochs(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"write a whole number of at least 1, got {text!r}")
    return int(text)


def _duration(text: str) -> float:
    try:
        seconds = parse_duration(text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None
    if not math.isfinite(seconds):
        raise argparse.ArgumentTypeError(f"write a duration like 45s, 10m or 2h, got {text!r}")
    return seconds
