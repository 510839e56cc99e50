"""Gradients of a leaf that many small calls send: kept as what they are made of, and summed a few hundred rows at a time.

A recursive or stepwise program uses one weight in many calls with few rows each. Each call's own gradient of the weight is as large as the
weight; the rows it is made of are few. Rows of all calls together give the sum by one product (`Linear`), or by one addition into the
table (`Embedding`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynograd.arrays import Array, ndarray
from dynograd.kernels import kernel

__all__ = ["DeferredSum", "deferred"]

FEW = 64  # rows of a call
MOST = 512  # rows that wait, which keep what the calls saved alive
LEAST = 1 << 14  # elements of the weight


class DeferredSum:
    """The sum of `make(rows, others)` over calls, made when it is wanted: `dense()`; `plus_gradient` adds another gradient.

    With `notes`, a backward pass that is recorded, it is told what it is to compute: `notes.settled(self)`, `notes.add(total, part)`.
    """

    __slots__ = ("key", "make", "notes", "parts", "total", "waiting")

    total: Any
    notes: Any

    def __init__(self, key: Any, make: Callable[[Any, Any], Any], rows: Any, others: Any) -> None:
        self.key, self.make, self.total, self.notes = key, make, None, None
        self.parts, self.waiting = [(rows, others)], len(rows)

    def plus_gradient(self, other: Any) -> DeferredSum | Array:
        if type(other) is DeferredSum:
            if other.key == self.key and other.total is None:
                self.parts += other.parts
                self.waiting += other.waiting
                if self.waiting >= MOST:
                    self._settle()
                return self
            other = other.dense()
        add = getattr(other, "plus_gradient", None)
        dense = self.dense()
        if add is not None:
            return add(dense)
        if self.notes is not None:
            return self.notes.add(dense, other)
        if type(other) is not ndarray or other.dtype != dense.dtype:
            return dense + other
        kernel("gradients", "add_into", dense)(dense, other)
        return dense

    def so_far(self) -> Array:
        """The sum as it is now; what it was made of may change from here on."""
        self._settle()
        return self.total

    def dense(self) -> Array:
        """The sum as an array that nobody else has; the object is empty then."""
        self._settle()
        result, self.total = self.total, None
        return result

    def _settle(self) -> None:
        if not self.parts:
            return
        if self.notes is not None:
            self.total = self.notes.settled(self)
        else:
            result = self.of_parts()
            if self.total is None:
                self.total = result
            else:
                kernel("gradients", "add_into", result)(self.total, result)
        self.parts, self.waiting = [], 0

    def of_parts(self) -> Array:
        """The sum over the calls that wait, as an array of its own."""
        rows, others = zip(*self.parts, strict=True)
        if len(rows) == 1:
            return self.make(rows[0], others[0])
        join = kernel("joins", "cat", rows[0])
        return self.make(join(list(rows), 0), join(list(others), 0))


def deferred(
    saved: Any, place: int, rows: Any, others: Any, size: int, key: Any, make: Callable[[Any, Any], Any]
) -> DeferredSum | None:
    """A DeferredSum, where the gradient at `place` goes to a leaf that takes it and the call has few rows; else None."""
    if type(rows) is not ndarray or type(others) is not ndarray or len(rows) > FEW or size < LEAST:
        return None
    edges = getattr(saved, "edges", None)
    if edges is None or saved.hooks is not None or not getattr(edges[place], "takes_deferred_sums", False):
        return None
    return DeferredSum(key, make, rows, others)
