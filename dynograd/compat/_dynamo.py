"""`torch._dynamo` for programs that set its options: nothing is traced, so they change nothing."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from dynograd.compat.compiler import disable, is_compiling, reset

__all__ = [
    "Settings",
    "config",
    "disable",
    "is_compiling",
    "mark_dynamic",
    "mark_static",
    "maybe_mark_dynamic",
    "optimize",
    "reset",
]


__path__: list[str] = []  # `import dynograd._dynamo.config` is an import of a submodule


class Settings(ModuleType):
    """Options that can be set and read; those that were not set are None."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None


config = sys.modules[f"{__name__}.config"] = Settings(f"{__name__}.config")


def mark_dynamic(tensor: Any, index: Any, **options: Any) -> None:
    """Does nothing: every size may change from call to call."""


maybe_mark_dynamic = mark_static = mark_dynamic


def optimize(*options: Any, **more: Any) -> Any:
    """A decorator that gives back what it gets."""
    return lambda function: function
