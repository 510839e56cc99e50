"""The library's name in texts: `dynograd.float32`, or `torch.float32` in programs that import it as `torch` and compare such texts."""

from __future__ import annotations

__all__ = ["shown", "shown_as"]

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
