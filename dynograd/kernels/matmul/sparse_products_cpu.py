"""Products of compressed rows with dense matrices, on NumPy arrays. Half types add up in float32."""

from __future__ import annotations

import numpy as np

from dynograd.arrays import buffers


def product(values, crow, col, dense):
    """(rows, K): the sparse matrix times `dense` (C, K)."""
    from dynograd.kernels.matmul import sparse_products_numba as compiled

    kind = values.dtype
    crow, col = checked_columns(crow, col, dense.shape[0])
    values, dense, wide = _ready(kind, values, dense)
    rows, width = crow.size - 1, dense.shape[1]
    out = buffers.empty((rows, width), wide)
    if out.size:
        compiled.product(values, crow, col, dense, out, count=rows, work=max(values.size, rows) * width)
    return out.astype(kind, copy=False)


def transposed_product(values, crow, col, dense, columns):
    """(columns, K): the transpose of the sparse matrix times `dense` (rows, K)."""
    from dynograd.kernels.matmul import sparse_products_numba as compiled

    crow, col = checked_columns(crow, col, columns)
    starts = np.empty(columns + 1, np.int64)
    rows, order = np.empty(col.size, np.int64), np.empty(col.size, np.int64)
    compiled.count_places(crow, col, starts, rows, order, count=1, work=col.size)
    if values.dtype.char not in "fdFD":
        return product(values[order], starts, rows, dense)
    sorted_values = buffers.empty(values.shape, values.dtype)
    compiled.take(values, order, sorted_values, count=values.size, work=values.size)
    return product(sorted_values, starts, rows, dense)


def sampled(left, right, crow, col):
    """(entries,): `left @ right.T` where the sparse matrix has entries."""
    from dynograd.kernels.matmul import sparse_products_numba as compiled

    kind = left.dtype
    crow, col = checked_columns(crow, col, right.shape[0])
    left, right, wide = _ready(kind, left, right)
    out = buffers.zeros((col.size,), wide)
    width = left.shape[1]
    if out.size and width:
        compiled.sampled(left, right, crow, col, out, count=crow.size - 1, work=col.size * width)
    return out.astype(kind, copy=False)


def checked_columns(crow, col, columns):
    """Both as contiguous int64.

    Raises:
        IndexError: they do not describe rows of entries in that many columns.
    """
    crow = np.ascontiguousarray(crow, np.int64)
    col = np.ascontiguousarray(col, np.int64)
    if crow[0] or crow[-1] != col.size or (crow[1:] < crow[:-1]).any():
        raise IndexError(
            f"sparse: row starts begin with 0, never fall and end with the number of entries, {col.size}; got {crow[:8].tolist()}"
            f"{' ...' if crow.size > 8 else ''}."
        )
    if col.size and (col.min() < 0 or col.max() >= columns):
        worst = int(col.min()) if col.min() < 0 else int(col.max())
        raise IndexError(f"sparse: index {worst} is out of range for a dim of size {columns}.")
    return crow, col


def _ready(kind, *arrays):
    """(the arrays contiguous in the dtype they are added up in, ..., that dtype)."""
    wide = np.dtype(np.float32) if kind.itemsize == 2 and kind.kind in "fV" else kind
    return (*[np.ascontiguousarray(array, wide) for array in arrays], wide)
