"""One worker of a study, as a process: replays a landscape, a little of real time per trial. Started by tests."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from autotune.search.opening import open_study
from autotune.search.run import search
from tests.search.studies import job_for, landscape


def main(storage: str, folder: str, log: str, trial_s: str) -> None:
    """Searches to the end; writes a line when a trial begins and one when the search has ended."""
    scene = landscape()
    lines = Path(log)

    def note(**values: object) -> None:
        with lines.open("a") as stream:
            stream.write(json.dumps(values) + "\n")

    def run_trial(number, candidate, *, give_up_update_s, timeout_s):
        note(began=number)
        time.sleep(float(trial_s))
        # Nothing that depends on who came first: measurements are replayed.
        return scene.trial(number, candidate)

    store = open_study(Path(folder), job_for(scene), scene.space, name="shared", storage=storage)
    reason = search(store, run_trial, trials=24)
    note(ended=reason, trials=len(store.records()))


if __name__ == "__main__":
    main(*sys.argv[1:])
