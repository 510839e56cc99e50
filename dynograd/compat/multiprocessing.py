"""Python's `multiprocessing` under PyTorch's name, with `spawn` of several processes and sharing strategies that are accepted.

Tensors are sent to other processes as copies; forked processes share those of `share_memory_()`.
"""

from __future__ import annotations

import importlib

from dynograd.base import stubs
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.compat.inner.spawning import *  # noqa: F403
from dynograd.compat.inner.spawning import __all__ as _spawning

__path__: list[str] = []  # PyTorch has a module below it (`compat.faces`)
_python = importlib.import_module("multiprocessing")
globals().update({name: getattr(_python, name) for name in _python.__all__})

__all__ = [
    *_python.__all__,
    *_spawning,
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
]

_strategy = ["file_descriptor"]


def get_all_sharing_strategies() -> set[str]:
    """The names that `set_sharing_strategy` takes.

    Returns:
        A set.

    >>> sorted(dynograd.multiprocessing.get_all_sharing_strategies())
    ['file_descriptor', 'file_system']
    """
    return {"file_descriptor", "file_system"}


def get_sharing_strategy() -> str:
    """What was last set.

    Returns:
        A text.

    >>> dynograd.multiprocessing.get_sharing_strategy()
    'file_descriptor'
    """
    return _strategy[0]


def set_sharing_strategy(new_strategy: str) -> None:
    """Remembers the name and warns, once: tensors are copied whatever it is.

    Args:
        new_strategy: one of `get_all_sharing_strategies()`.

    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     dynograd.multiprocessing.set_sharing_strategy("file_system")
    """
    if new_strategy not in get_all_sharing_strategies():
        raise ValueError(
            f"set_sharing_strategy: expected one of {sorted(get_all_sharing_strategies())}, got {new_strategy!r}."
        )
    _strategy[0] = new_strategy
    stubs.warn_once("multiprocessing.set_sharing_strategy")


_show_plainly(globals())
