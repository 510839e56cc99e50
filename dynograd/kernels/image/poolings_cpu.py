"""Maximum and average pooling over 1, 2 or 3 spatial dimensions, with given or adaptive windows, on NumPy arrays.

x is (*leading, *sizes), spatial dimensions last; kernel, stride, padding, dilation and output_size hold one integer per
spatial dimension, so their length says how many there are. Indices are int64 places in the flattened spatial dimensions, as
PyTorch's `return_indices`. Half types are averaged in float32. NaN wins a maximum.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np

from dynograd.arrays import buffers
from dynograd.kernels.layout.copies_cpu import contiguous
from dynograd.kernels.reduce.reductions_cpu import mean_forward

_MOST_PLACES = 1 << 31  # planes with more need int64 places
_compiled = None


def pooled_size(size, kernel, stride, padding, dilation=1, ceil_mode=False):
    """Windows along one dimension; with `ceil_mode` a last one may reach over the edge if it starts before it."""
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    if not ceil_mode:
        return room // stride + 1
    windows = -(-room // stride) + 1
    return windows - 1 if (windows - 1) * stride >= size + padding else windows


def max_pool_forward(x, kernel, stride, padding, dilation, ceil_mode):
    """(largest value of each window, its int64 index)."""
    values, places = max_pool_places(x, kernel, stride, padding, dilation, ceil_mode)
    return values, places.astype(np.int64, copy=False)


def max_pool_places(x, kernel, stride, padding, dilation, ceil_mode):
    """(largest value of each window, its place as int32 where that will do), for channels-last images both in that order of memory."""
    spatial = len(kernel)
    sizes = x.shape[-spatial:]
    counts, taps, paired, three, windows, kind = _max_windows(sizes, kernel, stride, padding, dilation, ceil_mode)
    lead = x.shape[:-spatial]
    last = spatial == 2 and not x.flags.c_contiguous and _is_channels_last(x)
    shape = (lead[0], *counts, lead[1]) if last else (*lead, *counts)
    wide = _widened(x)
    values, places = buffers.empty(shape, wide.dtype), buffers.empty(shape, kind)
    if values.size:
        kernels = _compiled or _load()
        work = values.size * taps
        if paired and not last:
            planes = prod(lead)
            flat, operands = (planes, *counts), contiguous(wide).reshape(planes, *sizes)
            kernels.largest_in_pairs(operands, values.reshape(flat), places.reshape(flat), count=planes, work=work // 2)
        else:
            fill, lowest = (values.reshape(-1), places.reshape(-1)), _lowest(wide.dtype)
            if last:
                flat = wide.transpose(0, 2, 3, 1).reshape(-1)
                kernels.largest_last(flat, lead[1], three, windows, lowest, *fill, count=lead[0], work=work)
            else:
                flat = contiguous(wide).reshape(-1)
                kernels.largest_in_windows(flat, three, windows, lowest, *fill, count=prod(lead), work=work)
    if wide is not x:
        values = values.astype(x.dtype)
    return (values.transpose(0, 3, 1, 2), places.transpose(0, 3, 1, 2)) if last else (values, places)


@lru_cache(maxsize=256)
def _max_windows(sizes, kernel, stride, padding, dilation, ceil_mode):
    """(windows along each dim, places of one, whether they are 2 x 2 side by side, sizes and windows of three dims, dtype of places)."""
    counts = tuple(
        [
            pooled_size(*sizes_of_dim, ceil_mode)
            for sizes_of_dim in zip(sizes, kernel, stride, padding, dilation, strict=True)
        ]
    )
    paired = kernel == stride == (2, 2) and not any(padding) and dilation == (1, 1)
    paired = paired and all([2 * count <= size for count, size in zip(counts, sizes, strict=True)])
    three = _three(sizes, 1) + _three(counts, 1)
    windows = _three(kernel, 1) + _three(stride, 1) + _three(padding, 0) + _three(dilation, 1)
    kind = np.dtype(np.int32 if prod(sizes) + prod(kernel) * prod(dilation) < _MOST_PLACES else np.int64)
    return counts, prod(kernel), paired, three, windows, kind


@lru_cache(maxsize=16)
def _lowest(kind):
    return kind.type(-np.inf if kind.kind == "f" else np.iinfo(kind).min)


def _load():
    """The compiled kernels; an import statement in each call would cost more than a small call's arithmetic."""
    global _compiled
    from dynograd.kernels.image import poolings_numba

    _compiled = poolings_numba
    return poolings_numba


