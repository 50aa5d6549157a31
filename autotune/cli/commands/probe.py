"""``autotune probe``: what the GPUs of this machine offer."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from typing import Any

from autotune.core.codec import to_plain
from autotune.core.gpu import ProbeReport
from autotune.errors import AutotuneError, UsageError

HELP = "show the GPUs as NVML and CUDA see them: usable memory, Tensor Cores, precision, warnings"
EXAMPLE = "autotune probe --replay profiles/a100-40gb --json"

_CLEAR = "\033[H\033[2J"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of ``autotune probe``."""
    parser.add_argument("--json", action="store_true", help="print JSON (with --watch: one line per reading)")
    parser.add_argument(
        "--watch",
        nargs="?",
        type=float,
        const=2.0,
        metavar="SECONDS",
        help="read again every SECONDS (2), until Ctrl-C",
    )
    parser.add_argument("--verbose", action="store_true", help="every detail of every GPU, however many there are")
    parser.add_argument("--require-gpu", action="store_true", help="exit 1 where CUDA sees no GPU")
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--replay", metavar="FILE", help="read a recorded machine: a file, or a shipped one (profiles/t4)"
    )
    source.add_argument(
        "--catalogue",
        action="store_true",
        help="print the GPU catalogue; your own boards go into ~/.config/autotune/gpus.toml, "
        "in the format of profiles/gpus.toml",
    )


def run(args: argparse.Namespace) -> int:
    """Prints one report, or one after the other."""
    if args.catalogue:
        return _print_catalogue(args.json)
    if args.watch is not None:
        return _watch(args)
    from autotune.probe import probe

    report = probe(replay=args.replay)
    print(_shown(report, args, indent=2))
    if args.require_gpu:
        _demand_gpu(report)
    return 0


def _watch(args: argparse.Namespace) -> int:
    from autotune.probe.catalogue import load_catalogue
    from autotune.probe.recorded import load_recording
    from autotune.probe.report import ReportStream, recorded_machine, this_machine

    if not args.watch > 0:
        raise UsageError(f"--watch takes seconds above 0, got {args.watch:g}")
    live = sys.stdout.isatty() and not args.json
    machine = this_machine(os.environ) if args.replay is None else recorded_machine(load_recording(args.replay))
    with ReportStream(machine, load_catalogue()) as stream:
        while True:
            report = stream.read()
            text = _shown(report, args, indent=None)
            print(f"{_CLEAR}{text}" if live else text if args.json else f"{text}\n", flush=True)
            if args.require_gpu:
                _demand_gpu(report)
            time.sleep(args.watch)


def _shown(report: ProbeReport, args: argparse.Namespace, indent: int | None) -> str:
    if args.json:
        return json.dumps(report_json(report), indent=indent)
    from autotune.probe.render import report_text

    return report_text(report, verbose=args.verbose)


def report_json(report: ProbeReport) -> dict[str, Any]:
    """The report as the documented JSON: without the host, which is not a GPU."""
    plain: dict[str, Any] = to_plain(report)
    del plain["host"]
    return plain


def _demand_gpu(report: ProbeReport) -> None:
    from autotune.probe import select_device

    try:
        select_device("gpu", report)
    except AutotuneError as error:
        raise AutotuneError(f"--require-gpu: {error}") from None


def _print_catalogue(as_json: bool) -> int:
    from autotune.probe.catalogue import load_catalogue
    from autotune.probe.render import catalogue_text

    catalogue = load_catalogue()
    if as_json:
        plain = {"schema_version": 1, "sources": dict(catalogue.sources), "gpus": to_plain(catalogue.boards)}
        print(json.dumps(plain, indent=2))
    else:
        print(catalogue_text(catalogue.boards))
    return 0
