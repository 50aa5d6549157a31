"""``autotune workloads``: the built-in workloads, one line each."""

from __future__ import annotations

import argparse
import json

HELP = "list the built-in workloads"
EXAMPLE = "autotune workloads"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this command's options."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Prints name and summary of each built-in workload."""
    from autotune import workloads

    rows = [{"name": name, "summary": workloads.summary(name)} for name in workloads.names()]
    if args.json:
        print(json.dumps({"schema_version": 1, "workloads": rows}, indent=2))
        return 0
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        print(f"{row['name']:{width}}  {row['summary']}")
    return 0
