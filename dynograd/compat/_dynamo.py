"""`torch._dynamo` for programs that name PyTorch's tracer: nothing is traced, `compile` records (docs/compile.md)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from dynograd.base import stubs
from dynograd.compat.compile_options import list_backends
from dynograd.compat.compiler import (
    OptimizedModule,
    compile,
    mark_dynamic,
    mark_static,
    maybe_mark_dynamic,
    reset,
    set_stance,
)
from dynograd.compat.explaining import explain
from dynograd.compat.exporting import is_compiling
from dynograd.compat.import_paths import below

globals().update(stubs.names("_dynamo"))

__getattr__ = below("_dynamo")
__path__: list[str] = []  # there are modules below it (`compat.faces`)
__all__ = [
    "OptimizedModule",
    "explain",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "maybe_mark_dynamic",
    "optimize",
    "optimize_assert",
    "patch_dynamo_config",
    "reset",
    "set_stance",
    "is_compiling",
    *stubs.names("_dynamo"),
]


def optimize(
    backend: Any = None, *, nopython: bool = False, disable: bool = False, dynamic: bool | None = None, **options: Any
) -> Callable[[Any], Any]:
    """The older form of `compile`: a decorator.

    Args:
        backend, disable, dynamic: as of `compile`.
        nopython: its `fullgraph`.
        options: accepted.
    Returns:
        A decorator of functions and modules.

    >>> double = dynograd._dynamo.optimize("inductor")(lambda x: 2 * x)
    >>> double(tensor(2.0))
    tensor(4.)
    """
    return compile(backend=backend, fullgraph=nopython, disable=disable, dynamic=dynamic)


def optimize_assert(backend: Any = None, **options: Any) -> Callable[[Any], Any]:
    """`optimize(nopython=True)`.

    Args:
        backend, options: as of `optimize`.
    Returns:
        A decorator of functions and modules.

    >>> dynograd._dynamo.optimize_assert("eager")(len) is len
    True
    """
    return optimize(backend, nopython=True, **options)


def patch_dynamo_config(arg1: Any = None, arg2: Any = None, **kwargs: Any) -> AbstractContextManager[None]:
    """Sets options of `_dynamo.config` in a block or a function; they change nothing.

    Args:
        arg1, arg2: the name of an option and its value, or a dict of them.
        kwargs: options by name.
    Returns:
        A context manager and decorator.

    >>> with dynograd._dynamo.patch_dynamo_config(verbose=True):
    ...     dynograd._dynamo.config.verbose
    True
    """
    return stubs.settings("_dynamo.config").patch(arg1, arg2, **kwargs)
