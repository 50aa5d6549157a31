"""Reads and writes the tuned config."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

from autotune.config.layout import record_from_plain, record_to_plain
from autotune.config.text import dump_text, kind_of, parse_text
from autotune.core.settings import TrainSettings
from autotune.core.study import Study
from autotune.core.tuned import Evidence, TunedRecord
from autotune.errors import AutotuneError, UsageError


class TunedConfigWarning(UserWarning):
    """A tuned config is used on other hardware, software or code than it was measured on."""


@dataclass(frozen=True, slots=True)
class TunedConfig:
    """The chosen settings with their evidence, as ``tuned.toml``, ``tuned.json`` or ``tuned.yaml`` hold them.

    Attributes:
        record: the content, section by section.
    """

    record: TunedRecord

    @classmethod
    def load(cls, path: str | Path, *, check: bool = True) -> TunedConfig:
        """Reads a tuned config; the ending of its name tells the format.

        Args:
            path: a ``.toml``, ``.json`` or ``.yaml`` file.
            check: warn (:class:`TunedConfigWarning`) where this machine, its software or the workload's source differ
                from what was measured, as far as that can be seen without loading TensorFlow.

        Raises:
            UsageError: the file is missing, cut short, of an unknown version, or has a missing, unknown or wrong key.
        """
        file = Path(path)
        kind = kind_of(file)
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise UsageError(f"{file} is not a text file in UTF-8; give a tuned config, such as tuned.toml") from None
        except OSError as error:
            raise UsageError(f"cannot read {file}: {error.strerror or error}") from None
        try:
            config = cls(record_from_plain(parse_text(text, kind)))
        except ValueError as error:
            raise UsageError(f"{file}: {error}") from None
        if check:
            config.warn_of_differences(file)
        return config

    @classmethod
    def from_study(cls, study: Study) -> TunedConfig:
        """Returns the config of the study's chosen trial.

        Raises:
            AutotuneError: no trial was chosen.
        """
        chosen = study.chosen_record
        measured = study.confirmation or (chosen.outcome.throughput if chosen else None)
        if chosen is None or measured is None:
            raise AutotuneError(f"study {study.name!r} has no chosen trial, so there is no tuned config")
        memory = chosen.outcome.memory
        evidence = Evidence(
            samples_per_s=measured.samples_per_s,
            samples_per_s_low=measured.samples_per_s_low,
            samples_per_s_high=measured.samples_per_s_high,
            peak_bytes=memory.peak_bytes if memory else None,
            peak_source=memory.peak_source if memory else None,
            updates_measured=measured.updates_measured,
            trials_run=len(study.records),
            confirmed=study.confirmed,
        )
        return cls(
            TunedRecord(
                config=chosen.candidate,
                evidence=evidence,
                hardware=study.job.hardware,
                software=study.job.software,
                workload=study.job.workload,
                seed=study.job.seed,
                notes=chosen.outcome.warnings,
            )
        )

    def settings(self) -> TrainSettings:
        """Returns the settings for a training loop."""
        return self.record.settings()

    def save(self, path: str | Path) -> Path:
        """Writes the config; the ending of the name tells the format. Written beside and renamed."""
        file = Path(path)
        text = self.dumps(kind_of(file))
        beside = file.with_name(f".{file.name}.part")
        beside.write_text(text, encoding="utf-8")
        return beside.replace(file)

    def dumps(self, kind: str) -> str:
        """Returns the config as text.

        Args:
            kind: ``toml``, ``json`` or ``yaml``.

        Raises:
            UsageError: another kind.
        """
        return dump_text(record_to_plain(self.record), kind)

    def differences(self) -> tuple[str, ...]:
        """Returns what differs here from what was measured, one phrase each; see :meth:`load`."""
        from autotune.config.differences import differences_here

        return differences_here(self.record)

    def warn_of_differences(self, file: Path) -> None:
        """Warns, once per call, with the list of :meth:`differences`."""
        found = self.differences()
        if found:
            listed = "".join(f"\n  - {phrase}" for phrase in found)
            message = f"{file} was measured under other conditions, so its figures may not hold here:{listed}"
            warnings.warn(message, TunedConfigWarning, stacklevel=3)
