"""Cross-entropy and negative log-likelihood of class numbers, forward and backward, on NumPy arrays.

Scores are (N, C), (C,) or (N, C, d1, ...); `target` holds class numbers and has the scores' shape without C. Rows whose
target is `ignore_index` count nothing. The mean divides by the sum of the targets' weights, so it is NaN when no row counts.
float32 goes through Numba, tiny arrays and float64 through NumPy (`class_losses_by_numpy`); half types are computed in float32.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np

from dynograd.arrays import buffers
from dynograd.arrays.buffers import in_shape
from dynograd.kernels.build.compiled_kernels import compiled, compiled_for

_NOTHING = np.empty((0, 0), np.float32)
_NOTHING_INNER = np.empty((0, 0, 0), np.float32)
_WORK = 8  # an element of cross-entropy costs as much as so many additions


def cross_entropy_forward(logits, target, weight, ignore_index, label_smoothing, reduction, with_gradient=False):
    """(loss, statistics, total weight, gradient) of -log softmax(logits)[target], smoothed and weighted as PyTorch does.

    loss: shape of `target` for reduction "none", else 0-d. statistics (..., 2): each row's maximum and sum of
    exp(logits - maximum); they and the total weight are for the backward kernel. gradient: of the scores where the loss receives
    1, computed in the same pass; None without `with_gradient`, and from NumPy.
    """
    kernels = None if logits.dtype.char == "d" else compiled_for(logits.size)
    if kernels is None:
        from dynograd.kernels.loss import class_losses_by_numpy as by_numpy

        losses, statistics, total = by_numpy.cross_entropy(logits, target, weight, ignore_index, label_smoothing)
        return _reduced(losses, total, target.shape, reduction, logits.dtype), statistics, total, None
    scores, inner = _scores(logits)
    labels, weights = _labels(target), _weights(weight, scores.shape[1])
    total = kernels["losses.total_weight"](labels, weights, ignore_index) if reduction == "mean" else 1.0
    share = np.float32(1 / total if total else 0.0)
    smoothing = np.float32(label_smoothing)
    work = _WORK * scores.size
    if inner:
        places = (len(scores), scores.shape[2])
        losses, statistics = buffers.empty(places, np.float32), buffers.empty((*places, 2), np.float32)
        gradient = buffers.empty(scores.shape, np.float32) if with_gradient else _NOTHING_INNER
        kernels["losses.cross_entropy_inner"](
            scores, labels.reshape(places), weights, ignore_index, smoothing, share, losses, statistics, gradient,
            count=_blocks(places), work=work,
        )  # fmt: skip
    else:
        losses, statistics = np.empty(len(scores), np.float32), np.empty((len(scores), 2), np.float32)
        gradient = buffers.empty(scores.shape, np.float32) if with_gradient else _NOTHING
        kernels["losses.cross_entropy_rows"](
            scores, labels, weights, ignore_index, smoothing, share, losses, statistics, gradient,
            count=len(scores), work=work,
        )  # fmt: skip
    result = _narrow(gradient, logits) if with_gradient else None
    return _reduced(losses, total, target.shape, reduction, logits.dtype), statistics, total, result


def cross_entropy_backward(
    g, logits, target, statistics, total_weight, weight, ignore_index, label_smoothing, reduction, gradient=None
):
    """Gradient of the logits; `statistics`, `total_weight` and `gradient` as `cross_entropy_forward` returned them.

    A `gradient` is used up: where it is to be changed, it is changed in place.
    """
    if gradient is not None:
        return _times(g, gradient, reduction)
    kernels = None if logits.dtype.char == "d" else compiled_for(logits.size)
    if kernels is None:
        from dynograd.kernels.loss import class_losses_by_numpy as by_numpy

        outer = _row_gradients(g, target.size, total_weight, reduction, statistics.dtype)
        options = weight, ignore_index, label_smoothing
        return by_numpy.cross_entropy_gradient(outer, logits, target, statistics, *options)
    scores, inner = _scores(logits)
    labels, weights = _labels(target), _weights(weight, scores.shape[1])
    outer = _row_gradients(g, target.size, total_weight, reduction, np.float32)
    result = buffers.empty(scores.shape, np.float32)
    name, count = "losses.cross_entropy_gradients", len(scores)
    if inner:
        places = (len(scores), scores.shape[2])
        labels, outer, statistics = labels.reshape(places), outer.reshape(places), statistics.reshape(*places, 2)
        name, count = "losses.cross_entropy_inner_gradients", _blocks(places)
    else:
        statistics = statistics.reshape(-1, 2)
    smoothing = np.float32(label_smoothing)
    kernels[name](
        outer, scores, labels, weights, ignore_index, smoothing, statistics, result,
        count=count, work=_WORK * scores.size,
    )  # fmt: skip
    return _narrow(result, logits)


def distribution_entropy_forward(logits, target, weight):
    """(losses, maxima, sums) of -sum(target * weight * log softmax(logits)) over dim 1 (dim 0 of one example); float32."""
    scores, inner = _scores(logits)
    name = "distribution_entropy_inner" if inner else "distribution_entropy"
    score = _scores(target)[0]
    loss, top, total = compiled[name](scores, score, _weights(weight, scores.shape[1]))
    return loss, top, total


def distribution_entropy_backward(g, logits, target, weight, top, total):
    """Gradient of the logits from those of the losses, which are flat or have the losses' shape."""
    scores, inner = _scores(logits)
    name = "distribution_entropy_backward_inner" if inner else "distribution_entropy_backward"
    outer = np.ascontiguousarray(g, np.float32).reshape(top.shape)
    options = scores, _scores(target)[0], outer, top, total, _weights(weight, scores.shape[1])
    return _narrow(compiled[name](*options), logits)


