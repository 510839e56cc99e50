"""Rows picked by index, and gradients added back into them, on NumPy arrays. Half types add up in float32."""

from __future__ import annotations

import numpy as np

from dynograd.kernels.index.scatters_cpu import add_slices, take
from dynograd.kernels.layout.copies_cpu import zeros


def embedding_forward(weight, indices):
    """weight[indices]: shape of `indices` plus the weight's columns."""
    return take(weight, indices, 0)


def embedding_backward(g, indices, num_rows, padding_idx):
    """Gradient of the (num_rows, D) weight: the sum of each row's uses; row `padding_idx` (None for none) gets 0."""
    kind = np.dtype(np.float32) if g.dtype.itemsize == 2 else g.dtype
    result = zeros((num_rows, g.shape[-1]), kind)
    add_slices(result, 0, indices.reshape(-1), g.reshape(indices.size, g.shape[-1]))
    if padding_idx is not None:
        result[padding_idx] = 0
    return result.astype(g.dtype, copy=False)


def add_rows(table, index, rows):
    """table[index] += rows, in place; the rows of an index that is there several times add up."""
    if table.flags.c_contiguous and table.dtype.char in "fd":
        add_slices(table, 0, index, rows)
    else:
        np.add.at(table, index, rows)


def write_rows(table, index, rows):
    """table[index] = rows, in place; each index once."""
    table[index] = rows
