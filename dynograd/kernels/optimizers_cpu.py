"""Optimizer steps in place on one parameter, and the sum of squares for gradient clipping, on NumPy arrays.

Formulas and their order are PyTorch's. Flat float32 and float64 arrays take one pass in Numba; small, strided and half-type
arrays take NumPy. Half types keep their storage and compute in float32.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

__all__ = ["adam_step", "sgd_step", "sum_of_squares"]

# Below this many elements a NumPy step costs 10 to 15 us, not worth loading Numba for.
COMPILED_SIZE = 256
SQUARES_AT_ONCE = 1 << 16


def sgd_step(
    parameter,
    gradient,
    momentum_buffer,
    lr,
    momentum=0.0,
    dampening=0.0,
    weight_decay=0.0,
    nesterov=False,
    maximize=False,
    first=False,
):
    """One step of SGD, written into `parameter` and `momentum_buffer`.

    g = gradient (negated to maximize) + weight_decay * parameter; buffer = momentum * buffer + (1 - dampening) * g, or g
    itself on the `first` step; parameter -= lr * (buffer, or g + momentum * buffer for Nesterov, or g without momentum).
    `momentum_buffer` may be None when `momentum` is 0; on the first step its contents do not matter.
    """
    sign = -1.0 if maximize else 1.0
    if first and momentum:
        momentum_buffer[...] = 0
    fresh = 1.0 if first else 1.0 - dampening
    ahead, straight = (momentum, 1.0) if nesterov else (1.0, 0.0)
    arrays = _flat(parameter, gradient, *(() if not momentum else (momentum_buffer,)))
    if arrays is not None:
        from dynograd.kernels.optimizers_numba import momentum_pass, plain_pass

        if momentum:
            momentum_pass(*arrays, *_scalars(parameter, sign, weight_decay, momentum, fresh, ahead, straight, lr))
        else:
            plain_pass(*arrays, *_scalars(parameter, sign, weight_decay, lr))
        return
    g = _decayed(gradient, parameter, sign, weight_decay)
    if momentum:
        buffer = momentum * _wide(momentum_buffer) + fresh * g
        momentum_buffer[...] = buffer
        g = g + momentum * buffer if nesterov else buffer
    parameter[...] = _wide(parameter) - lr * g


def adam_step(
    parameter,
    gradient,
    exp_avg,
    exp_avg_sq,
    max_exp_avg_sq,
    step,
    lr,
    beta1,
    beta2,
    eps,
    weight_decay=0.0,
    decoupled=False,
    maximize=False,
):
    """One step of Adam, or of AdamW when `decoupled`, written into `parameter` and the moments.

    `step` counts from 1 and includes this step. `max_exp_avg_sq` is None without AMSGrad.
    denominator = sqrt(exp_avg_sq) / sqrt(1 - beta2^step) + eps; parameter -= lr / (1 - beta1^step) * exp_avg / denominator.
    """
    sign = -1.0 if maximize else 1.0
    shrink, decay = (1 - lr * weight_decay, 0.0) if decoupled else (1.0, weight_decay)
    rate = lr / (1 - beta1**step)
    scale = sqrt(1 - beta2**step)
    moments = (exp_avg, exp_avg_sq) if max_exp_avg_sq is None else (exp_avg, exp_avg_sq, max_exp_avg_sq)
    arrays = _flat(parameter, gradient, *moments)
    if arrays is not None:
        from dynograd.kernels.optimizers_numba import adam_pass, amsgrad_pass

        scalars = _scalars(parameter, sign, shrink, decay, 1 - beta1, beta2, 1 - beta2, scale, eps, rate)
        (adam_pass if max_exp_avg_sq is None else amsgrad_pass)(*arrays, *scalars)
        return
    value = _wide(parameter) * shrink
    g = _decayed(gradient, value, sign, decay)
    mean, square = _wide(exp_avg), _wide(exp_avg_sq)
    mean = mean + (1 - beta1) * (g - mean)
    square = beta2 * square + (1 - beta2) * g * g
    exp_avg[...] = mean
    exp_avg_sq[...] = square
    if max_exp_avg_sq is not None:
        square = np.maximum(_wide(max_exp_avg_sq), square)
        max_exp_avg_sq[...] = square
    parameter[...] = value - rate * mean / (np.sqrt(square) / scale + eps)


def sum_of_squares(x):
    """Sum of the squared elements as a Python float; blocks are summed in x's precision (at least float32), then in float64."""
    flat = _wide(x).reshape(-1)
    total = 0.0
    for start in range(0, flat.size, SQUARES_AT_ONCE):
        block = flat[start : start + SQUARES_AT_ONCE]
        total += float(np.vdot(block, block).real)
    return total


def _flat(parameter, *others):
    """All arrays as flat views for a compiled pass, or None where that does not pay or does not fit."""
    kind = parameter.dtype
    if parameter.size < COMPILED_SIZE or kind not in (np.float32, np.float64):
        return None
    gradient, *states = others
    arrays = [parameter, np.ascontiguousarray(gradient, kind), *states]
    if any(array.dtype != kind or not array.flags.c_contiguous for array in arrays):
        return None
    return [array.reshape(-1) for array in arrays]


def _scalars(parameter, *values):
    return [parameter.dtype.type(value) for value in values]


def _wide(x):
    return x.astype(np.float32) if x.dtype.itemsize == 2 else x


def _decayed(gradient, value, sign, decay):
    g = sign * _wide(gradient)
    return g + decay * _wide(value) if decay else g
