"""Layer, group and batch norm with their gradients, on NumPy arrays.

float32 goes through row programs and Numba; tiny arrays and float64 through NumPy. Half types are computed in float32, and the
statistics returned for them are float32.
"""

from __future__ import annotations

from math import prod

import numpy as np

from dynograd.arrays import buffers
from dynograd.arrays.buffers import in_shape
from dynograd.kernels.build.compiled_kernels import compiled_for
from dynograd.kernels.reduce.reductions_cpu import widened
from dynograd.kernels.rows.folding_cpu import kernels_for, like, rows_of, vector_of

_WORK = 4  # passes over the elements


# --- layer norm ----------------------------------------------------------------------------------------------------------------


def layer_norm_forward(x, normalized_ndim, weight, bias, eps):
    """(y, mean, rstd): x normalised over its last `normalized_ndim` dimensions, times weight plus bias (either may be None).

    rstd = 1 / sqrt(variance + eps) with the biased variance; mean and rstd keep the normalised dimensions with size 1.
    """
    kept = (*x.shape[: x.ndim - normalized_ndim], *(1,) * normalized_ndim)
    rows = rows_of(x, normalized_ndim)
    scale, shift = vector_of(weight, 1, rows.shape[1], rows.dtype), vector_of(bias, 0, rows.shape[1], rows.dtype)
    if (kernels := kernels_for(rows)) is not None:
        y, mean, rstd = kernels["layer_norm"](rows, scale, shift, float(eps))
    else:
        count = max(rows.shape[1], 1)
        mean = rows.sum(axis=1) / count
        y = rows - mean[:, None]
        rstd = 1 / np.sqrt(np.square(y).sum(axis=1) / count + eps)
        y = y * rstd[:, None] * scale + shift
    return like(y, x), mean.reshape(kept), rstd.reshape(kept)


def layer_norm_backward(g, x, mean, rstd, weight, normalized_ndim):
    """Gradients (gx, gw, gb); gw and gb have the shape of the normalised dimensions, whether or not there is a weight."""
    rows = rows_of(x, normalized_ndim)
    outer, scale = rows_of(g, normalized_ndim), vector_of(weight, 1, rows.shape[1], rows.dtype)
    mean, rstd = mean.reshape(-1), rstd.reshape(-1)
    if (kernels := kernels_for(rows)) is not None:
        gx, gw, gb = kernels["layer_norm_backward"](outer, rows, mean, rstd, scale)
    else:
        count = max(rows.shape[1], 1)
        normal = (rows - mean[:, None]) * rstd[:, None]
        weighted = outer * scale
        along = (weighted * normal).sum(axis=1, keepdims=True) / count
        gx = rstd[:, None] * (weighted - weighted.sum(axis=1, keepdims=True) / count - normal * along)
        gw, gb = (outer * normal).sum(axis=0), outer.sum(axis=0)
    shape, kind = x.shape[x.ndim - normalized_ndim :], x.dtype if weight is None else weight.dtype
    gw, gb = (in_shape(vector.astype(kind, copy=False), shape) for vector in (gw, gb))
    return like(gx, x), gw, gb


# --- group norm ----------------------------------------------------------------------------------------------------------------


def group_norm_forward(x, groups, weight, bias, eps):
    """(y, mean, rstd): each group of channels of each example of x (N, C, *) normalised, times weight plus bias per channel."""
    rows, places = _groups(x, groups)
    channels = x.shape[1]
    scale, shift = vector_of(weight, 1, channels, rows.dtype), vector_of(bias, 0, channels, rows.dtype)
    if (kernels := kernels_for(rows)) is not None:
        y, mean, rstd = (
            buffers.empty(rows.shape, np.float32),
            np.empty(len(rows), np.float32),
            np.empty(len(rows), np.float32),
        )
        kernels["normalizations.group_norm"](
            rows, places, scale, shift, float(eps), y, mean, rstd, count=len(rows), work=_WORK * rows.size
        )
    else:
        mean = rows.sum(axis=1) / rows.shape[1]
        y = rows - mean[:, None]
        rstd = 1 / np.sqrt(np.square(y).sum(axis=1) / rows.shape[1] + eps)
        y = (y * rstd[:, None]).reshape(len(x), channels, places) * scale[:, None] + shift[:, None]
    return like(y, x), mean, rstd


