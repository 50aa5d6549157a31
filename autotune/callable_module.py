"""Lets ``autotune.probe`` be both a package and the public function of the same name."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _CallableModule(ModuleType):
    """A module that, when called, calls the function of its own last name."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(self, self.__name__.rpartition(".")[2])(*args, **kwargs)


def make_callable(module_name: str) -> None:
    """Makes the module ``module_name`` callable as its function of the same last name.

    Importing ``autotune.probe.nvml`` puts the package ``probe`` where ``autotune.probe()`` is looked up; without this
    the public call would depend on what was imported before it.
    """
    sys.modules[module_name].__class__ = _CallableModule
