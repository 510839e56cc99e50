"""Cross-entropy and negative log-likelihood of class numbers, forward and backward, on NumPy arrays.

Scores are (N, C), (C,) or (N, C, d1, ...); `target` holds class numbers and has the scores' shape without C. Rows whose
target is `ignore_index` count nothing. The mean divides by the sum of the targets' weights, so it is NaN when no row counts.
float32 goes through Numba, tiny arrays and float64 through NumPy (`class_losses_by_numpy`); half types are computed in float32.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np

from dynograd.arrays.buffers import in_shape
from dynograd.kernels.build.compiled_kernels import compiled, compiled_for


def cross_entropy_forward(logits, target, weight, ignore_index, label_smoothing, reduction, with_gradient=False):
    """(loss, statistics, total weight, gradient) of -log softmax(logits)[target], smoothed and weighted as PyTorch does.

    loss: shape of `target` for reduction "none", else 0-d. statistics (2, ...): each row's maximum, and sum of
    exp(logits - maximum); they and the total weight are for the backward kernel. gradient: of the scores where the loss receives
    1, computed in the same pass; None without `with_gradient`, and from NumPy.
    """
    kernels = None if logits.dtype.char == "d" else compiled_for(logits.size)
    if kernels is None:
        from dynograd.kernels.loss import class_losses_by_numpy as by_numpy

        losses, statistics, total = by_numpy.cross_entropy(logits, target, weight, ignore_index, label_smoothing)
        return _reduced(losses, total, target.shape, reduction, logits.dtype), statistics, total, None
    scores, inner = _scores(logits)
    labels, weights = _labels(target, scores), _weights(weight, scores.shape[1])
    total = kernels["losses.total_weight"](labels.reshape(-1), weights, ignore_index) if reduction == "mean" else 1.0
    numbers = _smoothing(label_smoothing, weight, weights)
    if with_gradient or numbers:  # what is smoothed is summed in one loop with or without a gradient, to the same bits
        kernel = kernels[f"{'smooth_' if numbers else ''}cross_entropy_with_gradient{inner}"]
        losses, top, sums, gradient = kernel(
            scores, weights, labels, ignore_index, *numbers, 1 / total if total else 0.0
        )
    else:
        losses, top, sums = kernels[f"cross_entropy{inner}"](scores, weights, labels, ignore_index)
    result = _narrow(gradient, logits) if with_gradient else None
    return _reduced(losses, total, target.shape, reduction, logits.dtype), np.array((top, sums)), total, result


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
    labels, weights = _labels(target, scores), _weights(weight, scores.shape[1])
    outer = _row_gradients(g, target.size, total_weight, reduction, np.float32).reshape(labels.shape)
    top, sums = statistics.reshape(2, *labels.shape)
    numbers = _smoothing(label_smoothing, weight, weights)
    kernel = kernels[f"{'smooth_' if numbers else ''}cross_entropy_backward{inner}"]
    return _narrow(kernel(scores, weights, labels, ignore_index, *numbers, outer, top, sums), logits)


def distribution_entropy_forward(logits, target, weight):
    """(losses, maxima, sums) of -sum(target * weight * log softmax(logits)) over dim 1 (dim 0 of one example); float32."""
    scores, inner = _scores(logits)
    kernel = compiled[f"distribution_entropy{inner}"]
    loss, top, total = kernel(scores, _scores(target)[0], _weights(weight, scores.shape[1]))
    return loss, top, total


def distribution_entropy_backward(g, logits, target, weight, top, total):
    """Gradient of the logits from those of the losses, which are flat or have the losses' shape."""
    scores, inner = _scores(logits)
    name = f"distribution_entropy_backward{inner}"
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
    scores, inner = _scores(log_probabilities)
    labels, weights = _labels(target, scores), _weights(weight, scores.shape[1])
    losses = kernels[f"nll{inner}"](scores, weights, labels, ignore_index)
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
    scores, inner = _scores(log_probabilities)
    labels, weights = _labels(target, scores), _weights(weight, scores.shape[1])
    outer = _row_gradients(g, target.size, total_weight, reduction, np.float32).reshape(labels.shape)
    return _narrow(kernels[f"nll_backward{inner}"](scores, weights, labels, ignore_index, outer), log_probabilities)


# --- shapes and types ----------------------------------------------------------------------------------------------------------


def _scores(scores):
    """(rows (R, C), ""), or ((N, C, L), "_inner") where places follow the classes; C-contiguous float32."""
    scores = np.ascontiguousarray(scores, np.float32)
    if scores.ndim == 2:
        return scores, ""
    if scores.ndim == 1:
        return scores.reshape(1, -1), ""
    places = prod(scores.shape[2:])
    if places == 1:
        return scores.reshape(scores.shape[:2]), ""
    return scores.reshape(*scores.shape[:2], places), "_inner"


def _smoothing(share, weight, weights):
    """What programs of smoothed labels take beside the others: the share that is spread, and the sum of the weights."""
    return (share, float(len(weights) if weight is None else np.add.reduce(weights))) if share else ()


def _labels(target, scores):
    """(R,), or (N, L)."""
    return np.ascontiguousarray(target, np.int64).reshape(len(scores), *scores.shape[2:])


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
