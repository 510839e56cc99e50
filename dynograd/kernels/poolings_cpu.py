"""Maximum and average pooling over 1, 2 or 3 spatial dimensions, with given or adaptive windows, on NumPy arrays.

x is (*leading, *sizes), spatial dimensions last; kernel, stride, padding, dilation and output_size hold one integer per
spatial dimension, so their length says how many there are. Indices are int64 places in the flattened spatial dimensions, as
PyTorch's `return_indices`. Half types are averaged in float32. NaN wins a maximum.
"""

from __future__ import annotations

from math import prod

import numpy as np

__all__ = [
    "adaptive_avg_pool_backward",
    "adaptive_avg_pool_forward",
    "adaptive_max_pool_forward",
    "avg_pool_backward",
    "avg_pool_forward",
    "max_pool_backward",
    "max_pool_forward",
    "max_unpool_forward",
    "pooled_size",
]


def pooled_size(size, kernel, stride, padding, dilation=1, ceil_mode=False):
    """Windows along one dimension; with `ceil_mode` a last one may reach over the edge if it starts before it."""
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    if not ceil_mode:
        return room // stride + 1
    windows = -(-room // stride) + 1
    return windows - 1 if (windows - 1) * stride >= size + padding else windows


def max_pool_forward(x, kernel, stride, padding, dilation, ceil_mode):
    """(largest value of each window, its index)."""
    windows = [
        _dilated_windows(*dimension, ceil_mode)
        for dimension in zip(x.shape[-len(kernel) :], kernel, stride, padding, dilation, strict=True)
    ]
    plain = not any(padding) and set(dilation) == {1}
    pairs = plain and len(kernel) == 2 and set(kernel) == set(stride) == {2} and not ceil_mode
    return _maxima(x, windows, dilation, pairs)


def adaptive_max_pool_forward(x, output_size):
    """(largest value of each of `output_size` windows, its index)."""
    sizes = x.shape[-len(output_size) :]
    windows = [_adaptive_windows(size, count) for size, count in zip(sizes, output_size, strict=True)]
    return _maxima(x, windows, (1,) * len(output_size), False)


def max_pool_backward(g, indices, input_shape, spatial_dims):
    """Gradient of the input of any maximum pooling over the last `spatial_dims`: each window's at its index."""
    from dynograd.kernels.poolings_numba import add_at_indices

    gx = np.zeros((prod(input_shape[:-spatial_dims]), prod(input_shape[-spatial_dims:])), _computing(g.dtype))
    if g.size:
        rows = np.ascontiguousarray(g, gx.dtype).reshape(len(gx), -1)
        add_at_indices(rows, np.ascontiguousarray(indices).reshape(len(gx), -1), gx)
    return gx.reshape(input_shape).astype(g.dtype, copy=False)


def max_unpool_forward(x, indices, output_size):
    """Values put at their indices in spatial dimensions of `output_size`, zero elsewhere."""
    leading = x.shape[: x.ndim - len(output_size)]
    result = np.zeros((*leading, prod(output_size)), x.dtype)
    if x.size:
        np.put_along_axis(result, indices.reshape(*leading, -1), x.reshape(*leading, -1), axis=-1)
    return result.reshape(*leading, *output_size)


def avg_pool_forward(x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override):
    """Mean of each window: its sum over the places inside padding (or inside the input only), or over the given divisor."""
    windows = _average_windows(x.shape, kernel, stride, padding, ceil_mode, count_include_pad)
    return _averages(x, windows, divisor_override)


def avg_pool_backward(g, input_shape, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override):
    """Gradient of the input of `avg_pool_forward`."""
    windows = _average_windows(input_shape, kernel, stride, padding, ceil_mode, count_include_pad)
    return _averages_backward(g, input_shape, windows, divisor_override)


def adaptive_avg_pool_forward(x, output_size):
    """Mean of each of `output_size` windows; window i covers floor(i * size / count) to ceil((i + 1) * size / count)."""
    dims = tuple(range(-len(output_size), 0))
    if set(output_size) == {1} and x.size:
        return x.mean(axis=dims, keepdims=True, dtype=_computing(x.dtype)).astype(x.dtype, copy=False)
    sizes = x.shape[-len(output_size) :]
    return _averages(x, [_adaptive_windows(*pair) for pair in zip(sizes, output_size, strict=True)], None)


def adaptive_avg_pool_backward(g, input_shape, output_size):
    """Gradient of the input of `adaptive_avg_pool_forward`."""
    sizes = input_shape[-len(output_size) :]
    windows = [_adaptive_windows(*pair) for pair in zip(sizes, output_size, strict=True)]
    return _averages_backward(g, input_shape, windows, None)


def _dilated_windows(size, kernel, stride, padding, dilation, ceil_mode):
    """(first place, one past the last place, places counted) of each window along one dimension."""
    count = pooled_size(size, kernel, stride, padding, dilation, ceil_mode)
    first = np.arange(count) * stride - padding
    stops = np.minimum(first + (kernel - 1) * dilation + 1, size)
    starts = first - dilation * (np.minimum(first, 0) // dilation)
    return starts, stops, stops - starts


def _average_windows(shape, kernel, stride, padding, ceil_mode, count_include_pad):
    windows = []
    for size, k, s, p in zip(shape[-len(kernel) :], kernel, stride, padding, strict=True):
        first = np.arange(pooled_size(size, k, s, p, 1, ceil_mode)) * s - p
        last = np.minimum(first + k, size + p)
        starts, stops = np.maximum(first, 0), np.minimum(last, size)
        windows.append((starts, stops, last - first if count_include_pad else stops - starts))
    return windows


def _adaptive_windows(size, count):
    first = np.arange(count)
    starts, stops = first * size // max(count, 1), -(-(first + 1) * size // max(count, 1))
    return starts, stops, stops - starts


def _maxima(x, windows, steps, pairs):
    shape = (*x.shape[: x.ndim - len(windows)], *(len(starts) for starts, _, _ in windows))
    planes = _planes(x, len(windows))
    values, indices = np.empty(shape, x.dtype), np.empty(shape, np.int64)
    flat = (len(planes), *(1,) * (3 - len(windows)), *shape[-len(windows) :])
    if not values.size:
        return values, indices
    wide = planes.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else planes
    found = values.reshape(flat) if wide is planes else np.empty(flat, np.float32)
    if pairs:
        from dynograd.kernels.poolings_numba import largest_in_pairs

        largest_in_pairs(wide[:, 0], found[:, 0], indices.reshape(flat)[:, 0])
    else:
        from dynograd.kernels.poolings_numba import largest_in_windows

        starts, stops, _ = _joined(windows)
        steps = (1,) * (3 - len(steps)) + tuple(map(int, steps))
        lowest = -np.inf if wide.dtype.kind == "f" else np.iinfo(wide.dtype).min
        largest_in_windows(wide, starts, stops, steps, wide.dtype.type(lowest), found, indices.reshape(flat))
    if wide is not planes:
        values[...] = found.reshape(shape)
    return values, indices


def _averages(x, windows, divisor):
    from dynograd.kernels.poolings_numba import average_windows

    shape = (*x.shape[: x.ndim - len(windows)], *(len(starts) for starts, _, _ in windows))
    planes = _planes(x, len(windows)).astype(_computing(x.dtype), copy=False)
    out = np.empty(shape, planes.dtype)
    if out.size:
        flat = (len(planes), *(1,) * (3 - len(windows)), *shape[-len(windows) :])
        average_windows(planes, *_joined(windows), divisor or 0, out.reshape(flat))
    return out.astype(x.dtype, copy=False)


def _averages_backward(g, input_shape, windows, divisor):
    from dynograd.kernels.poolings_numba import average_windows_backward

    gx = np.zeros(input_shape, _computing(g.dtype))
    if g.size:
        outer = _planes(g, len(windows)).astype(gx.dtype, copy=False)
        average_windows_backward(outer, *_joined(windows), divisor or 0, _planes(gx, len(windows)))
    return gx.astype(g.dtype, copy=False)


def _planes(x, spatial):
    """(planes, D, H, W) with ones for missing dimensions; a view of a contiguous array."""
    leading = x.shape[: x.ndim - spatial]
    return np.ascontiguousarray(x).reshape(prod(leading), *(1,) * (3 - spatial), *x.shape[x.ndim - spatial :])


def _joined(windows):
    """Starts, stops and counts of three dimensions, each as one int64 array."""
    whole = (np.zeros(1, np.int64), np.ones(1, np.int64), np.ones(1, np.int64))
    windows = [whole] * (3 - len(windows)) + list(windows)
    return [np.concatenate(parts).astype(np.int64, copy=False) for parts in zip(*windows, strict=True)]


def _computing(kind):
    return np.dtype(np.float32) if kind.itemsize == 2 else kind
