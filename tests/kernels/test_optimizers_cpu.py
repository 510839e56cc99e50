"""Optimizer kernels against PyTorch's documented updates, written step by step in float64."""

import itertools

import numpy as np
import pytest

from dynograd.kernels.optim import optimizers_cpu

TOLERANCES = {np.float64: 1e-12, np.float32: 2e-5, np.float16: 1e-2}
SHAPES = [(3,), (0,), (), (40, 30)]


def gradients(shape, dtype, count=4):
    return np.random.default_rng(5).normal(size=(count, *shape)).astype(dtype)


def check(result, wanted, dtype):
    assert result.dtype == dtype
    np.testing.assert_allclose(result, wanted, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("momentum", "dampening", "nesterov"), [(0, 0, False), (0.9, 0, False), (0.9, 0.3, False), (0.9, 0, True)]
)
@pytest.mark.parametrize(("decay", "maximize"), [(0, False), (0.1, True)])
def test_sgd(momentum, dampening, nesterov, decay, maximize, shape, dtype):
    parameter = np.ones(shape, dtype)
    buffer = np.full(shape, np.nan, dtype) if momentum else None
    value, velocity = np.ones(shape), None
    for step, gradient in enumerate(gradients(shape, dtype)):
        g = (-1 if maximize else 1) * gradient.astype(float) + decay * value
        if momentum:
            velocity = g if velocity is None else momentum * velocity + (1 - dampening) * g
            g = g + momentum * velocity if nesterov else velocity
        value = value - 0.1 * g
        optimizers_cpu.sgd_step(
            parameter, gradient, buffer, 0.1, momentum, dampening, decay, nesterov, maximize, first=step == 0
        )
    check(parameter, value, dtype)
    if momentum:
        check(buffer, velocity, dtype)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("amsgrad", "decoupled", "maximize"), list(itertools.product([False, True], repeat=3)))
def test_adam(amsgrad, decoupled, maximize, shape, dtype):
    lr, beta1, beta2, eps, decay = 0.1, 0.8, 0.9, 1e-4, 0.2
    parameter = np.ones(shape, dtype)
    mean, square = np.zeros(shape, dtype), np.zeros(shape, dtype)
    highest = np.zeros(shape, dtype) if amsgrad else None
    value, m, v, top = np.ones(shape), np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for step, gradient in enumerate(gradients(shape, dtype), 1):
        g = (-1 if maximize else 1) * gradient.astype(float)
        if decoupled:
            value = value * (1 - lr * decay)
        else:
            g = g + decay * value
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        top = np.maximum(top, v)
        corrected = np.sqrt((top if amsgrad else v) / (1 - beta2**step))
        value = value - lr * (m / (1 - beta1**step)) / (corrected + eps)
        optimizers_cpu.adam_step(
            parameter, gradient, mean, square, highest, step, lr, beta1, beta2, eps, decay, decoupled, maximize
        )
    check(parameter, value, dtype)
    check(mean, m, dtype)
    check(square, v, dtype)
    if amsgrad:
        check(highest, top, dtype)


def test_strided_arrays_match_flat_ones():
    flat, strided = np.ones((30, 40)), np.ones((40, 30)).T
    moments = [np.zeros((30, 40)) for _ in range(2)]
    others = [np.zeros((40, 30)).T for _ in range(2)]
    for step, gradient in enumerate(gradients((30, 40), np.float64), 1):
        optimizers_cpu.adam_step(flat, gradient, *moments, None, step, 0.1, 0.9, 0.99, 1e-8)
        optimizers_cpu.adam_step(strided, np.asfortranarray(gradient), *others, None, step, 0.1, 0.9, 0.99, 1e-8)
    np.testing.assert_allclose(flat, strided, rtol=1e-12)


@pytest.mark.parametrize("size", [2, 600])
def test_nan_reaches_the_parameter(size):
    parameter, mean, square, highest = np.ones((4, size), np.float32)
    gradient = np.zeros(size, np.float32)
    gradient[1] = np.nan
    optimizers_cpu.adam_step(parameter, gradient, mean, square, highest, 1, 0.1, 0.9, 0.99, 1e-8)
    assert np.isnan(parameter[1]) and np.isnan(highest[1]) and not np.isnan(parameter[0])
