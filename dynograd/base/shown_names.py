"""The library's name in texts: `dynograd.float32`, or `torch.float32` in programs that import it as `torch` and compare such texts."""

from __future__ import annotations

from typing import Any, TypeVar

__all__ = ["show_in_lines", "shown", "shown_as"]

Named = TypeVar("Named", bound=tuple[Any, ...])

_library = ["dynograd"]


def shown_as(library: str) -> None:
    """From now on dtypes, layouts, memory formats and sizes show themselves as those of `library`."""
    _library[0] = library


def shown(name: str) -> str:
    """The name behind that of the library.

    >>> from dynograd.base.shown_names import shown
    >>> shown("float32")
    'dynograd.float32'
    """
    return f"{_library[0]}.{name}"


def show_in_lines(kind: type[Named]) -> type[Named]:
    """The class of a function's results, a named tuple, which shows each in lines of its own from now on, as PyTorch does.

    >>> from collections import namedtuple
    >>> from dynograd.base.shown_names import show_in_lines
    >>> show_in_lines(namedtuple("max", "values indices"))(1, 2)
    dynograd.return_types.max(
    values=1,
    indices=2)
    """
    setattr(kind, "__repr__", _in_lines)  # noqa: B010 - a method of all of them
    return kind


def _in_lines(results: Any) -> str:
    parts = ",\n".join([f"{field}={value!r}" for field, value in zip(results._fields, results)])
    return shown(f"return_types.{type(results).__name__}(\n{parts})")
