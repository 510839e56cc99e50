"""`torch.compiler` for programs that ask: nothing is being compiled, and functions come back as they are."""

from __future__ import annotations

from typing import Any

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "reset",
    "set_stance",
]


def is_compiling() -> bool:
    """False: Python runs as it is."""
    return False


def is_dynamo_compiling() -> bool:
    """False: Python runs as it is."""
    return False


def is_exporting() -> bool:
    """False: Python runs as it is."""
    return False


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """The function itself, as `@disable` and as `@disable(recursive=...)`.

    >>> dynograd.compiler.disable(len)([1])
    1
    """
    return (lambda one: one) if fn is None else fn


def allow_in_graph(fn: Any) -> Any:
    """The function itself."""
    return fn


def assume_constant_result(fn: Any) -> Any:
    """The function itself."""
    return fn


def cudagraph_mark_step_begin() -> None:
    """Does nothing."""


def reset() -> None:
    """Does nothing: there is nothing compiled to forget."""


class set_stance:
    """Changes nothing; also a context manager and decorator."""

    def __init__(self, *stance: Any, **options: Any) -> None: ...

    def __call__(self, fn: Any) -> Any:
        return fn

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...
