"""Sums of gradients in one fixed tree, by parameter: of the shards that a process computes, as they come."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynograd import arrays
from dynograd.tensor.tensor import Tensor

__all__ = ["Term", "Tree", "dtype_of_sums", "term_of"]

Term = list[np.ndarray | None]
"""Gradients by parameter; None where a shard has not used it."""


def dtype_of_sums(parameter: Tensor) -> np.dtype[Any]:
    """Of numbers of 16 bits sums of 32 bits are made."""
    dtype = parameter.array.dtype
    return np.dtype(np.float32) if dtype.itemsize == 2 else dtype


def term_of(parameter: Tensor, weight: float) -> np.ndarray | None:
    """A shard's gradient times its weight, as an array of its own."""
    gradient = parameter.grad
    if gradient is None:
        return None
    if gradient.is_sparse:
        gradient = gradient.to_dense()
    term = np.array(arrays.to_numpy(gradient.array), dtype_of_sums(parameter), order="C")
    term *= term.dtype.type(weight)
    return term


class Tree:
    """The sum of a power of two of terms, pair by pair, as they come."""

    def __init__(self) -> None:
        self._parts: list[tuple[int, Term]] = []  # (how many terms, their sum), each of fewer than the one before

    def add(self, term: Term) -> None:
        count = 1
        while self._parts and self._parts[-1][0] == count:
            term = [_sum(left, right) for left, right in zip(self._parts.pop()[1], term)]
            count *= 2
        self._parts.append((count, term))

    def whole(self) -> Term:
        ((_, total),) = self._parts
        return total


def _sum(left: np.ndarray | None, right: np.ndarray | None) -> np.ndarray | None:
    if left is None:
        left, right = right, None
    if left is None:
        return None
    left += (
        left.dtype.type(0) if right is None else right
    )  # adding 0 makes -0 to 0, as in a process that has sent zeros
    return left
