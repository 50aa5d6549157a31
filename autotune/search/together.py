"""Several workers of one process, each with a device of its own, on one study."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from autotune.search.run import Event, RunTrial, search
from autotune.search.store import StudyStore


def search_together(
    workers: Sequence[tuple[StudyStore, RunTrial]],
    *,
    trials: int,
    budget_s: float | None = None,
    on_event: Callable[[Event], None] = lambda event: None,
    stop_requested: Callable[[], bool] = lambda: False,
) -> str:
    """Runs :func:`autotune.search.run.search` once per worker, in threads, until all have ended.

    Args:
        workers: a store of its own and a way to run trials for each device; the first one's reason is returned.
        trials: most trials of the study, of all workers.
        budget_s: seconds from now; None for none.
        on_event: told of every trial, by one worker at a time.
        stop_requested: True ends every worker after its trial.

    Raises:
        BaseException: the first that a worker raised; the others were stopped after their trials.
    """
    if len(workers) == 1:
        store, run_trial = workers[0]
        return search(
            store, run_trial, trials=trials, budget_s=budget_s, on_event=on_event, stop_requested=stop_requested
        )
    telling = threading.Lock()
    problems: list[BaseException] = []
    reasons: dict[int, str] = {}

    def tell(event: Event) -> None:
        with telling:
            on_event(event)

    def work(index: int, store: StudyStore, run_trial: RunTrial) -> None:
        try:
            reasons[index] = search(
                store,
                run_trial,
                trials=trials,
                budget_s=budget_s,
                on_event=tell,
                stop_requested=lambda: bool(problems) or stop_requested(),
            )
        except BaseException as problem:  # raised again where somebody can catch it
            problems.append(problem)

    threads = [
        threading.Thread(target=work, args=(index, *worker), name=f"autotune worker {index}")
        for index, worker in enumerate(workers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]
    return reasons[0]
