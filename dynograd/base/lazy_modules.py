"""Modules of a package that are imported when a program first names them."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from dynograd.base.garbage import uncollected

__all__ = ["module_below"]


def module_below(package: str, name: str) -> ModuleType | None:
    """The module of this name in a package, for the `__getattr__` of that package.

    Args:
        package: its name.
        name: the attribute that is asked for.
    Returns:
        The module, imported; None: there is none.

    >>> from dynograd.base.lazy_modules import module_below
    >>> module_below("dynograd.nn", "init").__name__, module_below("dynograd.nn", "Linear")
    ('dynograd.nn.init', None)
    """
    path = f"{package}.{name}"
    if not name.isidentifier() or name.startswith("__") or not find_spec(path):
        return None
    with uncollected():
        return import_module(path)