def adaptive_max_pool_forward(x, output_size):
    """(largest value of each of `output_size` windows, its int64 index)."""
    from dynograd.kernels.image.poolings_numba import largest_in_ranges

    spatial = len(output_size)
    starts, stops, *_ = _adaptive_joined(x.shape[-spatial:], tuple(output_size))
    planes = _planes(_widened(x), spatial)
    shape = (*x.shape[:-spatial], *output_size)
    values, places = buffers.empty(shape, planes.dtype), buffers.empty(shape, np.int64)
    if values.size:
        flat = (len(planes), *_three(output_size, 1))
        count, work = len(planes), 4 * planes.size
        largest_in_ranges(planes, starts, stops, values.reshape(flat), places.reshape(flat), count=count, work=work)
    return values.astype(x.dtype, copy=False), places


def max_pool_backward(g, indices, input_shape, spatial_dims):
    """Gradient of the input of any maximum pooling over the last `spatial_dims`: each window's at its index."""
    poolings_numba = _compiled or _load()
    kind = _computing(g.dtype)
    last = spatial_dims == 2 and _is_channels_last(indices)
    lead, size = input_shape[:-spatial_dims], prod(input_shape[-spatial_dims:])
    if not g.size:
        return np.zeros(input_shape, g.dtype)
    if last:
        batch, channels, height, width = input_shape
        gx = buffers.empty((batch, height, width, channels), kind)
        flat = (batch, -1, channels)
        operands, places = [
            contiguous(operand.transpose(0, 2, 3, 1)) for operand in (g.astype(kind, copy=False), indices)
        ]
        poolings_numba.add_at_places_last(
            operands.reshape(flat), places.reshape(flat), gx.reshape(flat), count=batch, work=gx.size + g.size
        )
        return gx.astype(g.dtype, copy=False).transpose(0, 3, 1, 2)
    planes = prod(lead)
    gx = buffers.empty(input_shape, kind)
    operands, places = contiguous(g, kind).reshape(planes, -1), contiguous(indices).reshape(planes, -1)
    poolings_numba.add_at_places(operands, places, gx.reshape(planes, size), count=planes, work=gx.size + g.size)
    return gx.astype(g.dtype, copy=False)


def max_unpool_forward(x, indices, output_size):
    """Values put at their indices in spatial dimensions of `output_size`, zero elsewhere."""
    leading = x.shape[: x.ndim - len(output_size)]
    result = np.zeros((*leading, prod(output_size)), x.dtype)
    if x.size:
        np.put_along_axis(result, indices.reshape(*leading, -1), x.reshape(*leading, -1), axis=-1)
    return result.reshape(*leading, *output_size)


def avg_pool_forward(x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override):
    """Mean of each window: its sum over the places inside padding (or inside the input only), or over the given divisor."""
    windows = _average_windows(x.shape[-len(kernel) :], kernel, stride, padding, ceil_mode, count_include_pad)
    return _averages(x, windows, divisor_override)


def avg_pool_backward(g, input_shape, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override):
    """Gradient of the input of `avg_pool_forward`."""
    windows = _average_windows(
        tuple(input_shape[-len(kernel) :]), kernel, stride, padding, ceil_mode, count_include_pad
    )
    return _averages_backward(g, input_shape, windows, divisor_override)


def adaptive_avg_pool_forward(x, output_size):
    """Mean of each of `output_size` windows; window i covers floor(i * size / count) to ceil((i + 1) * size / count)."""
    dims = tuple(range(x.ndim - len(output_size), x.ndim))
    if set(output_size) == {1} and x.size:
        return mean_forward(x, dims, True)
    sizes = x.shape[-len(output_size) :]
    return _averages(x, _adaptive_joined(sizes, tuple(output_size)), None)


