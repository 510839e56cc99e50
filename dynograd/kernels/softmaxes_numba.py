"""Numba kernels on float32 rows (R, C), C-contiguous: softmax, log_softmax and cross-entropy, forward and backward."""

import math

import numpy as np

from dynograd.kernels.compiling_numba import compiled
from dynograd.kernels.math_numba import exp, minus

__all__ = [
    "cross_entropy_backward_rows",
    "cross_entropy_rows",
    "log_softmax_backward_rows",
    "log_softmax_rows",
    "softmax_backward_rows",
    "softmax_rows",
]


@compiled
def softmax_rows(x, y):
    """Write the softmax of each row of `x` into `y`."""
    for r in range(x.shape[0]):
        row, result = x[r], y[r]
        top = _maximum(row)
        total = np.float32(0)
        for c in range(row.size):
            value = exp(row[c] - top)
            result[c] = value
            total += value
        scale = np.float32(1) / total
        for c in range(row.size):
            result[c] *= scale


@compiled
def softmax_backward_rows(g, y, gx):
    """gx = y * (g - sum(y * g)) in each row."""
    for r in range(y.shape[0]):
        outer, row, result = g[r], y[r], gx[r]
        inner = np.float32(0)
        for c in range(row.size):
            inner += outer[c] * row[c]
        for c in range(row.size):
            result[c] = row[c] * (outer[c] - inner)


@compiled
def log_softmax_rows(x, y):
    """Write the logarithm of each row's softmax into `y`."""
    for r in range(x.shape[0]):
        row, result = x[r], y[r]
        top = _maximum(row)
        logarithm = np.float32(math.log(_exp_sum(row, top)))
        for c in range(row.size):
            result[c] = minus(minus(row[c], top), logarithm)


@compiled
def log_softmax_backward_rows(g, y, gx):
    """gx = g - exp(y) * sum(g) in each row."""
    for r in range(y.shape[0]):
        outer, row, result = g[r], y[r], gx[r]
        total = np.float32(0)
        for c in range(row.size):
            total += outer[c]
        for c in range(row.size):
            result[c] = outer[c] - exp(row[c]) * total


@compiled
def cross_entropy_rows(x, target, weight, ignored, smoothing, losses, statistics):
    """Loss of each row, and its maximum and sum of exp(x - maximum) in `statistics` (R, 2).

    Returns the sum of the losses and of the targets' weights.
    """
    spread = smoothing / np.float32(x.shape[1])
    loss_sum, weight_sum = 0.0, 0.0
    for r in range(x.shape[0]):
        row = x[r]
        top = _maximum(row)
        total = _exp_sum(row, top)
        statistics[r, 0] = top
        statistics[r, 1] = total
        label = target[r]
        if label == ignored:
            losses[r] = np.float32(0)
            continue
        logarithm = np.float32(math.log(total))
        loss = weight[label] * minus(logarithm, minus(row[label], top))
        if smoothing != 0:
            others = np.float32(0)
            for c in range(row.size):
                others += weight[c] * minus(logarithm, minus(row[c], top))
            loss = (np.float32(1) - smoothing) * loss + spread * others
        losses[r] = loss
        loss_sum += loss
        weight_sum += weight[label]
    return loss_sum, weight_sum


@compiled
def cross_entropy_backward_rows(g, x, target, weight, ignored, smoothing, statistics, gx):
    """Gradient of each row's loss times `g[r]`."""
    spread = smoothing / np.float32(x.shape[1])
    whole = np.float32(0)
    if smoothing != 0:
        for c in range(weight.size):
            whole += weight[c]
    for r in range(x.shape[0]):
        row, result = x[r], gx[r]
        label = target[r]
        if label == ignored:
            for c in range(row.size):
                result[c] = np.float32(0)
            continue
        top = statistics[r, 0]
        hit = g[r] * (np.float32(1) - smoothing) * weight[label]
        scale = (hit + g[r] * spread * whole) / statistics[r, 1]
        for c in range(row.size):
            result[c] = exp(row[c] - top) * scale
        if smoothing != 0:
            share = g[r] * spread
            for c in range(row.size):
                result[c] -= share * weight[c]
        result[label] -= hit


_SIGN_SHIFT = np.int32(31)
_ALL_BUT_SIGN = np.int32(0x7FFFFFFF)
_LOWEST = np.int32(-0x7FFFFFFF)


@compiled
def _ordered(bits):
    """float32 bits as an int32 that sorts like the number, and back: integer maxima vectorise, float ones do not."""
    return bits ^ ((bits >> _SIGN_SHIFT) & _ALL_BUT_SIGN)


@compiled
def _maximum(row):
    bits = row.view(np.int32)
    best = _LOWEST
    for c in range(bits.size):
        key = np.int32(_ordered(bits[c]))
        best = key if key > best else best
    return np.int32(_ordered(best)).view(np.float32)


@compiled
def _exp_sum(row, top):
    total = np.float32(0)
    for c in range(row.size):
        total += exp(row[c] - top)
    return total
