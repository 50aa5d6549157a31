"""``autotune export``: a tuned config as lines for another program."""

from __future__ import annotations

import argparse
import sys
import warnings

HELP = "print a tuned config as lines for another program"
EXAMPLE = "autotune export results/digits-256-cpu/tuned.toml --to keras"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this command's options."""
    from autotune.export import target_names

    parser.add_argument("config", metavar="CONFIG", help="a tuned.toml, .json or .yaml")
    parser.add_argument(
        "--to",
        required=True,
        choices=target_names(),
        help="keras: lines for compile and fit; python: a custom loop; env: KEY=VALUE; args: flags",
    )


def run(args: argparse.Namespace) -> int:
    """Prints to stdout; what differs on this machine goes to stderr."""
    from autotune.config import TunedConfig
    from autotune.export import load_target

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        config = TunedConfig.load(args.config)
    for warning in caught:
        print(f"autotune: warning: {warning.message}", file=sys.stderr)
    sys.stdout.buffer.write(load_target(args.to).render(config).encode())
    return 0
