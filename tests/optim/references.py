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


def _steps(gradients, maximize):
    """(number from 1, gradient to go down) of the steps that have one."""
    return enumerate([-g if maximize else g for g in gradients if g is not None], 1)


def nadam(
    value,
    gradients,
    lr=2e-3,
    betas=(0.9, 0.999),
    eps=1e-8,
    weight_decay=0,
    momentum_decay=4e-3,
    decoupled_weight_decay=False,
    maximize=False,
):
    value = np.array(value, float)
    m, v, product = np.zeros_like(value), np.zeros_like(value), np.float32(1)
    for t, g in _steps(gradients, maximize):
        if decoupled_weight_decay:
            value = value - lr * weight_decay * value
        else:
            g = g + weight_decay * value
        now = betas[0] * (1 - 0.5 * 0.96 ** (t * momentum_decay))
        following = betas[0] * (1 - 0.5 * 0.96 ** ((t + 1) * momentum_decay))
        product = product * np.float32(now)  # the counter is a float32
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g**2
        m_hat = following * m / (1 - float(product) * following) + (1 - now) * g / (1 - float(product))
        value = value - lr * m_hat / (np.sqrt(v / (1 - betas[1] ** t)) + eps)
    return value


def radam(
    value,
    gradients,
    lr=1e-3,
    betas=(0.9, 0.999),
    eps=1e-8,
    weight_decay=0,
    decoupled_weight_decay=False,
    maximize=False,
):
    value = np.array(value, float)
    m, v, longest = np.zeros_like(value), np.zeros_like(value), 2 / (1 - betas[1]) - 1
    for t, g in _steps(gradients, maximize):
        if decoupled_weight_decay:
            value = value - lr * weight_decay * value
        else:
            g = g + weight_decay * value
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g**2
        length = longest - 2 * t * betas[1] ** t / (1 - betas[1] ** t)
        step = lr * m / (1 - betas[0] ** t)
        if length > 5:
            rectified = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
            step = step * np.sqrt(rectified) * np.sqrt(1 - betas[1] ** t) / (np.sqrt(v) + eps)
        value = value - step
    return value


def adamax(value, gradients, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, maximize=False):
    value = np.array(value, float)
    m, u = np.zeros_like(value), np.zeros_like(value)
    for t, g in _steps(gradients, maximize):
        g = g + weight_decay * value
        m = betas[0] * m + (1 - betas[0]) * g
        u = np.maximum(betas[1] * u, abs(g) + eps)
        value = value - lr / (1 - betas[0] ** t) * m / u
    return value


def adagrad(
    value,
    gradients,
    lr=1e-2,
    lr_decay=0,
    weight_decay=0,
    initial_accumulator_value=0,
    eps=1e-10,
    maximize=False,
):
    value = np.array(value, float)
    total = np.full_like(value, initial_accumulator_value)
    for t, g in _steps(gradients, maximize):
        g = g + weight_decay * value
        total = total + g**2
        value = value - lr / (1 + (t - 1) * lr_decay) * g / (np.sqrt(total) + eps)
    return value


def adadelta(value, gradients, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0, maximize=False):
    value = np.array(value, float)
    v, u = np.zeros_like(value), np.zeros_like(value)
    for _, g in _steps(gradients, maximize):
        g = g + weight_decay * value
        v = rho * v + (1 - rho) * g**2
        delta = np.sqrt(u + eps) / np.sqrt(v + eps) * g
        u = rho * u + (1 - rho) * delta**2
        value = value - lr * delta
    return value


def rmsprop(
    value, gradients, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False, maximize=False
):
    value = np.array(value, float)
    v, mean, buffer = np.zeros_like(value), np.zeros_like(value), np.zeros_like(value)
    for _, g in _steps(gradients, maximize):
        g = g + weight_decay * value
        v = alpha * v + (1 - alpha) * g**2
        mean = alpha * mean + (1 - alpha) * g
        step = g / (np.sqrt(v - mean**2 if centered else v) + eps)
        buffer = momentum * buffer + step
        value = value - lr * buffer
    return value


def rprop(value, gradients, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50), maximize=False):
    value = np.array(value, float)
    sizes, previous = np.full_like(value, lr), np.zeros_like(value)
    for _, g in _steps(gradients, maximize):
        product = g * previous
        sizes = np.clip(sizes * np.where(product > 0, etas[1], np.where(product < 0, etas[0], 1)), *step_sizes)
        previous = np.where(product < 0, 0, g)
        value = value - np.sign(previous) * sizes
    return value


def asgd(value, gradients, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0, maximize=False, average=False):
    value = np.array(value, float)
    eta, mu, mean = np.float32(lr), np.float32(1), np.zeros_like(value)  # the counters are float32
    for t, g in _steps(gradients, maximize):
        g = g + weight_decay * value
        value = value * (1 - lambd * float(eta)) - float(eta) * g
        mean = mean + (value - mean) * float(mu)
        eta, mu = np.float32(lr / (1 + lambd * lr * t) ** alpha), np.float32(1 / max(1, t - t0))
    return mean if average else value


def adafactor(value, gradients, lr=1e-2, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0, maximize=False):
    value = np.array(value, float)
    least = np.finfo(float).eps if eps[0] is None else eps[0]
    rows = columns = v = 0.0
    for t, g in _steps(gradients, maximize) if value.size else ():
        fresh = t**beta2_decay
        size = max(eps[1], np.sqrt((value**2).mean())) * min(lr, 1 / np.sqrt(t))
        value = value - lr * weight_decay * value
        if value.ndim < 2:
            variance = v = (1 - fresh) * v + fresh * g**2
        else:
            rows = (1 - fresh) * rows + fresh * (g**2).mean(-1, keepdims=True)
            columns = (1 - fresh) * columns + fresh * (g**2).mean(-2, keepdims=True)
            variance = rows * columns / np.maximum(rows.mean(-2, keepdims=True), least)
        step = g / np.sqrt(np.maximum(variance, least**2))
        value = value - size * step / max(1.0, np.sqrt((step**2).mean()) / d)
    return value


def muon(
    value,
    gradients,
    lr=1e-3,
    weight_decay=0.1,
    momentum=0.95,
    nesterov=True,
    ns_coefficients=(3.4445, -4.7750, 2.0315),
    ns_steps=5,
    adjust_lr_fn=None,
):
    """The iteration in float64: singular values go through a polynomial."""
    value = np.array(value, float)
    buffer, (a, b, c) = np.zeros_like(value), ns_coefficients
    rows, columns = value.shape
    adjusted = (
        0.2 * np.sqrt(max(rows, columns)) if adjust_lr_fn == "match_rms_adamw" else np.sqrt(max(1, rows / columns))
    )
    for _, g in _steps(gradients, False):
        buffer = momentum * buffer + (1 - momentum) * g
        ahead = momentum * buffer + (1 - momentum) * g if nesterov else buffer
        left, singular, right = np.linalg.svd(ahead, full_matrices=False)
        singular = singular / np.sqrt((singular**2).sum())
        for _ in range(ns_steps):
            singular = a * singular + b * singular**3 + c * singular**5
        value = value - lr * weight_decay * value - lr * adjusted * left @ np.diag(singular) @ right
    return value
