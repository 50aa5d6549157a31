"""What the caller of a study wants to hear and decide while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autotune.core.space import SearchSpace
from autotune.core.study import Job

if TYPE_CHECKING:
    from autotune.search.run import Event


def _go_on(job: Job, space: SearchSpace) -> bool:
    return True


def _ignore(heard: object) -> None:
    pass


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Watcher:
    """Every part has a default that does nothing.

    Attributes:
        prepared: the job and its space, before the first trial; returning False ends here (a dry run).
        event: every ``TrialStarted`` and ``TrialEnded`` of :mod:`autotune.search.run`.
        say: one sentence about the study as a whole.
        stop_requested: asked between trials; True ends the search after the trial in flight.
        stop_now: asked all the time; True kills the trial in flight and raises KeyboardInterrupt.
    """

    prepared: Callable[[Job, SearchSpace], bool] = _go_on
    event: Callable[[Event], None] = _ignore
    say: Callable[[str], None] = _ignore
    stop_requested: Callable[[], bool] = _never
    stop_now: Callable[[], bool] = _never
