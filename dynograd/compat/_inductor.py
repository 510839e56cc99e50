"""`torch._inductor` for programs that set its options, or ask for them: they change nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynograd.base import stubs
from dynograd.compat.compile_options import check_options, list_mode_options, list_options
from dynograd.compat.compiler import compile as _compile
from dynograd.compat.import_paths import below

globals().update(stubs.names("_inductor"))

__getattr__ = below("_inductor")
__path__: list[str] = []  # there are modules below it
__all__ = ["compile", "list_mode_options", "list_options", *stubs.names("_inductor")]


def compile(
    gm: Any, example_inputs: list[Any] | None = None, options: dict[str, Any] | None = None
) -> Callable[..., Any]:
    """`dynograd.compile` of a graph module, as PyTorch's compiler of graphs is called.

    Args:
        gm: a module, or a function.
        example_inputs: accepted; the first calls tell.
        options: of PyTorch's compiler; checked, and without effect.
    Returns:
        What `dynograd.compile` gives.

    >>> dynograd._inductor.compile(lambda x: x + 1, [])(tensor(1.0))
    tensor(2.)
    """
    check_options(options or {})
    return _compile(gm)