def nll_loss_forward(log_probabilities, target, weight, ignore_index, reduction):
    """(loss, total weight) of -log_probabilities[target] times the target's weight."""
    kernels = None if log_probabilities.dtype.char == "d" else compiled_for(target.size)
    if kernels is None:
        from dynograd.kernels.loss import class_losses_by_numpy as by_numpy

        losses, total = by_numpy.nll(log_probabilities, target, weight, ignore_index)
        return _reduced(losses, total, target.shape, reduction, log_probabilities.dtype), total
    scores, labels, weights = _as_three(log_probabilities, target, weight)
    losses = np.empty(labels.shape, np.float32)
    kernels["losses.nll_losses"](scores, labels, weights, ignore_index, losses)
    total = kernels["losses.total_weight"](labels.reshape(-1), weights, ignore_index) if reduction == "mean" else 1.0
    return _reduced(losses, total, target.shape, reduction, log_probabilities.dtype), total


def nll_loss_backward(g, log_probabilities, target, total_weight, weight, ignore_index, reduction):
    """Gradient of the log-probabilities: minus the target's weight at the target, 0 elsewhere."""
    kernels = None if log_probabilities.dtype.char == "d" else compiled_for(target.size)
    if kernels is None:
        from dynograd.kernels.loss import class_losses_by_numpy as by_numpy

        kind = np.float64 if log_probabilities.dtype.char == "d" else np.float32
        outer = _row_gradients(g, target.size, total_weight, reduction, kind)
        return by_numpy.nll_gradient(outer, log_probabilities, target, weight, ignore_index)
    scores, labels, weights = _as_three(log_probabilities, target, weight)
    outer = _row_gradients(g, target.size, total_weight, reduction, np.float32)
    result = buffers.empty(scores.shape, np.float32)
    name = "losses.nll_scatter"
    if labels.shape[1] == 1:
        name, labels, result = "losses.nll_scatter_rows", labels.reshape(-1), in_shape(result, scores.shape[:2])
    else:
        outer = outer.reshape(labels.shape)
    kernels[name](outer, labels, weights, ignore_index, result, count=len(labels), work=result.size)
    return _narrow(result, log_probabilities)


# --- shapes and types ----------------------------------------------------------------------------------------------------------


def _scores(scores):
    """(rows (R, C), False), or ((N, C, L), True) where places follow the classes; C-contiguous float32."""
    scores = np.ascontiguousarray(scores, np.float32)
    if scores.ndim == 2:
        return scores, False
    if scores.ndim == 1:
        return scores.reshape(1, -1), False
    places = prod(scores.shape[2:])
    return (
        (scores.reshape(*scores.shape[:2], places), True) if places != 1 else (scores.reshape(scores.shape[:2]), False)
    )


def _as_three(scores, target, weight):
    """(N, C, L) scores, (N, L) labels and weights."""
    result, inner = _scores(scores)
    result = result if inner else result.reshape(*result.shape, 1)
    return result, _labels(target).reshape(len(result), result.shape[2]), _weights(weight, result.shape[1])


def _labels(target):
    return np.ascontiguousarray(target, np.int64).reshape(-1)


def _weights(weight, classes):
    return _ones(classes) if weight is None else np.ascontiguousarray(weight, np.float32)


@lru_cache(8)
def _ones(count):
    result = np.ones(count, np.float32)
    return result


def _narrow(result, like):
    """A float32 result in the shape and dtype of the scores."""
    if like.dtype.char != "f":
        result = result.astype(like.dtype)
    return in_shape(result, like.shape)


def _blocks(places):
    return places[0] * -(-places[1] // 256)  # as losses_numba.WIDTH, which is not there before Numba


def _reduced(losses, total, shape, reduction, kind):
    if reduction == "none":
        return losses.reshape(shape).astype(kind, copy=False)
    whole = np.add.reduce(losses, None)
    if reduction == "mean":
        whole = whole / total if total else np.nan
    return np.array(whole, kind)


def _times(g, gradient, reduction):
    """The gradient of a loss that receives `g`, from that of one that receives 1."""
    if reduction != "none":
        if g != 1:
            np.multiply(gradient, np.asarray(g).astype(gradient.dtype), out=gradient)
        return gradient
    if gradient.ndim > 1:
        g = np.expand_dims(g, 1)
    return np.multiply(gradient, g, out=gradient)


def _row_gradients(g, rows, total, reduction, kind):
    """What each row's loss receives."""
    if reduction == "none":
        return np.ascontiguousarray(g, kind).reshape(-1)
    share = float(g)
    if reduction == "mean":
        share = share / total if total else np.nan
    return np.full(rows, share, kind)
