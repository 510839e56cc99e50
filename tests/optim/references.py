"""Optimizers written out in NumPy, float64, one parameter: slow and obvious. `gradients` holds None where a step has none."""

import numpy as np


def sgd(value, gradients, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, maximize=False):
    value, buffer = np.array(value, float), None
    for gradient in gradients:
        if gradient is None:
            continue
        g = -gradient if maximize else gradient
        g = g + weight_decay * value
        if momentum:
            buffer = g if buffer is None else momentum * buffer + (1 - dampening) * g
            g = g + momentum * buffer if nesterov else buffer
        value = value - lr * g
    return value


def adam(
    value,
    gradients,
    lr=1e-3,
    betas=(0.9, 0.999),
    eps=1e-8,
    weight_decay=0,
    amsgrad=False,
    maximize=False,
    decoupled=False,
):
    value = np.array(value, float)
    m, v, highest, t = np.zeros_like(value), np.zeros_like(value), np.zeros_like(value), 0
    for gradient in gradients:
        if gradient is None:
            continue
        t += 1
        g = -gradient if maximize else gradient
        if decoupled:
            value = value - lr * weight_decay * value
        else:
            g = g + weight_decay * value
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g**2
        highest = np.maximum(highest, v)
        m_hat = m / (1 - betas[0] ** t)
        v_hat = (highest if amsgrad else v) / (1 - betas[1] ** t)
        value = value - lr * m_hat / (np.sqrt(v_hat) + eps)
    return value


def adamw(value, gradients, weight_decay=1e-2, **options):
    return adam(value, gradients, weight_decay=weight_decay, decoupled=True, **options)
