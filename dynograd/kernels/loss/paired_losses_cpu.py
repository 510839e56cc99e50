"""Sums of losses of values against wanted ones, and their gradients, each in one pass over float32 or half arrays of one shape.

A loss is two row programs, `<name>_loss` and `<name>_loss_backward` (see `row_formulas.py`), run over rows of `ROW` elements: the
number of rows, and with it the order of the sum, follows from the size alone.
"""

from __future__ import annotations

import numpy as np

from dynograd.arrays import buffers
from dynograd.arrays.buffers import in_shape
from dynograd.kernels.build.compiled_kernels import compiled, compiled_for

ROW = (  # elements of a row, whose sum is one number: with the targets it is in the first cache
    4096  # elements of a row, whose sum is one number: 16 KiB of float32, which the first cache holds with the targets
)
_WORK = 8  # an element of a loss costs as much as so many additions


def pays(input, target):
    """Whether the kernels here take these arrays."""
    return (
        input.dtype.num == target.dtype.num
        and input.shape == target.shape
        and input.dtype.itemsize <= 4
        and input.dtype.kind in "fV"
        and input.size > 0
        and compiled_for(input.size) is not None
    )


def loss_forward(name, input, target, parameter, reduction):
    """The sum or the mean of the losses, 0-d."""
    run = compiled[f"{name}_loss"]
    x, t = _flat(input), _flat(target)
    count = x.size
    if count <= ROW:
        total = run(x.reshape(1, count), t.reshape(1, count), parameter)[0]
    else:
        whole = count // ROW * ROW
        total = np.add.reduce(run(x[:whole].reshape(-1, ROW), t[:whole].reshape(-1, ROW), parameter), dtype=np.float64)
        if whole != count:
            total += run(x[whole:].reshape(1, -1), t[whole:].reshape(1, -1), parameter)[0]
    return np.array(total / count if reduction == "mean" else total, input.dtype)


def loss_backward(name, g, input, target, parameter, reduction):
    """Gradient of the input."""
    kernel = compiled[f"{name}_loss_backward"].narrow
    x, t = _flat(input), _flat(target)
    count = x.size
    share = float(g)
    if reduction == "mean":
        share /= count
    if count <= ROW:
        result = np.empty((1, count), np.float32)
        kernel.serial(x.reshape(1, count), t.reshape(1, count), parameter, share, result, 0, 1)
    else:
        result = buffers.empty((count,), np.float32)
        whole = count // ROW * ROW
        parts = [array[:whole].reshape(-1, ROW) for array in (x, t, result)]
        kernel(*parts[:2], parameter, share, parts[2], count=whole // ROW, work=_WORK * whole)
        if whole != count:
            parts = [array[whole:].reshape(1, -1) for array in (x, t, result)]
            kernel.serial(*parts[:2], parameter, share, parts[2], 0, 1)
    if input.dtype.char != "f":
        result = result.astype(input.dtype)
    return in_shape(result, input.shape)


def _flat(array):
    return np.ascontiguousarray(array, np.float32).reshape(-1)
