"""Triangles and diagonals of NumPy matrices."""

from __future__ import annotations

import numpy as np

__all__ = ["triangle_indices", "tril", "triu"]


def tril(x, diagonal):
    """The elements on and below a diagonal of the last two dims; zeros above."""
    return _kept(x, np.tri(*x.shape[-2:], diagonal, bool))


def triu(x, diagonal):
    """The elements on and above a diagonal of the last two dims; zeros below."""
    return _kept(x, ~np.tri(*x.shape[-2:], diagonal - 1, bool))


def _kept(x, mask):
    result = np.zeros(x.shape, x.dtype)
    np.copyto(result, x, where=mask)
    return result


def triangle_indices(rows, columns, offset, lower):
    """(2, N): row and column numbers of the elements on and below (or above) a diagonal, row by row."""
    mask = np.tri(rows, columns, offset, bool) if lower else ~np.tri(rows, columns, offset - 1, bool)
    return np.stack(np.nonzero(mask))
