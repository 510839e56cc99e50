"""Rows picked by index, and gradients added back into them, on NumPy arrays.

`scatter_add_rows` and `index_add` serve every op whose backward adds into indexed places. Repeated indices add up in
order, so results repeat bit for bit; half types add up in float32.
"""

from __future__ import annotations

import numpy as np

__all__ = ["embedding_backward", "embedding_forward", "index_add", "scatter_add", "scatter_add_rows"]

# Below this many elements np.add.at is quick enough not to load Numba for it.
COMPILED_SIZE = 256


def embedding_forward(weight, indices):
    """weight[indices]: shape of `indices` plus the weight's columns."""
    return weight.take(indices, axis=0)


def embedding_backward(g, indices, num_rows, padding_idx):
    """Gradient of the (num_rows, D) weight: the sum of each row's uses; row `padding_idx` (None for none) gets 0."""
    kind = np.dtype(np.float32) if g.dtype.itemsize == 2 else g.dtype
    result = np.zeros((num_rows, g.shape[-1]), kind)
    scatter_add_rows(result, indices.reshape(-1), g.reshape(-1, g.shape[-1]))
    if padding_idx is not None:
        result[padding_idx] = 0
    return result.astype(g.dtype, copy=False)


def scatter_add_rows(out, indices, rows):
    """Add rows[i] (any shape after the first dimension) to out[indices[i]], in place; returns `out`."""
    compiled = rows.size >= COMPILED_SIZE and out.dtype in (np.float32, np.float64) and out.flags.c_contiguous
    if not compiled:
        np.add.at(out, indices, rows)
        return out
    from dynograd.kernels.embeddings_numba import add_rows

    flat_rows = np.ascontiguousarray(rows, out.dtype).reshape(len(indices), -1)
    add_rows(out.reshape(len(out), -1), np.ascontiguousarray(indices, np.int64), flat_rows)
    return out


def index_add(x, dim, index, source):
    """A copy of `x` with source's slices along `dim` added at `index`."""
    result = np.moveaxis(x, dim, 0).astype(np.float32 if _is_half(x) else x.dtype, order="C")
    if result.shape[0] and source.size:
        scatter_add_rows(result, index, np.moveaxis(source, dim, 0))
    return np.ascontiguousarray(np.moveaxis(result, 0, dim)).astype(x.dtype, copy=False)


def scatter_add(x, dim, index, source):
    """A copy of `x` with each source element added at its own place: x[..., index[..., i, ...], ...] += source[..., i, ...].

    `index` may be smaller than `x` outside `dim` and than `source` everywhere.
    """
    result = x.astype(np.float32 if _is_half(x) else x.dtype, order="C")
    if not index.size:
        return result.astype(x.dtype, copy=False)
    places = np.zeros(index.shape, np.int64)
    for axis, stride in enumerate(np.array(result.strides) // result.itemsize):
        along = index if axis == dim % x.ndim else np.arange(index.shape[axis]).reshape(_along(axis, x.ndim))
        places += stride * along
    used = source[tuple(slice(size) for size in index.shape)]
    scatter_add_rows(result.reshape(-1), places.reshape(-1), np.ascontiguousarray(used).reshape(-1))
    return result.astype(x.dtype, copy=False)


def _along(axis, ndim):
    """Shape that lays a vector along `axis`."""
    return [-1 if other == axis else 1 for other in range(ndim)]


def _is_half(x):
    """float16 and bfloat16, not int16."""
    return x.dtype.itemsize == 2 and x.dtype.kind not in "iu"
