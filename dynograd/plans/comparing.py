"""Whether arguments of ops that are no tensors are those of the record."""

from __future__ import annotations

from typing import Any

from numpy import inexact

from dynograd.arrays import ndarray
from dynograd.tensor.tensor import Tensor

__all__ = ["same"]

_INEXACT = float, complex, inexact
_PLAIN = frozenset({int, bool, str, slice, type(None), type(Ellipsis)})  # of sizes, orders of dims, indices
_MOST_BYTES = 1 << 12  # of an array among the arguments that is compared by value


def same(left: Any, right: Any) -> bool:
    """Whether two arguments that are no tensors are equal, and of one type."""
    if left is right:
        return True
    if type(left) is not type(right):
        return False
    if type(left) in (tuple, list):
        kinds = [*map(type, left)]
        if kinds != [*map(type, right)]:
            return False
        if not _PLAIN.issuperset(kinds):
            return all([same(first, second) for first, second in zip(left, right)])
    elif isinstance(left, Tensor):
        return False
    elif type(left) is ndarray:  # an index, say, that the program has made of a list
        return (
            left.dtype == right.dtype
            and left.shape == right.shape
            and left.nbytes <= _MOST_BYTES
            and left.tobytes() == right.tobytes()
        )
    try:
        equal = bool(left == right) or bool(left != left and right != right)
        return equal and (not isinstance(left, _INEXACT) or left != 0 or str(left) == str(right))  # -0.0 is not 0.0
    except (RuntimeError, TypeError, ValueError):  # what has no order is not the same
        return False
