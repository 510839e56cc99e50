"""Optimizer steps in place on one parameter, and the sum of squares for gradient clipping, on NumPy arrays.

Formulas and their order are PyTorch's. Flat float32 and float64 arrays take one pass in Numba; small, strided and half-type
arrays take NumPy. Half types keep their storage and compute in float32.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from dynograd.kernels.optim.optimizer_tables_cpu import *  # noqa: F403
from dynograd.kernels.optim.optimizer_tables_cpu import __all__ as _table_steps
from dynograd.kernels.reduce.reductions_cpu import widened
from dynograd.kernels.small.object_fields import FIELDS
from dynograd.kernels.small.tables_cpu import StepTable

__all__ = ["adafactor_step", "adam_step", "row_step", "sgd_step", "step_table"]
__all__ += _table_steps

# Below this many elements a NumPy step costs 10 to 15 us, not worth loading Numba for.
COMPILED_SIZE = 256
# An element of a step on rows costs as much as so many additions.
_ROW_WORK = 6


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
        from dynograd.kernels.optim.optimizers_numba import momentum_pass, plain_pass

        options, rates = (
            _numbers(parameter, sign, weight_decay, lr, momentum, ahead, straight),
            _numbers(parameter, fresh),
        )
        (momentum_pass if momentum else plain_pass)(*arrays, options, rates)
        return
    g = _decayed(gradient, parameter, sign, weight_decay)
    if momentum:
        buffer = momentum * widened(momentum_buffer) + fresh * g
        momentum_buffer[...] = buffer
        g = g + momentum * buffer if nesterov else buffer
    parameter[...] = widened(parameter) - lr * g


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
    scale = 1 / sqrt(1 - beta2**step)
    moments = (exp_avg, exp_avg_sq) if max_exp_avg_sq is None else (exp_avg, exp_avg_sq, max_exp_avg_sq)
    arrays = _flat(parameter, gradient, *moments)
    if arrays is not None:
        from dynograd.kernels.optim.optimizers_numba import adam_pass, amsgrad_pass

        options = _numbers(parameter, sign, shrink, decay, 1 - beta1, beta2, 1 - beta2, eps)
        (adam_pass if max_exp_avg_sq is None else amsgrad_pass)(*arrays, options, _numbers(parameter, rate, scale))
        return
    value = widened(parameter) * shrink
    g = _decayed(gradient, value, sign, decay)
    mean, square = widened(exp_avg), widened(exp_avg_sq)
    mean = mean + (1 - beta1) * (g - mean)
    square = beta2 * square + (1 - beta2) * g * g
    exp_avg[...] = mean
    exp_avg_sq[...] = square
    if max_exp_avg_sq is not None:
        square = np.maximum(widened(max_exp_avg_sq), square)
        max_exp_avg_sq[...] = square
    parameter[...] = value - rate * mean / (np.sqrt(square) * scale + eps)


def row_step(name, tables, index, gradient, *numbers):
    """A step on the rows `index` (each once) of tables, in one compiled call: whether the arrays are plain enough, and it was done.

    Args:
        name: "adagrad_rows" or "sparse_adam_rows".
        tables: the parameter and its states, (rows, *rest).
        gradient: (entries, *rest).
        numbers: sign, rate, eps, and the others that the step takes.
    """
    kind = gradient.dtype
    if gradient.size < COMPILED_SIZE or kind.char not in "fd" or any([table.dtype is not kind for table in tables]):
        return False
    if not gradient.flags.c_contiguous or not all([table.flags.carray for table in tables]):
        return False
    from dynograd.kernels.optim import row_steps_numba

    lines = [table.reshape(len(table), -1) for table in tables]
    scalars = [kind.type(number) for number in numbers]
    operands = np.ascontiguousarray(index), gradient.reshape(len(gradient), -1)
    getattr(row_steps_numba, name)(*lines, *operands, *scalars, count=len(index), work=_ROW_WORK * gradient.size)
    return True


def adafactor_step(parameter, gradient, *rest):
    """A step of Adafactor in one compiled call: whether the arrays are plain enough for it, and it was done.

    Args:
        rest: `variance` of a vector, or `row_var` and `col_var` of matrices (N, R, C): they keep a dim of 1 for what was averaged; then
            numbers: how much the new squares count, the least variance's root, the least root mean square of the parameter, lr, step,
            the threshold of clipping, what is kept of the parameter, and whether to maximize.
    """
    moments, numbers = rest[:-8], rest[-8:]
    arrays = parameter, gradient, *moments
    if any([array.dtype is not parameter.dtype or not array.flags.carray for array in arrays]):
        return False
    if parameter.dtype.char not in "fd" or gradient.shape != parameter.shape:
        return False
    from dynograd.kernels.optim import factored_steps_numba as compiled

    *scalars, maximize = numbers
    scalars = [float(scalar) for scalar in scalars]
    if len(moments) == 1:
        compiled.vector_step(*[array.reshape(-1) for array in arrays], *scalars, _sign(maximize))
        return True
    height, width = parameter.shape[-2:]
    whole = [array.reshape(-1, height, width) for array in arrays[:2]]
    compiled.matrices_step(
        *whole, moments[0].reshape(-1, height), moments[1].reshape(-1, width), *scalars, _sign(maximize)
    )
    return True


def step_table(parameters, states, steps, new):
    """What the table steps work on, or None where they cannot: see `StepTable`."""
    if FIELDS is None:
        return None
    from dynograd.kernels.optim import optimizers_numba

    table = StepTable(optimizers_numba, parameters, states, steps, new)
    return None if table.overlaps() else table


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


def _sign(maximize):
    return -1.0 if maximize else 1.0


def _numbers(parameter, *values):
    return np.array(values, parameter.dtype)


def _decayed(gradient, value, sign, decay):
    g = sign * widened(gradient)
    return g + decay * widened(value) if decay else g
