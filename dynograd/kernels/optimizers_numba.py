"""One-pass optimizer updates on flat float32 or float64 arrays. Coefficients are passed in the arrays' type."""

import numpy as np

from dynograd.kernels.compiling_numba import compiled

__all__ = ["adam_pass", "amsgrad_pass", "momentum_pass", "plain_pass"]


@compiled
def plain_pass(parameter, gradient, sign, decay, rate):
    """SGD without momentum."""
    for i in range(parameter.size):
        g = sign * gradient[i] + decay * parameter[i]
        parameter[i] -= rate * g


@compiled
def momentum_pass(parameter, gradient, buffer, sign, decay, momentum, fresh, ahead, straight, rate):
    """SGD with momentum: buffer = momentum * buffer + fresh * g, and a step along straight * g + ahead * buffer."""
    for i in range(parameter.size):
        g = sign * gradient[i] + decay * parameter[i]
        buffer[i] = momentum * buffer[i] + fresh * g
        parameter[i] -= rate * (straight * g + ahead * buffer[i])


@compiled
def adam_pass(parameter, gradient, mean, square, sign, shrink, decay, one_less_1, beta2, one_less_2, scale, eps, rate):
    """Adam: `shrink` multiplies the parameter first (decoupled decay), `decay` is added to the gradient."""
    for i in range(parameter.size):
        old = parameter[i] * shrink
        g = sign * gradient[i] + decay * old
        mean[i] += one_less_1 * (g - mean[i])
        square[i] = beta2 * square[i] + one_less_2 * g * g
        parameter[i] = old - rate * mean[i] / (np.sqrt(square[i]) / scale + eps)


@compiled
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
        parameter[i] = old - rate * mean[i] / (np.sqrt(highest[i]) / scale + eps)