def group_norm_backward(g, x, mean, rstd, weight, groups):
    """Gradients (gx, gw, gb); gw and gb are (C,), whether or not there is a weight."""
    rows, places = _groups(x, groups)
    outer, channels = _groups(g, groups)[0], x.shape[1]
    scale = vector_of(weight, 1, channels, rows.dtype)
    if (kernels := kernels_for(rows)) is not None:
        gx = buffers.empty(rows.shape, np.float32)
        gw, gb = (np.empty((len(rows), channels // max(groups, 1)), np.float32) for _ in range(2))
        kernels["normalizations.group_norm_gradients"](
            outer, rows, places, scale, mean, rstd, gx, gw, gb, count=len(rows), work=_WORK * rows.size
        )
        gw, gb = (np.add.reduce(parts.reshape(len(x), channels), 0) for parts in (gw, gb))
    else:
        normal = (rows - mean[:, None]) * rstd[:, None]
        folded = (len(x), channels, places)
        weighted = (outer.reshape(folded) * scale[:, None]).reshape(rows.shape)
        along = (weighted * normal).sum(axis=1, keepdims=True) / rows.shape[1]
        gx = rstd[:, None] * (weighted - weighted.sum(axis=1, keepdims=True) / rows.shape[1] - normal * along)
        gw = (outer * normal).reshape(folded).sum(axis=(0, 2))
        gb = outer.reshape(folded).sum(axis=(0, 2))
    kind = x.dtype if weight is None else weight.dtype
    return like(gx, x), gw.astype(kind, copy=False), gb.astype(kind, copy=False)


# --- batch norm ----------------------------------------------------------------------------------------------------------------


def batch_norm_forward(x, weight, bias, running_mean, running_var, training, momentum, eps):
    """(y, mean, rstd, variance): x (N, C, *) normalised per channel, times weight plus bias (either may be None).

    While training the statistics are the batch's and `variance` is the unbiased one that running_var moves towards; else they
    are the running ones. The running statistics are only read here: `momentum` is their updater's business.
    """
    if x.dtype.char != "d" and (kernels := compiled_for(x.size)) is not None:
        y, *statistics = _batch_norm(kernels, x, weight, bias, running_mean, running_var, training, float(eps))
        return (y if x.ndim > 3 else np.ascontiguousarray(y), *statistics)  # of sequences, row-major: as PyTorch's
    channels = _channels(x)
    size, kind = channels.shape[1], channels.dtype
    scale, shift = vector_of(weight, 1, size, kind), vector_of(bias, 0, size, kind)
    count = max(channels.shape[0] * channels.shape[2], 1)
    if training:
        mean = channels.sum(axis=(0, 2)) / count
        variance = np.square(channels - mean[:, None]).sum(axis=(0, 2)) / count
    else:
        # Copies: a later training step writes into the running statistics, and backward still needs these.
        mean, variance = vector_of(running_mean, 0, size, kind).copy(), vector_of(running_var, 1, size, kind).copy()
    rstd = (1 / np.sqrt(variance + eps)).astype(channels.dtype, copy=False)
    y = (channels - mean[:, None]) * (rstd * scale)[:, None]
    y += shift[:, None]
    if training:
        variance = variance * (count / max(count - 1, 1))
    return like(y, x) if x.ndim == 3 else _in_order_of(like(y, x), x), mean, rstd, variance


def batch_norm_backward(g, x, weight, mean, rstd, training):
    """Gradients (gx, gw, gb) from the mean and rstd that the forward kernel returned."""
    kind = x.dtype if weight is None else weight.dtype
    if x.dtype.char != "d" and (kernels := compiled_for(x.size)) is not None:
        gx, gw, gb = _batch_norm_gradients(kernels, g, x, weight, mean, rstd, training)
    else:
        channels, outer = _channels(x), _channels(g)
        scale = vector_of(weight, 1, channels.shape[1], channels.dtype)
        normal = (channels - mean[:, None]) * rstd[:, None]
        gw, gb = (outer * normal).sum(axis=(0, 2)), outer.sum(axis=(0, 2))
        gx = outer
        if training:
            count = max(channels.shape[0] * channels.shape[2], 1)
            gx = outer - (gb[:, None] + normal * gw[:, None]) / count
        gx = _in_order_of(like(gx * (scale * rstd)[:, None], x), x)
    return gx, gw.astype(kind, copy=False), gb.astype(kind, copy=False)


def moved_statistics(running, batch, momentum):
    """Running statistics a step closer to the batch's, in the dtype of the running ones."""
    kind = running.dtype.type
    result = running * kind(1 - momentum)
    result += batch.astype(running.dtype, copy=False) * kind(momentum)
    return result


def _batch_norm(kernels, x, weight, bias, running_mean, running_var, training, eps):
    wide = np.asarray(x, np.float32)
    last = _channels_last(wide)
    count = x.size // max(x.shape[1], 1)
    rows = None if last is None else _folded(last)
    channels = np.ascontiguousarray(wide).reshape(*x.shape[:2], prod(x.shape[2:])) if rows is None else None
    size = x.shape[1]
    scale, shift = vector_of(weight, 1, size, wide.dtype), vector_of(bias, 0, size, wide.dtype)
    if not training:
        # Copies: a later training step writes into the running statistics, and backward still needs these.
        mean, variance = np.array(running_mean, np.float32), np.array(running_var, np.float32)
        rstd = 1 / np.sqrt(variance + np.float32(eps))
        factor = rstd * scale
        summand = shift - mean * factor
        if rows is None:
            y = buffers.empty(channels.shape, np.float32)
            kernels["normalizations.channel_affine"](
                channels, factor, summand, y, count=y.shape[0] * y.shape[1], work=y.size
            )
        else:
            y = _column_scaled(kernels, rows, np.zeros_like(factor), factor, summand)
    elif rows is None:
        y, (mean, variance, rstd) = buffers.empty(channels.shape, np.float32), np.empty((3, size), np.float32)
        kernels["normalizations.batch_norm"](
            channels, scale, shift, eps, y, mean, variance, rstd, count=size, work=_WORK * y.size
        )
    else:
        mean, variance, rstd = _column_moments(kernels, rows, size, eps)
        y = _column_scaled(kernels, rows, mean, rstd * scale, shift)
    if training:
        variance = variance * np.float32(count / max(count - 1, 1))
    return _as_given(y, x, last), mean, rstd, variance


def _batch_norm_gradients(kernels, g, x, weight, mean, rstd, training):
    wide = np.asarray(x, np.float32)
    last = _channels_last(wide)
    size, count = x.shape[1], max(x.size // max(x.shape[1], 1), 1)
    scale = vector_of(weight, 1, size, wide.dtype)
    if last is None:
        channels = np.ascontiguousarray(wide).reshape(*x.shape[:2], prod(x.shape[2:]))
        outer = np.ascontiguousarray(g, np.float32).reshape(channels.shape)
        gx, gw, gb = buffers.empty(channels.shape, np.float32), np.empty(size, np.float32), np.empty(size, np.float32)
        kernels["normalizations.batch_norm_gradients"](
            outer, channels, scale, mean, rstd, training, gx, gw, gb, count=size, work=_WORK * gx.size
        )
        return _as_given(gx, x, None), gw, gb
    rows = _folded(last)
    outer = np.ascontiguousarray(_moved(g), np.float32).reshape(rows.shape)
    height, pieces = _pieces(rows)
    totals, products = buffers.empty((2, pieces, size), np.float32)
    kernels["normalizations_columns.column_products"](
        outer, rows, height, mean, totals, products, count=pieces, work=2 * rows.size
    )
    gw, gb, shift, slope = np.empty((4, size), np.float32)
    kernels["normalizations_columns.merged_products"](totals, products, count, rstd, training, gw, gb, shift, slope)
    gx = buffers.empty(rows.shape, np.float32)
    kernels["normalizations_columns.column_gradient"](
        outer, rows, mean, scale * rstd, shift, slope, gx, count=len(rows), work=2 * rows.size
    )
    return _as_given(gx, x, last), gw, gb


def _column_moments(kernels, rows, size, eps):
    height, pieces = _pieces(rows)
    means, squares = buffers.empty((2, pieces, size), np.float32)
    kernels["normalizations_columns.column_moments"](rows, height, means, squares, count=pieces, work=2 * rows.size)
    mean, variance, rstd = np.empty((3, size), np.float32)
    times = rows.shape[1] // max(size, 1)
    kernels["normalizations_columns.merged_moments"](
        means, squares, len(rows), height, times, eps, mean, variance, rstd
    )
    return mean, variance, rstd


def _column_scaled(kernels, rows, mean, scale, shift):
    y = buffers.empty(rows.shape, np.float32)
    kernels["normalizations_columns.column_scaled"](rows, mean, scale, shift, y, count=len(rows), work=2 * rows.size)
    return y


def _pieces(rows):
    """Rows of a piece of 64 KiB, and how many pieces there are."""
    height = max(32, 16384 // max(rows.shape[1], 1))
    return height, -(-len(rows) // height)


def _channels_last(x):
    """(R, C) where the channels of x (N, C, *) lie beside each other in memory, else None."""
    if x.ndim == 2 or prod(x.shape[2:]) == 1:
        return np.ascontiguousarray(x).reshape(x.shape[:2])
    if x.flags.c_contiguous:
        return None
    moved = _moved(x)
    return moved.reshape(-1, x.shape[1]) if moved.flags.c_contiguous else None


def _moved(x):
    """With the channels as the last dim."""
    return x.transpose(0, *range(2, x.ndim), 1)


def _folded(rows):
    """Short rows side by side, several in one: loops over a few channels cost more than they compute."""
    count, size = rows.shape
    times = 1
    while size and size * times <= 128 and count % (2 * times) == 0 and count > 8 * times:
        times *= 2
    return rows.reshape(count // times, size * times)


def _as_given(y, x, last):
    """A float32 result in the shape, dtype and memory order of x."""
    if y.dtype.num != x.dtype.num:
        y = y.astype(x.dtype)
    if last is not None and x.ndim > 2 and prod(x.shape[2:]) != 1:
        return y.reshape(x.shape[0], *x.shape[2:], x.shape[1]).transpose(0, x.ndim - 1, *range(1, x.ndim - 1))
    return in_shape(y, x.shape)


def _in_order_of(y, x):
    """y with its channels beside each other in memory where those of x are: as the compiled kernels leave them."""
    if x.flags.c_contiguous or x.ndim < 3 or not _moved(x).flags.c_contiguous:
        return y
    return np.ascontiguousarray(_moved(y)).transpose(0, x.ndim - 1, *range(1, x.ndim - 1))


# --- shapes and types ----------------------------------------------------------------------------------------------------------


def _groups(x, groups):
    """(N * groups, channels of a group * places) and the places of a channel."""
    places = prod(x.shape[2:])
    return np.ascontiguousarray(widened(x)).reshape(len(x) * groups, x.shape[1] // max(groups, 1) * places), places


def _channels(x):
    """(N, C, L), C-contiguous, in the type that computes."""
    return np.ascontiguousarray(widened(x)).reshape(*x.shape[:2], prod(x.shape[2:]))
