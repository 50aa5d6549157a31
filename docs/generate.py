"""Writes the parts of the documentation that are made from the code: ``python docs/generate.py``."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from autotune.cli.main import command_names, load_command
from autotune.config.schema import json_schema
from autotune.report.reference import columns_markdown

FOLDER = Path(__file__).parent

COMMANDS = """# Commands

Every command has `--help`, and `--debug` to show tracebacks. Results go to stdout, everything else to stderr. This page
is written from the code by `python docs/generate.py`.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | the job could not be done: nothing fits, no GPU where one was demanded, a full disk |
| 2 | bad usage or bad input; nothing was written |
| 3 | the workload's own code failed |
| 130 | interrupted |
"""


def generated() -> dict[str, str]:
    """Returns the content of each generated file, by name."""
    return {
        "columns.md": columns_markdown(),
        "commands.md": commands_markdown(),
        "tuned.schema.json": json.dumps(json_schema(), indent=2) + "\n",
    }


def commands_markdown() -> str:
    """Returns the reference of all commands, from the parsers that read them."""
    return "\n".join([COMMANDS, *(section for name in command_names() for section in _command(name))])


def _command(name: str) -> Iterator[str]:
    module = load_command(name)
    parser = argparse.ArgumentParser(prog=f"autotune {name}", add_help=False)
    module.add_arguments(parser)
    yield f"## autotune {name}\n"
    yield f"{module.HELP[0].upper()}{module.HELP[1:]}.\n"
    for group in parser._action_groups:
        rows = [_row(action, parser) for action in group._group_actions]
        if rows:
            title = {"positional arguments": "argument", "options": "option"}.get(group.title or "", group.title)
            yield f"| {title} | meaning |\n|---|---|\n" + "\n".join(rows) + "\n"
    yield f"Example: `{module.EXAMPLE}`\n"


def _row(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    value = action.metavar or (f"{{{','.join(map(str, action.choices))}}}" if action.choices else action.dest.upper())
    takes = "" if action.nargs == 0 else f" {value}" if action.option_strings else str(value)
    more = " ..." if action.nargs == "+" else ""
    name = ", ".join(action.option_strings) + takes + more
    meaning = (action.help or "") % {**vars(action), "prog": parser.prog}
    if action.required and action.option_strings:
        meaning = f"(required) {meaning}"
    return f"| `{name}` | {meaning} |".replace("\n", " ")


if __name__ == "__main__":
    for name, text in generated().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
