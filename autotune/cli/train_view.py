"""``autotune train`` on a terminal: progress while it runs, Ctrl-C, the result at the end."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
import warnings

from autotune.cli.ctrl_c import counted_interrupts
from autotune.config import TunedConfig
from autotune.core.training_run import Began, EpochEnded, Event, Progress
from autotune.core.units import format_rate, format_seconds
from autotune.train import TrainWatcher, train

_LINE_EVERY_S = 60.0  # in a pipe, which cannot rewrite its last line


def run_and_print(args: argparse.Namespace) -> int:
    """Trains as ``args`` ask; returns the exit code."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        config = TunedConfig.load(args.config)
    view = _View(args.epochs)
    for warning in caught:
        view.say(f"warning: {warning.message}")
    with counted_interrupts("saving a checkpoint after this update; press Ctrl-C again to end now") as received:
        try:
            files = train(
                args.workload,
                config,
                epochs=args.epochs,
                out=args.out,
                resume=args.resume,
                device=args.device,
                checkpoint_every_s=args.checkpoint_every,
                watcher=TrainWatcher(
                    event=view.event,
                    say=view.say,
                    stop_requested=lambda: bool(received),
                    stop_now=lambda: len(received) > 1,
                ),
            )
        except KeyboardInterrupt as stopped:
            view.clear()
            view.say(f"{stopped}; the same command with --resume continues")
            return 130
        except BaseException:
            view.clear()
            raise
    print("wrote:  " + "\n        ".join(str(path) for path in files))
    return 0


class _View:
    """One line per epoch on standard error, and on a terminal one that moves."""

    def __init__(self, epochs: int) -> None:
        self._epochs = epochs
        self._per_epoch: int | None = None
        self._moves = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._began = self._line_at = time.monotonic()

    def say(self, text: str) -> None:
        """Writes one line about the run."""
        self.clear()
        self._print(f"autotune: {text}")

    def event(self, event: Event) -> None:
        """Shows one event."""
        if isinstance(event, Began):
            self._per_epoch = event.updates_per_epoch
            if event.epoch or event.updates:
                self.say(f"continues after epoch {event.epoch}, update {event.updates}")
            for note in event.notes:
                self.say(note)
            self._began = self._line_at = time.monotonic()
        elif isinstance(event, Progress):
            self._progress(event)
        elif isinstance(event, EpochEnded):
            self.clear()
            self._print(self._epoch_line(event))
            self._line_at = time.monotonic()
            for note in event.notes:
                self.say(note)

    def clear(self) -> None:
        """Removes the line that moves."""
        if self._moves:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()

    def _progress(self, now: Progress) -> None:
        of = f"/{self._per_epoch}" if self._per_epoch else ""
        parts = [f"epoch {now.epoch}/{self._epochs}", f"update {now.updates}{of}"]
        if now.loss is not None:
            parts.append(f"loss {now.loss:.4g}")
        parts.append(f"{format_rate(now.samples_per_s)} samples/s")
        line = "  ".join(parts)
        if self._moves:
            self.clear()
            sys.stderr.write(line[: max(10, shutil.get_terminal_size().columns - 1)])
            sys.stderr.flush()
        elif time.monotonic() - self._line_at >= _LINE_EVERY_S:
            self._line_at = time.monotonic()
            self._print(line)

    def _epoch_line(self, ended: EpochEnded) -> str:
        numbers = ended.numbers
        shown = [name for name in numbers if name == "loss" or name.startswith("val_")]
        parts = [f"epoch {ended.epoch}/{self._epochs}"]
        parts += [f"{name} {_number(numbers[name])}" for name in shown]
        if numbers.get("updates_skipped"):
            parts.append(f"{numbers['updates_skipped']} updates skipped")
        if numbers.get("samples_per_s"):
            parts.append(f"{format_rate(numbers['samples_per_s'])} samples/s")
        parts.append(format_seconds(numbers.get("train_s")))
        return "  ".join(parts)

    def _print(self, line: str) -> None:
        encoding = sys.stderr.encoding or "ascii"
        print(line.encode(encoding, "replace").decode(encoding), file=sys.stderr, flush=True)


def _number(value: float | int | None) -> str:
    return "not finite" if value is None else f"{value:.4g}"
