"""Steps of the elementwise optimizers for all parameters of a table in one pass: NAdam, RAdam, Adamax, Adagrad, Adadelta,
RMSprop, Rprop, ASGD.

A pass gets flat arrays that do not overlap, and in their dtype the options of the table and the row's three rates.
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

__all__ = [
    "adadelta_blocks",
    "adagrad_blocks",
    "adamax_blocks",
    "asgd_blocks",
    "begin_counted",
    "nadam_blocks",
    "radam_blocks",
    "rmsprop_blocks",
    "rprop_blocks",
]

_FLOAT32_LIKE, _FLOAT64_LIKE = np.empty(0, np.float32), np.empty(0, np.float64)


@compiled
def begin_counted(listed, fields, dtype, rows, ranges, steps, like):
    """Reads the gradients, and counts the steps of the rows that have one, into `steps` too; -1, or the row that does not fit."""
    bad = read_gradients(listed, fields, dtype, like.itemsize, rows, ranges)
    if bad >= 0:
        return bad
    for row in range(rows.shape[0] - 1):
        if rows[row, GRADIENT] == 0:
            continue
        if rows[row, STEP_SIZE] == 4:
            narrow = at(rows[row, STEP], 1, _FLOAT32_LIKE)
            narrow[0] += 1
            steps[row] = narrow[0]
        else:
            wide = at(rows[row, STEP], 1, _FLOAT64_LIKE)
            wide[0] += 1
            steps[row] = wide[0]
    return bad


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
    one, zero = options.dtype.type(1), options.dtype.type(0)
    for i in range(parameter.size):
        g = sign * gradient[i]
        product = g * previous[i]
        size = sizes[i] * (grow if product > 0 else (shrink if product < 0 else one))
        size = least if size < least else size
        size = most if size > most else size
        g = zero if product < 0 else g
        parameter[i] -= size if g > 0 else (-size if g < 0 else zero)
        sizes[i] = size
        previous[i] = g


# --- all parameters of a table -----------------------------------------------------------------------------------------------

_BLOCKS = """
def {name}_blocks(rows, rates, options, start, stop):
    row, block, width = row_of(rows, start), start, options.itemsize
    while block < stop:
        first, end, last = blocks_of(rows, row, block, stop)
        if end > first and rows[row, GRADIENT]:
            {name}_pass({arrays}, options, rates[row])
        block, row = last, row + 1
"""
_COLUMNS = {"GRADIENT": GRADIENT, "PARAMETER": PARAMETER, "STATE": STATE, "OTHER_STATE": OTHER_STATE}
_NAMES = {"at": at, "blocks_of": blocks_of, "row_of": row_of, "THIRD_STATE": THIRD_STATE, **_COLUMNS}


def _over_blocks(name, one_pass, columns):
    arrays = [f"at(rows[row, {column}] + first * width, end - first, options)" for column in columns]
    source = _BLOCKS.format(name=name, arrays=", ".join(arrays))
    names = _NAMES | {f"{name}_pass": one_pass}
    return compile_source(source, f"{name}_blocks", names, chunk=True)


_TWO = ("PARAMETER", "GRADIENT", "STATE", "OTHER_STATE")
nadam_blocks = _over_blocks("nadam", _nadam_pass, _TWO)
asgd_blocks = _over_blocks("asgd", _asgd_pass, _TWO[:3])
radam_blocks = _over_blocks("radam", _radam_pass, _TWO)
adamax_blocks = _over_blocks("adamax", _adamax_pass, _TWO)
adagrad_blocks = _over_blocks("adagrad", _adagrad_pass, _TWO[:3])
adadelta_blocks = _over_blocks("adadelta", _adadelta_pass, _TWO)
rmsprop_blocks = _over_blocks("rmsprop", _rmsprop_pass, (*_TWO, "THIRD_STATE"))
rprop_blocks = _over_blocks("rprop", _rprop_pass, _TWO)
