"""Optimizer steps in one pass: of one parameter (flat arrays), and of all parameters of a table.

Coefficients come in the arrays' dtype. The passes promise that their arrays do not overlap; whoever makes a table has seen to it.
"""

import numpy as np

from dynograd.kernels.build.compiling_numba import chunked, compiled
from dynograd.kernels.small.tables_numba import (
    GRADIENT,
    NEW,
    OTHER_STATE,
    PARAMETER,
    STATE,
    STEP,
    STEP_SIZE,
    THIRD_STATE,
    at,
    blocks_of,
    read_gradients,
    row_of,
)

__all__ = [
    "adam_blocks",
    "adam_pass",
    "amsgrad_pass",
    "begin",
    "begin_adam",
    "momentum_pass",
    "plain_pass",
    "sgd_blocks",
]

_FLOAT32_LIKE, _FLOAT64_LIKE = np.empty(0, np.float32), np.empty(0, np.float64)


@compiled(noalias=True)
def plain_pass(parameter, gradient, sign, decay, rate):
    """SGD without momentum."""
    for i in range(parameter.size):
        g = sign * gradient[i] + decay * parameter[i]
        parameter[i] -= rate * g


@compiled(noalias=True)
def momentum_pass(parameter, gradient, buffer, sign, decay, momentum, fresh, ahead, straight, rate):
    """SGD with momentum: buffer = momentum * buffer + fresh * g, and a step along straight * g + ahead * buffer."""
    for i in range(parameter.size):
        g = sign * gradient[i] + decay * parameter[i]
        buffer[i] = momentum * buffer[i] + fresh * g
        parameter[i] -= rate * (straight * g + ahead * buffer[i])


@compiled(noalias=True)
def adam_pass(parameter, gradient, mean, square, sign, shrink, decay, one_less_1, beta2, one_less_2, scale, eps, rate):
    """Adam: `shrink` multiplies the parameter first (decoupled decay), `decay` is added to the gradient, `scale` the root."""
    for i in range(parameter.size):
        old = parameter[i] * shrink
        g = sign * gradient[i] + decay * old
        mean[i] += one_less_1 * (g - mean[i])
        square[i] = beta2 * square[i] + one_less_2 * g * g
        parameter[i] = old - rate * mean[i] / (np.sqrt(square[i]) * scale + eps)


@compiled(noalias=True)
def amsgrad_pass(
    parameter, gradient, mean, square, highest, sign, shrink, decay, one_less_1, beta2, one_less_2, scale, eps, rate
):
    """Adam that divides by the root of the largest second moment so far."""
    for i in range(parameter.size):
        old = parameter[i] * shrink
        g = sign * gradient[i] + decay * old
        mean[i] += one_less_1 * (g - mean[i])
        square[i] = beta2 * square[i] + one_less_2 * g * g
        highest[i] = square[i] if square[i] > highest[i] or square[i] != square[i] else highest[i]
        parameter[i] = old - rate * mean[i] / (np.sqrt(highest[i]) * scale + eps)


# --- all parameters of a table -----------------------------------------------------------------------------------------------


@compiled
def begin(listed, fields, dtype, rows, ranges, like):
    """Reads the gradients; -1, or the row whose gradient does not fit (nothing has happened then)."""
    return read_gradients(listed, fields, dtype, like.itemsize, rows, ranges)


@compiled
def begin_adam(listed, fields, dtype, rows, ranges, rates, lr, beta1, beta2):
    """Reads the gradients, counts the steps of the rows that have one, and writes their (rate, scale of the root) into `rates`."""
    bad = read_gradients(listed, fields, dtype, rates.itemsize, rows, ranges)
    if bad >= 0:
        return bad
    known, rate, scale = -1.0, 0.0, 0.0
    for row in range(rows.shape[0] - 1):
        if rows[row, GRADIENT] == 0:
            continue
        if rows[row, STEP_SIZE] == 4:
            narrow = at(rows[row, STEP], 1, _FLOAT32_LIKE)
            narrow[0] += 1
            step = np.float64(narrow[0])
        else:
            wide = at(rows[row, STEP], 1, _FLOAT64_LIKE)
            wide[0] += 1
            step = wide[0]
        if step != known:
            known, rate, scale = step, lr / (1 - beta1**step), 1 / np.sqrt(1 - beta2**step)
        rates[row, 0], rates[row, 1] = rate, scale
    return bad


@chunked
def sgd_blocks(rows, options, start, stop):
    """SGD; options are sign, decay, momentum, fresh, ahead, straight and rate."""
    sign, decay, momentum, usual = options[0], options[1], options[2], options[3]
    ahead, straight, rate = options[4], options[5], options[6]
    row, block, width = row_of(rows, start), start, options.itemsize
    while block < stop:
        first, end, last = blocks_of(rows, row, block, stop)
        if end > first and rows[row, GRADIENT]:
            parameter = at(rows[row, PARAMETER] + first * width, end - first, options)
            gradient = at(rows[row, GRADIENT] + first * width, end - first, options)
            if rows[row, STATE]:
                buffer = at(rows[row, STATE] + first * width, end - first, options)
                fresh = options.dtype.type(1) if rows[row, NEW] else usual
                momentum_pass(parameter, gradient, buffer, sign, decay, momentum, fresh, ahead, straight, rate)
            else:
                plain_pass(parameter, gradient, sign, decay, rate)
        block, row = last, row + 1


@chunked
def adam_blocks(rows, rates, options, start, stop):
    """Adam and AMSGrad; options are sign, shrink, decay, 1 - beta1, beta2, 1 - beta2 and eps."""
    sign, shrink, decay, one_less_1 = options[0], options[1], options[2], options[3]
    beta2, one_less_2, eps = options[4], options[5], options[6]
    row, block, width = row_of(rows, start), start, options.itemsize
    while block < stop:
        first, end, last = blocks_of(rows, row, block, stop)
        if end > first and rows[row, GRADIENT]:
            count, skip = end - first, first * width
            parameter, gradient = (
                at(rows[row, PARAMETER] + skip, count, options),
                at(rows[row, GRADIENT] + skip, count, options),
            )
            mean, square = (
                at(rows[row, STATE] + skip, count, options),
                at(rows[row, OTHER_STATE] + skip, count, options),
            )
            rate, scale = rates[row, 0], rates[row, 1]
            if rows[row, THIRD_STATE]:
                highest = at(rows[row, THIRD_STATE] + skip, count, options)
                amsgrad_pass(
                    parameter,
                    gradient,
                    mean,
                    square,
                    highest,
                    sign,
                    shrink,
                    decay,
                    one_less_1,
                    beta2,
                    one_less_2,
                    scale,
                    eps,
                    rate,
                )
            else:
                adam_pass(
                    parameter,
                    gradient,
                    mean,
                    square,
                    sign,
                    shrink,
                    decay,
                    one_less_1,
                    beta2,
                    one_less_2,
                    scale,
                    eps,
                    rate,
                )
        block, row = last, row + 1
