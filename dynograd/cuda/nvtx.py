"""Ranges for NVIDIA's profiler, with PyTorch's names. They do nothing: a program that marks its phases runs unchanged."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]

_depth = 0


def range_push(msg: str) -> int:
    """Begins a range; returns its depth, from 0.

    >>> dynograd.cuda.nvtx.range_push("step"), dynograd.cuda.nvtx.range_pop()
    (0, 0)
    """
    global _depth
    _depth += 1
    return _depth - 1


def range_pop() -> int:
    """Ends the innermost range; returns its depth, -1 where there is none."""
    global _depth
    _depth = max(_depth - 1, -1)
    depth, _depth = _depth, max(_depth, 0)
    return depth


def range_start(msg: str) -> int:
    return 0


def range_end(range_id: int) -> None: ...


def mark(msg: str) -> None: ...


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A range as a with block."""
    range_push(msg)
    try:
        yield
    finally:
        range_pop()


@contextlib.contextmanager
def profile() -> Iterator[None]:
    """A context that NVIDIA's profiler would look at; it does nothing."""
    yield


def start() -> None: ...


def stop() -> None: ...
