"""Losses of class numbers in plain NumPy: for float64, and for a script's first tiny losses (see `compiled_kernels`)."""

from __future__ import annotations

import numpy as np


def cross_entropy(logits, target, weight, ignored, smoothing):
    """(losses, statistics, total weight) with a row for each target, in the type that computes."""
    rows, labels, weights = _rows(logits), target.reshape(-1), _weights(weight, logits)
    with np.errstate(divide="ignore", invalid="ignore"):
        top = rows.max(axis=1, initial=-np.inf)
        shifted = rows - top[:, None]
        total = np.exp(shifted).sum(axis=1)
        negative = np.log(total)[:, None] - shifted
        counted = labels != ignored
        safe = np.where(counted, labels, 0)
        losses = negative[np.arange(len(rows)), safe] * weights[safe]
        if smoothing:
            losses = (1 - smoothing) * losses + smoothing / rows.shape[1] * (negative @ weights)
    losses = np.where(counted, losses, 0).astype(rows.dtype, copy=False)
    return losses, np.stack([top, total]), _total_weight(labels, weights, ignored)


def cross_entropy_gradient(outer, logits, target, statistics, weight, ignored, smoothing):
    """Gradient of the logits; `outer` is what each target's loss receives."""
    rows, labels, weights = _rows(logits), target.reshape(-1), _weights(weight, logits)
    counted = labels != ignored
    safe = np.where(counted, labels, 0)
    top, total = statistics
    spread = smoothing / rows.shape[1]
    hit = (1 - smoothing) * weights[safe]
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = (hit + spread * weights.sum()) / total
        result = np.exp(rows - top[:, None]) * scale[:, None]
    result -= spread * weights
    result[np.arange(len(rows)), safe] -= hit
    result *= outer[:, None]
    result[~counted] = 0
    return _unrows(result, logits.shape, logits.dtype)


def nll(log_probabilities, target, weight, ignored):
    """(losses, total weight)."""
    labels, weights = target.reshape(-1), _weights(weight, log_probabilities)
    counted = labels != ignored
    safe = np.where(counted, labels, 0)
    rows = np.moveaxis(log_probabilities, 1, -1) if log_probabilities.ndim > 1 else log_probabilities[None]
    picked = np.take_along_axis(rows, safe.reshape(*rows.shape[:-1], 1), axis=-1).reshape(-1)
    losses = np.where(counted, -picked.astype(weights.dtype, copy=False) * weights[safe], 0)
    return losses, _total_weight(labels, weights, ignored)


def nll_gradient(outer, log_probabilities, target, weight, ignored):
    """Gradient of the log-probabilities; `outer` is what each target's loss receives."""
    labels, weights = target.reshape(-1), _weights(weight, log_probabilities)
    counted = np.flatnonzero(labels != ignored)
    labels = labels[counted]
    shape = log_probabilities.shape
    result = np.zeros((target.size, shape[min(1, len(shape) - 1)]), weights.dtype)
    result[counted, labels] = -outer[counted] * weights[labels]
    return _unrows(result, shape, log_probabilities.dtype)


def _rows(scores):
    """(rows, C), C-contiguous, in the type that computes."""
    scores = scores.astype(np.float32) if scores.dtype.itemsize == 2 else scores
    if scores.ndim > 2:
        scores = np.moveaxis(scores, 1, -1)
    return np.ascontiguousarray(scores).reshape(-1, scores.shape[-1])


def _unrows(rows, shape, kind):
    """Inverse of `_rows`."""
    rows = rows.astype(kind, copy=False)
    if len(shape) > 2:
        return np.ascontiguousarray(np.moveaxis(rows.reshape(shape[0], *shape[2:], shape[1]), -1, 1))
    return rows.reshape(shape)


def _weights(weight, scores):
    kind = np.float32 if scores.dtype.itemsize == 2 else scores.dtype
    if weight is None:
        return np.ones(scores.shape[min(1, scores.ndim - 1)], kind)
    return np.ascontiguousarray(weight.astype(kind, copy=False))


def _total_weight(labels, weights, ignored):
    counted = labels[labels != ignored]
    return float(weights[counted].sum(dtype=np.float64))
