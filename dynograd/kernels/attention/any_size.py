"""Whether ops that are chosen by the sizes of their operands are to be the same at any size: a mode of a thread, for records of programs.

Small operands often have a shorter way, by other ops than large ones. What is recorded to stand for all sizes takes the way of large ones.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["alike_at_any_size", "is_alike_at_any_size"]


class _OfThread(threading.local):
    alike = False


_of_thread = _OfThread()


def is_alike_at_any_size() -> bool:
    """Whether the mode is on for the calling thread: what those ask who choose ops by size."""
    return _of_thread.alike


@contextmanager
def alike_at_any_size() -> Iterator[None]:
    """The mode is on inside, on this thread."""
    before, _of_thread.alike = _of_thread.alike, True
    try:
        yield
    finally:
        _of_thread.alike = before
