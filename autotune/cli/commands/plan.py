"""``autotune plan``: capacity planning."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.cli.arguments import parsed
from autotune.cli.output import add_format_options, chosen_format, print_bytes
from autotune.core.units import parse_duration, parse_size
from autotune.errors import UsageError

if TYPE_CHECKING:
    from autotune.plan import Plan
    from autotune.report.sheet import Sheet

HELP = "from a study: what fits on which GPU, how fast, for how long and at what cost"
EXAMPLE = "autotune plan results/charlm-64-cpu --gpus T4,A100-80GB,RTX-4090,H100"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this command's options."""
    parser.add_argument(
        "study", metavar="STUDY", help="a study's folder, its study.db, or a storage URL; with --dry also a workload"
    )
    parser.add_argument("--name", metavar="NAME", help="name of the study, where a storage holds several")
    where = parser.add_argument_group("where")
    where.add_argument(
        "--gpus", default="", metavar="A,B", help="catalogue ids or aliases: T4,A100-80GB (the study's own device)"
    )
    where.add_argument("--counts", type=_counts, default=(1,), metavar="N,N", help="numbers of GPUs: 1,2,4,8 (1)")
    where.add_argument(
        "--link",
        type=parsed(parse_size),
        metavar="SIZE",
        help="per second between GPUs, each way: 25GB (the board's)",
    )
    where.add_argument("--global-batch", type=_whole, metavar="B", help="samples per update, all GPUs (the study's)")
    where.add_argument(
        "--confidence", type=_probability, default=0.95, metavar="P",
        help="probability with which a micro-batch must fit: 0.99 or 99%% (0.95)",
    )  # fmt: skip
    training = parser.add_argument_group("the training")
    training.add_argument("--samples-per-epoch", type=_whole, metavar="N", help="samples of one epoch (the data set's)")
    training.add_argument("--epochs", type=float, metavar="N", help="how often to go through them")
    training.add_argument("--deadline", type=parsed(parse_duration), metavar="TIME", help="it must be done in: 24h")
    training.add_argument("--budget-cost", type=float, metavar="X", help="most that it may cost, in your currency")
    training.add_argument("--prices", metavar="FILE", help='TOML of your prices for a GPU-hour: "A100-80GB" = 2.5')
    training.add_argument("--sort", choices=("time", "cost", "energy"), help="order of the rows (cost with --prices)")
    other = parser.add_argument_group("other questions")
    other.add_argument("--memory-for", type=_whole, metavar="M", help="how much memory does micro-batch M need?")
    other.add_argument(
        "--dry", action="store_true", help="plan for a workload without a GPU and without a study (with --global-batch)"
    )
    other.add_argument(
        "--validate", action="store_true", help="run candidates that the fit has not seen, and compare (5 minutes)"
    )
    output = parser.add_argument_group("output")
    add_format_options(output)
    output.add_argument("--chart", metavar="FILE", help="also draw it, as .png or .svg")


def run(args: argparse.Namespace) -> int:
    """Prints the plan to stdout; what takes a while is said on stderr."""
    module = chosen_format(args, "plan")
    chart = Path(args.chart) if args.chart else None
    if chart is not None and chart.suffix not in (".png", ".svg"):
        raise UsageError(f"a chart is a .png or a .svg, got {chart}")
    print_bytes(module.render(_validated(args) if args.validate else _planned(args, chart)))
    return 0


def _planned(args: argparse.Namespace, chart: Path | None) -> Sheet:
    from autotune.plan import plan
    from autotune.report.plan_sheet import needs_sheet, plan_sheet

    found = plan(
        args.study,
        gpus=[name for name in (part.strip() for part in args.gpus.split(",")) if name],
        counts=args.counts,
        global_batch=args.global_batch,
        confidence=args.confidence,
        samples_per_epoch=args.samples_per_epoch,
        epochs=args.epochs,
        deadline=args.deadline,
        budget_cost=args.budget_cost,
        prices=args.prices,
        link_bytes_per_s=args.link,
        sort=args.sort,
        memory_for=args.memory_for,
        dry=args.dry,
        name=args.name,
        say=_say,
    )
    width = _width()
    if args.memory_for is not None:
        if chart is not None:
            raise UsageError("--chart shows GPUs; leave it out with --memory-for")
        return needs_sheet(found.title, found.needs, found.boards, notes=found.notes, width=width)
    if chart is not None:
        _draw(chart, found)
    return plan_sheet(found.title, found.rows, decomposition=found.decomposition, notes=found.notes, width=width)


def _validated(args: argparse.Namespace) -> Sheet:
    from autotune.plan import load, validate
    from autotune.report.plan_sheet import checks_sheet

    for option in ("gpus", "dry", "chart", "prices", "deadline", "memory_for"):
        if getattr(args, option):
            raise UsageError(f"--{option.replace('_', '-')} is no part of --validate; leave it out")
    found = validate(load(args.study, args.name), say=_say)
    return checks_sheet(found.title, found.checks, found.scores, notes=found.notes, width=_width())


def _draw(path: Path, found: Plan) -> None:
    from autotune.report.charts.plan import plan_chart
    from autotune.report.files import replace_file

    try:
        replace_file(path, plan_chart(found.title, found.rows, "svg" if path.suffix == ".svg" else "png"))
    except OSError as problem:
        raise UsageError(f"cannot write {path}: {problem.strerror or problem}; name another --chart") from None
    print(f"wrote {path}", file=sys.stderr)


def _width() -> int:
    return shutil.get_terminal_size((160, 24)).columns


def _say(sentence: str) -> None:
    print(f"autotune: {sentence}", file=sys.stderr)


def _whole(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"write a whole number of at least 1, got {text!r}")
    return int(text)


def _counts(text: str) -> tuple[int, ...]:
    return tuple(_whole(part.strip()) for part in text.split(","))


def _probability(text: str) -> float:
    number = text.strip()
    try:
        value = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        value = 0.0
    if not 0.5 <= value < 1:
        raise argparse.ArgumentTypeError(f"write a probability from 0.5 to below 1, such as 0.95 or 95%, got {text!r}")
    return value