def adaptive_avg_pool_backward(g, input_shape, output_size):
    """Gradient of the input of `adaptive_avg_pool_forward`."""
    sizes = input_shape[-len(output_size) :]
    if set(output_size) == {1} and g.size and prod(sizes):
        # a view, as the gradient of a mean: it is no more row-major than it is channels-last
        return np.broadcast_to((g / _computing(g.dtype).type(prod(sizes))).astype(g.dtype, copy=False), input_shape)
    return _averages_backward(g, input_shape, _adaptive_joined(tuple(sizes), tuple(output_size)), None)


@lru_cache(maxsize=256)
def _average_windows(sizes, kernel, stride, padding, ceil_mode, count_include_pad):
    windows = []
    for size, k, s, p in zip(sizes, kernel, stride, padding, strict=True):
        first = np.arange(pooled_size(size, k, s, p, 1, ceil_mode)) * s - p
        last = np.minimum(first + k, size + p)
        starts, stops = np.maximum(first, 0), np.minimum(last, size)
        windows.append((starts, stops, last - first if count_include_pad else stops - starts))
    return _joined(windows)


@lru_cache(maxsize=256)
def _adaptive_joined(sizes, output_size):
    return _joined([_adaptive_windows(*pair) for pair in zip(sizes, output_size, strict=True)])


def _adaptive_windows(size, count):
    first = np.arange(count)
    starts, stops = first * size // max(count, 1), -(-(first + 1) * size // max(count, 1))
    return starts, stops, stops - starts


def _averages(x, windows, divisor):
    starts, stops, sizes, counts, three = windows
    planes = _planes(x, len(counts))
    if x.dtype.itemsize == 2:
        planes = planes.astype(np.float32)
    out = buffers.empty((*x.shape[: x.ndim - len(counts)], *counts), planes.dtype)
    if out.size:
        count, work = len(planes), 4 * max(out.size, planes.size)
        average = (_compiled or _load()).average_windows
        average(planes, starts, stops, sizes, divisor or 0, out.reshape(count, *three), count=count, work=work)
    return out.astype(x.dtype) if x.dtype.itemsize == 2 else out


def _averages_backward(g, input_shape, windows, divisor):
    if not g.size:
        return np.zeros(input_shape, g.dtype)
    starts, stops, sizes, counts, _ = windows
    gx = buffers.empty(input_shape, _computing(g.dtype))
    outer, inner = _planes(g, len(counts)).astype(gx.dtype, copy=False), _planes(gx, len(counts))
    work = 4 * max(g.size, gx.size)
    average = (_compiled or _load()).average_windows_backward
    average(outer, starts, stops, sizes, divisor or 0, inner, count=len(outer), work=work)
    return gx.astype(g.dtype, copy=False)


def _planes(x, spatial):
    """(planes, D, H, W) with ones for missing dimensions; a view of a contiguous array."""
    split = x.ndim - spatial
    return contiguous(x).reshape(prod(x.shape[:split]), *(1,) * (3 - spatial), *x.shape[split:])


def _three(values, missing):
    """The values of one, two or three dimensions as three."""
    return (missing,) * (3 - len(values)) + tuple([int(value) for value in values])


def _widened(x):
    """Half types as float32."""
    return x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else x


def _is_channels_last(x):
    return x.ndim == 4 and not x.flags.c_contiguous and x.transpose(0, 2, 3, 1).flags.c_contiguous


def _joined(windows):
    """(starts, stops, places counted) of three dimensions, each as one int64 array, and how many windows each dimension has.

    These counts come for the given dimensions, and for three.
    """
    whole = (np.zeros(1, np.int64), np.ones(1, np.int64), np.ones(1, np.int64))
    counts = tuple([len(starts) for starts, _, _ in windows])
    three = [whole] * (3 - len(windows)) + list(windows)
    return (
        *[np.concatenate(parts).astype(np.int64, copy=False) for parts in zip(*three, strict=True)],
        counts,
        _three(counts, 1),
    )


def _computing(kind):
    return np.dtype(np.float32) if kind.itemsize == 2 else kind
