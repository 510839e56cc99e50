"""Ranges for NVIDIA's profiler, with PyTorch's names. They do nothing: a program that marks its phases runs unchanged."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from dynograd.base.signatures import show_plainly as _show_plainly

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]

_depth = 0


def range_push(msg: str) -> int:
    """Begins a range; returns its depth, from 0.

    Args:
        msg: the name of the range.
    Returns:
        An int.

    >>> dynograd.cuda.nvtx.range_push("step"), dynograd.cuda.nvtx.range_pop()
    (0, 0)
    """
    global _depth
    _depth += 1
    return _depth - 1


def range_pop() -> int:
    """Ends the innermost range; returns its depth, -1 where there is none.

    Returns:
        An int.

    >>> dynograd.cuda.nvtx.range_pop()
    -1
    """
    global _depth
    _depth = max(_depth - 1, -1)
    depth, _depth = _depth, max(_depth, 0)
    return depth


def range_start(msg: str) -> int:
    """Would begin a range that need not end in the order of others, nor in the same thread; does nothing.

    Args:
        msg: the name of the range.
    Returns:
        0, for `range_end`.

    >>> dynograd.cuda.nvtx.range_end(dynograd.cuda.nvtx.range_start("load"))
    """
    return 0


def range_end(range_id: int) -> None:
    """Would end a range of `range_start`; does nothing.

    Args:
        range_id: what `range_start` gave.

    >>> dynograd.cuda.nvtx.range_end(dynograd.cuda.nvtx.range_start("load"))
    """


def mark(msg: str) -> None:
    """Would mark a moment; does nothing.

    Args:
        msg: its name.

    >>> dynograd.cuda.nvtx.mark("epoch")
    """


@contextlib.contextmanager
def range(msg: str, *args: object, **kwargs: object) -> Iterator[None]:
    """A range as a with block.

    Args:
        msg: the name; `args` and `kwargs` are put into it by `str.format`.
    Returns:
        A context manager.

    >>> with dynograd.cuda.nvtx.range("step {}", 3):
    ...     x = dynograd.ones(2)
    """
    range_push(msg)
    try:
        yield
    finally:
        range_pop()


@contextlib.contextmanager
def profile() -> Iterator[None]:
    """A context that NVIDIA's profiler would look at; it does nothing.

    >>> from dynograd.cuda import nvtx
    >>> with nvtx.profile():
    ...     x = dynograd.ones(2)
    """
    yield


def start() -> None:
    """Would begin what NVIDIA's profiler looks at; does nothing.

    >>> from dynograd.cuda import nvtx
    >>> nvtx.start()
    """


def stop() -> None:
    """Would end what NVIDIA's profiler looks at; does nothing.

    >>> from dynograd.cuda import nvtx
    >>> nvtx.stop()
    """


_show_plainly(globals())
