"""Whether results may depend on batch neighbours: a mode that kernels read.

The fastest way to multiply, sum or convolve depends on how many rows there are, and with it the last bits. In batch-invariant
mode a row's result has the same bits whatever it is batched with: kernels take ways that treat every row alike.
"""

from __future__ import annotations

import threading
from typing import Any


class _OfThread(threading.local):
    chosen: bool | None = None


_of_thread = _OfThread()
_everywhere = False


class Uses:
    """Nobody pays for a mode that nobody has used: kernels that are called most ask `USES.batch_invariant` first."""

    batch_invariant = False


USES = Uses()


def batch_invariant() -> bool:
    """Whether the mode is on for the calling thread: what kernels ask."""
    return USES.batch_invariant and is_batch_invariant()


def is_batch_invariant() -> bool:
    """Whether results are computed independently of batch neighbours; see `use_batch_invariant`.

    Returns:
        True or False.

    >>> dynograd.is_batch_invariant()
    False
    """
    chosen = _of_thread.chosen
    return _everywhere if chosen is None else chosen


class use_batch_invariant:
    """From now on `model(x)[i]` has the same bits as `model(x[i : i + 1])[0]`; or inside a `with`, on this thread only.

    Holds for Linear, matrix products, norms, softmax, attention, recurrent layers and convolutions in evaluation mode (batch norm in
    training sees the whole batch by definition). Products run at about half speed, less for a single row. Threads without a `with`
    of their own follow the last call.

    Args:
        mode: on or off.
    Raises:
        TypeError: `mode` is not a bool.

    >>> with dynograd.use_batch_invariant(True):
    ...     dynograd.is_batch_invariant()
    True
    >>> dynograd.is_batch_invariant()
    False
    """

    def __init__(self, mode: bool = True) -> None:
        global _everywhere
        if not isinstance(mode, bool):
            raise TypeError(f"use_batch_invariant: expected True or False, got {type(mode).__name__} {mode!r}.")
        self.mode = mode
        self._everywhere_before: bool | None = _everywhere
        self._before: list[bool | None] = []
        _everywhere = mode
        USES.batch_invariant = True

    def __enter__(self) -> None:
        global _everywhere
        if self._everywhere_before is not None:
            _everywhere, self._everywhere_before = self._everywhere_before, None
        self._before.append(_of_thread.chosen)
        _of_thread.chosen = self.mode

    def __exit__(self, *failure: Any) -> None:
        _of_thread.chosen = self._before.pop()

    def __repr__(self) -> str:
        return f"use_batch_invariant({self.mode})"
