"""Settings that remember what was read of them: the only way to see which axes a loop of the user's own honours."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from autotune.core.settings import TrainSettings


class TrackedSettings(TrainSettings):
    """A :class:`TrainSettings` in every respect, which records the attributes that were read."""

    __slots__ = ("_reads",)
    _reads: set[str]

    @classmethod
    def of(cls, settings: TrainSettings) -> TrackedSettings:
        """Returns a copy of ``settings`` with nothing read yet."""
        tracked = cls.__new__(cls)
        object.__setattr__(tracked, "_reads", set())
        tracked.__init__(**{f.name: getattr(settings, f.name) for f in fields(settings)})  # type: ignore[misc]
        object.__setattr__(tracked, "_reads", set())  # construction checks its own values, which is no reading
        return tracked

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_"):
            object.__getattribute__(self, "_reads").add(name)
        return object.__getattribute__(self, name)

    def __reduce__(self) -> Any:
        return _plain, ({f.name: getattr(self, f.name) for f in fields(self)},)


def reads(settings: TrackedSettings) -> frozenset[str]:
    """Returns the names read so far. A derived value counts as the values it comes from."""
    return frozenset(object.__getattribute__(settings, "_reads"))


def _plain(values: dict[str, Any]) -> TrainSettings:
    return TrainSettings(**values)
