"""Cross-entropy and negative log-likelihood of class numbers, forward and backward, on NumPy arrays.

Scores are (N, C), (C,) or (N, C, d1, ...); `target` holds class numbers and has the scores' shape without C. Rows whose
target is `ignore_index` count nothing. The mean divides by the sum of the targets' weights, so it is NaN when no row counts.
"""

from __future__ import annotations

import numpy as np

__all__ = ["cross_entropy_backward", "cross_entropy_forward", "nll_loss_backward", "nll_loss_forward"]

# Below this many scores NumPy's 30 us are no worse than loading Numba for a script's first loss.
COMPILED_SIZE = 256


def cross_entropy_forward(logits, target, weight, ignore_index, label_smoothing, reduction):
    """(loss, statistics, total weight) of -log softmax(logits)[target], smoothed and weighted as PyTorch does.

    loss: shape of `target` for reduction "none", else 0-d. statistics (rows, 2): each row's maximum and sum of
    exp(logits - maximum); they and the total weight are for the backward kernel.
    """
    rows, labels, weights = _rows(logits), target.reshape(-1), _weights(weight, logits)
    if _is_compiled(rows):
        from dynograd.kernels.softmaxes_numba import cross_entropy_rows

        losses, statistics = np.empty(len(rows), rows.dtype), np.empty((len(rows), 2), rows.dtype)
        labels = labels.astype(np.int64, copy=False)
        smoothing = np.float32(label_smoothing)
        whole, total = cross_entropy_rows(rows, labels, weights, ignore_index, smoothing, losses, statistics)
    else:
        losses, statistics = _losses(rows, labels, weights, ignore_index, label_smoothing)
        whole, total = losses.sum(), _total_weight(labels, weights, ignore_index)
    return _reduced(losses, whole, total, target.shape, reduction, logits.dtype), statistics, total


def cross_entropy_backward(
    g, logits, target, statistics, total_weight, weight, ignore_index, label_smoothing, reduction
):
    """Gradient of the logits; `statistics` and `total_weight` as `cross_entropy_forward` returned them."""
    rows, labels, weights = _rows(logits), target.reshape(-1), _weights(weight, logits)
    outer = _row_gradients(g, len(rows), total_weight, reduction, rows.dtype)
    if _is_compiled(rows):
        from dynograd.kernels.softmaxes_numba import cross_entropy_backward_rows

        result = np.empty_like(rows)
        labels = labels.astype(np.int64, copy=False)
        smoothing = np.float32(label_smoothing)
        cross_entropy_backward_rows(outer, rows, labels, weights, ignore_index, smoothing, statistics, result)
    else:
        result = _loss_gradients(outer, rows, labels, statistics, weights, ignore_index, label_smoothing)
    return _unrows(result, logits.shape, logits.dtype)


def nll_loss_forward(log_probabilities, target, weight, ignore_index, reduction):
    """(loss, total weight) of -log_probabilities[target] times the target's weight."""
    labels, weights = target.reshape(-1), _weights(weight, log_probabilities)
    counted = labels != ignore_index
    labels = np.where(counted, labels, 0)
    rows = np.moveaxis(log_probabilities, 1, -1) if log_probabilities.ndim > 1 else log_probabilities[None]
    picked = np.take_along_axis(rows, labels.reshape(*rows.shape[:-1], 1), axis=-1).reshape(-1)
    losses = np.where(counted, -picked.astype(weights.dtype, copy=False) * weights[labels], 0)
    total = _total_weight(target.reshape(-1), weights, ignore_index)
    return _reduced(losses, losses.sum(), total, target.shape, reduction, log_probabilities.dtype), total


def nll_loss_backward(g, log_probabilities, target, total_weight, weight, ignore_index, reduction):
    """Gradient of the log-probabilities: minus the target's weight at the target, 0 elsewhere."""
    labels, weights = target.reshape(-1), _weights(weight, log_probabilities)
    outer = _row_gradients(g, labels.size, total_weight, reduction, weights.dtype)
    counted = np.flatnonzero(labels != ignore_index)
    labels = labels[counted]
    shape = log_probabilities.shape
    result = np.zeros((target.size, shape[min(1, len(shape) - 1)]), weights.dtype)
    result[counted, labels] = -outer[counted] * weights[labels]
    return _unrows(result, shape, log_probabilities.dtype)


def _losses(rows, labels, weights, ignored, smoothing):
    """NumPy's version of `cross_entropy_rows`."""
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
    statistics = np.stack([top, total], axis=1)
    return np.where(counted, losses, 0).astype(rows.dtype, copy=False), statistics


def _loss_gradients(outer, rows, labels, statistics, weights, ignored, smoothing):
    """NumPy's version of `cross_entropy_backward_rows`."""
    counted = labels != ignored
    safe = np.where(counted, labels, 0)
    spread = smoothing / rows.shape[1]
    hit = (1 - smoothing) * weights[safe]
    with np.errstate(divide="ignore", invalid="ignore"):
        result = np.exp(rows - statistics[:, :1]) * ((hit + spread * weights.sum()) / statistics[:, 1])[:, None]
    result -= spread * weights
    result[np.arange(len(rows)), safe] -= hit
    result *= outer[:, None]
    result[~counted] = 0
    return result.astype(rows.dtype, copy=False)


def _is_compiled(rows):
    return rows.dtype == np.float32 and rows.size >= COMPILED_SIZE


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


def _reduced(losses, whole, total, shape, reduction, kind):
    if reduction == "none":
        return losses.reshape(shape).astype(kind, copy=False)
    if reduction == "sum":
        return np.array(whole, kind)
    return np.array(whole / total if total else np.nan, kind)


def _row_gradients(g, rows, total, reduction, kind):
    """What each row's loss receives."""
    if reduction == "none":
        return np.ascontiguousarray(g, kind).reshape(-1)
    share = np.asarray(g).astype(np.float64)
    if reduction == "mean":
        share = share / total if total else share * np.nan
    return np.full(rows, share, kind)
