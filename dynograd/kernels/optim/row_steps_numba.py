"""Steps of Adagrad and SparseAdam on the rows of tables that a coalesced sparse gradient has: each row once, so threads share none."""

import numpy as np

from dynograd.kernels.build.compiling_numba import chunked, compiled


@compiled(noalias=True)
def _adagrad_row(parameter, total, gradient, sign, size, eps):
    for c in range(parameter.size):
        g = sign * gradient[c]
        total[c] += g * g
        parameter[c] -= size * g / (np.sqrt(total[c]) + eps)


@compiled(noalias=True)
def _sparse_adam_row(parameter, mean, square, gradient, sign, size, eps, one_less_1, beta2, one_less_2):
    for c in range(parameter.size):
        g = sign * gradient[c]
        mean[c] += one_less_1 * (g - mean[c])
        square[c] = beta2 * square[c] + one_less_2 * g * g
        parameter[c] -= size * mean[c] / (np.sqrt(square[c]) + eps)


@chunked
def adagrad_rows(parameter, total, index, gradient, sign, size, eps, start, stop):
    """Row index[i] of `parameter` and `total`, (rows, D), meets row i of `gradient`."""
    for i in range(start, stop):
        row = index[i]
        _adagrad_row(parameter[row], total[row], gradient[i], sign, size, eps)


@chunked
def sparse_adam_rows(
    parameter, mean, square, index, gradient, sign, size, eps, one_less_1, beta2, one_less_2, start, stop
):
    """Row index[i] of `parameter`, `mean` and `square`, (rows, D), meets row i of `gradient`."""
    for i in range(start, stop):
        row = index[i]
        _sparse_adam_row(
            parameter[row], mean[row], square[row], gradient[i], sign, size, eps, one_less_1, beta2, one_less_2
        )
