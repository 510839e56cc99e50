"""Optimizer steps in one pass over flat arrays, and over all parameters of a table.

A pass is given the parameter, its gradient and its states, which do not overlap (whoever makes a table has seen to it), and in their
dtype the options of the step and the rates of this parameter.

The CPU's Adam multiplies by a reciprocal where the GPU's (`optimizers_triton`) divides as PyTorch does there, and SGD's first step is
a choice there and a rate here: one text for both would change the bits of one.
"""

import numpy as np

from dynograd.kernels.build.compiling_numba import compile_source, compiled
from dynograd.kernels.small.tables_numba import (
    GRADIENT,
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

_FLOAT32_LIKE, _FLOAT64_LIKE = np.empty(0, np.float32), np.empty(0, np.float64)


@compiled(noalias=True)
def plain_pass(parameter, gradient, options, rates):
    """SGD without momentum."""
    sign, decay, rate = options[0], options[1], options[2]
    for i in range(parameter.size):
        g = sign * gradient[i] + decay * parameter[i]
        parameter[i] -= rate * g


@compiled(noalias=True)
def momentum_pass(parameter, gradient, buffer, options, rates):
    """SGD with momentum: buffer = momentum * buffer + fresh * g, and a step along straight * g + ahead * buffer."""
    sign, decay, rate = options[0], options[1], options[2]
    momentum, ahead, straight = options[3], options[4], options[5]
    fresh = rates[0]
    for i in range(parameter.size):
        g = sign * gradient[i] + decay * parameter[i]
        buffer[i] = momentum * buffer[i] + fresh * g
        parameter[i] -= rate * (straight * g + ahead * buffer[i])


@compiled(noalias=True)
def adam_pass(parameter, gradient, mean, square, options, rates):
    """Adam: `shrink` multiplies the parameter first (decoupled decay), `decay` is added to the gradient, `scale` the root."""
    sign, shrink, decay, one_less_1 = options[0], options[1], options[2], options[3]
    beta2, one_less_2, eps = options[4], options[5], options[6]
    rate, scale = rates[0], rates[1]
    for i in range(parameter.size):
        old = parameter[i] * shrink
        g = sign * gradient[i] + decay * old
        mean[i] += one_less_1 * (g - mean[i])
        square[i] = beta2 * square[i] + one_less_2 * g * g
        parameter[i] = old - rate * mean[i] / (np.sqrt(square[i]) * scale + eps)


@compiled(noalias=True)
def amsgrad_pass(parameter, gradient, mean, square, highest, options, rates):
    """Adam that divides by the root of the largest second moment so far."""
    sign, shrink, decay, one_less_1 = options[0], options[1], options[2], options[3]
    beta2, one_less_2, eps = options[4], options[5], options[6]
    rate, scale = rates[0], rates[1]
    for i in range(parameter.size):
        old = parameter[i] * shrink
        g = sign * gradient[i] + decay * old
        mean[i] += one_less_1 * (g - mean[i])
        square[i] = beta2 * square[i] + one_less_2 * g * g
        highest[i] = square[i] if square[i] > highest[i] or square[i] != square[i] else highest[i]
        parameter[i] = old - rate * mean[i] / (np.sqrt(highest[i]) * scale + eps)


@compiled(noalias=True)
def _nadam_pass(parameter, gradient, mean, square, options, rates):
    """Rates: of the gradient, of the mean, and what is added to the root."""
    sign, shrink, decay, one_less_1 = options[0], options[1], options[2], options[3]
    beta2, one_less_2 = options[4], options[5]
    for_gradient, for_mean, least = rates[0], rates[1], rates[2]
    for i in range(parameter.size):
        old = parameter[i] * shrink
        g = sign * gradient[i] + decay * old
        mean[i] += one_less_1 * (g - mean[i])
        square[i] = beta2 * square[i] + one_less_2 * g * g
        parameter[i] = old - (for_gradient * g + for_mean * mean[i]) / (np.sqrt(square[i]) + least)


@compiled(noalias=True)
def _asgd_pass(parameter, gradient, average, options, rates):
    """Rates: eta, how much of the parameter is kept, and mu."""
    sign, decay = options[0], options[1]
    eta, kept, mu = rates[0], rates[1], rates[2]
    zero = options.dtype.type(0)
    for i in range(parameter.size):
        g = sign * gradient[i] + (decay * parameter[i] if decay != 0 else zero)  # infinite ones stay so
        value = kept * parameter[i] - eta * g
        parameter[i] = value
        average[i] = value if mu == 1 else average[i] + mu * (value - average[i])


@compiled(noalias=True)
def _radam_pass(parameter, gradient, mean, square, options, rates):
    """The second rate is 0 as long as the mean of squares stands for too few of them."""
    rate, adapted = rates[0], rates[1]
    sign, shrink, decay, one_less_1 = options[0], options[1], options[2], options[3]
    beta2, one_less_2, eps = options[4], options[5], options[6]
    for i in range(parameter.size):
        old = parameter[i] * shrink
        g = sign * gradient[i] + decay * old
        mean[i] += one_less_1 * (g - mean[i])
        square[i] = beta2 * square[i] + one_less_2 * g * g
        step = rate * mean[i]
        parameter[i] = old - (step / (np.sqrt(square[i]) + eps) if adapted != 0 else step)


@compiled(noalias=True)
def _adamax_pass(parameter, gradient, mean, largest, options, rates):
    rate = rates[0]
    sign, decay, one_less_1, beta2, eps = options[0], options[1], options[2], options[3], options[4]
    for i in range(parameter.size):
        g = sign * gradient[i] + decay * parameter[i]
        mean[i] += one_less_1 * (g - mean[i])
        faded, size = beta2 * largest[i], abs(g) + eps
        largest[i] = size if size > faded or size != size else faded
        parameter[i] -= rate * mean[i] / largest[i]


@compiled(noalias=True)
def _adagrad_pass(parameter, gradient, total, options, rates):
    rate = rates[0]
    sign, decay, eps = options[0], options[1], options[2]
    for i in range(parameter.size):
        g = sign * gradient[i] + decay * parameter[i]
        total[i] += g * g
        parameter[i] -= rate * g / (np.sqrt(total[i]) + eps)


@compiled(noalias=True)
def _adadelta_pass(parameter, gradient, squares, steps, options, rates):
    sign, decay, rho, one_less, eps, lr = options[0], options[1], options[2], options[3], options[4], options[5]
    for i in range(parameter.size):
        g = sign * gradient[i] + decay * parameter[i]
        squares[i] = rho * squares[i] + one_less * g * g
        delta = np.sqrt(steps[i] + eps) / np.sqrt(squares[i] + eps) * g
        steps[i] = rho * steps[i] + one_less * delta * delta
        parameter[i] -= lr * delta


@compiled(noalias=True)
def _rmsprop_pass(parameter, gradient, square, second, third, options, rates):
    """The second state is the buffer with momentum; the next one the mean when centered."""
    sign, decay, alpha, one_less = options[0], options[1], options[2], options[3]
    eps, momentum, lr, centered = options[4], options[5], options[6], options[7]
    if centered != 0 and momentum > 0:
        for i in range(parameter.size):
            g = sign * gradient[i] + decay * parameter[i]
            square[i] = alpha * square[i] + one_less * g * g
            third[i] += one_less * (g - third[i])
            second[i] = momentum * second[i] + g / (np.sqrt(square[i] - third[i] * third[i]) + eps)
            parameter[i] -= lr * second[i]
    elif centered != 0:
        for i in range(parameter.size):
            g = sign * gradient[i] + decay * parameter[i]
            square[i] = alpha * square[i] + one_less * g * g
            second[i] += one_less * (g - second[i])
            parameter[i] -= lr * g / (np.sqrt(square[i] - second[i] * second[i]) + eps)
    elif momentum > 0:
        for i in range(parameter.size):
            g = sign * gradient[i] + decay * parameter[i]
            square[i] = alpha * square[i] + one_less * g * g
            second[i] = momentum * second[i] + g / (np.sqrt(square[i]) + eps)
            parameter[i] -= lr * second[i]
    else:
        for i in range(parameter.size):
            g = sign * gradient[i] + decay * parameter[i]
            square[i] = alpha * square[i] + one_less * g * g
            parameter[i] -= lr * g / (np.sqrt(square[i]) + eps)


@compiled(noalias=True)
def _rprop_pass(parameter, gradient, previous, sizes, options, rates):
    sign, shrink, grow, least, most = options[0], options[1], options[2], options[3], options[4]
    unit, zero = options.dtype.type(1), options.dtype.type(0)
    for i in range(parameter.size):
        g = sign * gradient[i]
        product = g * previous[i]
        size = sizes[i] * (grow if product > 0 else (shrink if product < 0 else unit))
        size = least if size < least else size
        size = most if size > most else size
        g = zero if product < 0 else g
        parameter[i] -= size if g > 0 else (-size if g < 0 else zero)
        sizes[i] = size
        previous[i] = g


# --- all parameters of a table -----------------------------------------------------------------------------------------------


@compiled(inline=True)
def _counted(rows, row):
    """Counts a step of the row, and says the how manieth it is."""
    if rows[row, STEP_SIZE] == 4:
        narrow = at(rows[row, STEP], 1, _FLOAT32_LIKE)
        narrow[0] += 1
        return np.float64(narrow[0])
    wide = at(rows[row, STEP], 1, _FLOAT64_LIKE)
    wide[0] += 1
    return wide[0]


@compiled
def begin(listed, fields, dtype, rows, ranges, steps, like):
    """Reads the gradients, and counts the steps of the rows that have one, into `steps` too.

    Returns -1, or the row whose gradient does not fit; then nothing has happened. Rows may have no counter.
    """
    bad = read_gradients(listed, fields, dtype, like.itemsize, rows, ranges)
    if bad >= 0:
        return bad
    for row in range(rows.shape[0] - 1):
        if rows[row, GRADIENT] != 0 and rows[row, STEP] != 0:
            steps[row] = _counted(rows, row)
    return bad


@compiled
def count_adam(rows, rates, numbers):
    """Counts the steps of the rows that have a gradient, and writes their (rate, scale of the root): rows of the same step share their powers.

    `numbers` are lr, beta1 and beta2.
    """
    lr, beta1, beta2 = numbers[0], numbers[1], numbers[2]
    known, rate, scale = -1.0, 0.0, 0.0
    for row in range(rows.shape[0] - 1):
        if rows[row, GRADIENT] == 0:
            continue
        step = _counted(rows, row)
        if step != known:
            known, rate, scale = step, lr / (1 - beta1**step), 1 / np.sqrt(1 - beta2**step)
        rates[row, 0], rates[row, 1] = rate, scale


@compiled
def begin_adam(listed, fields, dtype, rows, ranges, rates, numbers):
    """`begin` for Adam, whose steps are counted by `count_adam`."""
    bad = read_gradients(listed, fields, dtype, rates.itemsize, rows, ranges)
    if bad < 0:
        count_adam(rows, rates, numbers)
    return bad


_BLOCKS = """
def {name}_blocks(rows, rates, options, start, stop):
    row, block, width = row_of(rows, start), start, options.itemsize
    while block < stop:
        first, end, last = blocks_of(rows, row, block, stop)
        if end > first and rows[row, GRADIENT]:
            {name}_pass({arrays}, options, rates[row])
        block, row = last, row + 1
"""
_COLUMNS = {
    "PARAMETER": PARAMETER, "GRADIENT": GRADIENT, "STATE": STATE, "OTHER_STATE": OTHER_STATE, "THIRD_STATE": THIRD_STATE,
}  # fmt: skip


def _over_blocks(name, one_pass, states):
    """A pass over the blocks `start` to `stop` of a table, whose rows have so many states."""
    columns = [*_COLUMNS][: 2 + states]
    arrays = [f"at(rows[row, {column}] + first * width, end - first, options)" for column in columns]
    names = {"at": at, "blocks_of": blocks_of, "row_of": row_of, f"{name}_pass": one_pass, **_COLUMNS}
    return compile_source(_BLOCKS.format(name=name, arrays=", ".join(arrays)), f"{name}_blocks", names, chunk=True)


_PASSES = {
    "plain": (plain_pass, 0),
    "momentum": (momentum_pass, 1),
    "adam": (adam_pass, 2),
    "amsgrad": (amsgrad_pass, 3),
    "nadam": (_nadam_pass, 2),
    "asgd": (_asgd_pass, 1),
    "radam": (_radam_pass, 2),
    "adamax": (_adamax_pass, 2),
    "adagrad": (_adagrad_pass, 1),
    "adadelta": (_adadelta_pass, 2),
    "rmsprop": (_rmsprop_pass, 3),
    "rprop": (_rprop_pass, 2),
}
BLOCKS = {name: _over_blocks(name, *one_pass) for name, one_pass in _PASSES.items()}
