"""Argument types that several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any


def parsed(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """Lets a parser of ``core.units`` say its own sentence."""

    def checked(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as problem:
            raise argparse.ArgumentTypeError(str(problem)) from None

    return checked
