"""Losses of classes: cross-entropy and negative log-likelihood, of one class among many and of yes or no.

`cross_entropy` and `nll_loss` of class numbers are fused ops; their decomposition, in terms of other ops, gives higher orders.
"""

from __future__ import annotations

from typing import Any

from dynograd import arrays
from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.base.shapes import check_fits, check_whole
from dynograd.errors import DtypeError, IndexRangeError, ShapeError
from dynograd.kernels import kernel
from dynograd.ops.elementwise.activations import logsigmoid
from dynograd.ops.elementwise.arithmetic import maximum
from dynograd.ops.elementwise.choices import choose
from dynograd.ops.elementwise.exponentials import log, log1p
from dynograd.ops.index.indexing import get_advanced
from dynograd.ops.index.scatters import gathered
from dynograd.ops.layout.broadcasting import convert
from dynograd.ops.layout.views import reshaped
from dynograd.ops.loss.losses import in_one_pass, reduced, reduction_of
from dynograd.ops.norm.softmaxes import log_softmax
from dynograd.ops.op import Gradients, composed, op
from dynograd.ops.precisions import narrowed, widened
from dynograd.ops.reduce.reductions import sum as sum_dims
from dynograd.ops.row import Row

__all__ = ["binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "nll_loss"]

FAMILY = Row(out=None)


# --- one class among many ----------------------------------------------------------------------------------------------------


@op(name="cross_entropy", extras="statistics total gradient", functional=True, cast="wide", inner=True)
def class_entropy(
    input: Array,
    target: Array,
    weight: Array | None,
    ignore_index: int,
    label_smoothing: float,
    reduction: str,
    with_gradient: bool = False,
) -> Array:
    """-log softmax(input)[target], smoothed, weighted and reduced; `target` holds class numbers that have been checked.

    `with_gradient`: computed in the forward's pass over the scores, for the first backward.
    """
    forward = kernel("losses", "cross_entropy_forward", input)
    loss, *extras = forward(input, target, weight, ignore_index, label_smoothing, reduction, with_gradient)
    return loss, *extras


@class_entropy.fast_backward
def class_entropy_fast_backward(
    g: Any, saved: Any, ignore_index: Any, label_smoothing: Any, reduction: Any, with_gradient: Any
) -> Gradients:
    backward = kernel("losses", "cross_entropy_backward", saved.input)
    options = saved.weight, ignore_index, label_smoothing, reduction
    gradient, saved.gradient = saved.gradient, None  # the first backward's own; a second one computes it again
    return (backward(g, saved.input, saved.target, saved.statistics, saved.total, *options, gradient), None, None)


@class_entropy.decomposition
def class_entropy_decomposition(
    input: Any,
    target: Any,
    weight: Any,
    ignore_index: int,
    label_smoothing: float,
    reduction: str,
    with_gradient: bool = False,
) -> Array:
    logarithms = log_softmax(widened(input), min(1, len(input.shape) - 1))
    return narrowed(_picked_loss(logarithms, target, weight, ignore_index, label_smoothing, reduction), input)


@op(name="nll_loss", extras="total", functional=True, cast="wide", inner=True)
def class_likelihood(input: Array, target: Array, weight: Array | None, ignore_index: int, reduction: str) -> Array:
    """-input[target], weighted and reduced; `target` holds class numbers that have been checked."""
    return kernel("losses", "nll_loss_forward", input)(input, target, weight, ignore_index, reduction)


@class_likelihood.fast_backward
def class_likelihood_fast_backward(g: Any, saved: Any, ignore_index: Any, reduction: Any) -> Gradients:
    backward = kernel("losses", "nll_loss_backward", saved.input)
    return (backward(g, saved.input, saved.target, saved.total, saved.weight, ignore_index, reduction), None, None)


@class_likelihood.decomposition
def class_likelihood_decomposition(input: Any, target: Any, weight: Any, ignore_index: int, reduction: str) -> Array:
    return narrowed(_picked_loss(widened(input), target, weight, ignore_index, 0.0, reduction), input)


def _picked_loss(
    logarithms: Any, target: Any, weight: Any, ignore_index: int, smoothing: float, reduction: str
) -> Array:
    """-logarithms[target], smoothed, weighted and reduced, in terms of other ops."""
    dim = min(1, len(logarithms.shape) - 1)
    counted = target != ignore_index
    labels = target * counted
    shape = tuple(labels.shape)
    places = labels.reshape((*shape[:dim], 1, *shape[dim:]))
    loss = -reshaped(gathered(logarithms, dim, places), shape)
    factors = None
    if weight is not None:
        weight = widened(weight)
        factors = get_advanced(weight, [labels], (0,))
        loss = loss * factors
    if smoothing:
        if weight is None:
            spread = -sum_dims(logarithms, (dim,), False)
        else:
            spread = -sum_dims(logarithms * _along(weight, dim, len(logarithms.shape)), (dim,), False)
        loss = loss * (1 - smoothing) + spread * (smoothing / logarithms.shape[dim])
    loss = choose(counted, loss, 0.0)
    if reduction == "none":
        return loss
    loss = sum_dims(loss, None, False)
    if reduction == "sum":
        return loss
    if factors is not None:
        return loss / sum_dims(choose(counted, factors, 0.0), None, False)
    return loss / counted.sum()


@composed(covers="cross_entropy")
def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Array:
    """-log softmax(input)[target], averaged.

    Args:
        input (N, C), (C,) or (N, C, d1, ...): scores that need not be normalised.
        target: class numbers in the shape of `input` without C; or probabilities in the shape of `input`.
        weight (C,): a factor for each class; the mean over class numbers divides by the factors of the targets.
        size_average, reduce: the old form of `reduction`.
        ignore_index: targets of this number do not count.
        reduction: "mean", "sum" or "none".
        label_smoothing: share of the target's probability that is spread evenly over all classes.
    Returns:
        a scalar, or one loss for each target. NaN for the mean of no target.
    Raises:
        ShapeError: `target` fits neither form.
        IndexRangeError: a class number outside 0 to C - 1; the message says which, and where it stands.

    >>> dynograd.nn.functional.cross_entropy(tensor([[0.0, 0.0]]), tensor([1]))
    tensor(0.6931)
    """
    who = "cross_entropy"
    reduction = reduction_of(who, size_average, reduce, reduction)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"{who}: label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}.")
    scores, labels = getattr(input, "array", input), getattr(target, "array", target)
    shape = scores.shape
    _check_scores(who, scores.dtype, shape, weight, ignore_index)
    if shape == labels.shape:
        if labels.dtype.kind in "iub":
            raise DtypeError(
                f"{who}: Expected floating point type for target with class probabilities, got {target.dtype} in the shape of input "
                f"{shape}. Class numbers have that shape without dim 1; probabilities need target.float()."
            )
        return _distribution_entropy(input, target, weight, ignore_index, reduction, label_smoothing)
    target = _checked_labels(who, shape, target, labels, ignore_index)
    if weight is not None and getattr(weight, "requires_grad", False):
        return class_entropy_decomposition(input, target, weight, ignore_index, label_smoothing, reduction)
    with_gradient = bool(getattr(input, "requires_grad", False))
    return class_entropy(input, target, weight, ignore_index, label_smoothing, reduction, with_gradient)


@composed(covers="nll_loss")
def nll_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
) -> Array:
    """-input[target], averaged: the negative log-likelihood of the targets.

    Args:
        input (N, C), (C,) or (N, C, d1, ...): log-probabilities.
        target: class numbers in the shape of `input` without C.
        weight (C,): a factor for each class; the mean divides by the factors of the targets.
        size_average, reduce: the old form of `reduction`.
        ignore_index: targets of this number do not count.
        reduction: "mean", "sum" or "none".
    Returns:
        A tensor without dims, or of the losses with `reduction="none"`.
    Raises:
        ShapeError: `target` has not the shape of `input` without C.
        IndexRangeError: a class number outside 0 to C - 1; the message says which, and where it stands.

    >>> dynograd.nn.functional.nll_loss(tensor([[-1.0, -2.0], [-3.0, -4.0]]), tensor([1, 0]))
    tensor(2.5000)
    """
    who = "nll_loss"
    reduction = reduction_of(who, size_average, reduce, reduction)
    scores = getattr(input, "array", input)
    _check_scores(who, scores.dtype, scores.shape, weight, ignore_index)
    target = _checked_labels(who, scores.shape, target, getattr(target, "array", target), ignore_index)
    if weight is not None and getattr(weight, "requires_grad", False):
        return class_likelihood_decomposition(input, target, weight, ignore_index, reduction)
    return class_likelihood(input, target, weight, ignore_index, reduction)


def _distribution_entropy(
    input: Any, target: Any, weight: Any, ignore_index: int, reduction: str, label_smoothing: float
) -> Array:
    """Cross-entropy of target probabilities; the mean divides by the number of targets, whatever the weights."""
    if ignore_index >= 0:
        raise RuntimeError(
            f"cross_entropy: ignore_index is not supported for floating point target, got {ignore_index}. Leave it out and weight instead."
        )
    dim = min(1, len(input.shape) - 1)
    wide = widened(target)
    if label_smoothing:
        wide = wide * (1 - label_smoothing) + label_smoothing / max(input.shape[dim], 1)
    scores = getattr(input, "array", input)
    constant = not (getattr(wide, "requires_grad", False) or getattr(weight, "requires_grad", False))
    fused = constant and scores.size >= 256 and scores.dtype.itemsize <= 4
    loss = (distribution_entropies if fused else distribution_entropies_decomposition)(input, wide, weight)
    if reduction == "mean":
        count = getattr(loss, "array", loss).size
        loss = sum_dims(loss, None, False)
        return narrowed(loss / count if count else loss * float("nan"), input)
    return narrowed(reduced(loss, reduction), input)


@op(name="cross_entropy_of_distributions", extras="top total", cast="wide", inner=True)
def distribution_entropies(input: Array, target: Array, weight: Array | None) -> Array:
    """-sum(target * weight * log softmax(input)) over dim 1 (dim 0 of a vector), in float32."""
    loss, top, total = kernel("losses", "distribution_entropy_forward", input)(input, target, weight)
    shape = input.shape
    return loss.reshape((*shape[:1], *shape[2:]) if len(shape) > 1 else ()), top, total


@distribution_entropies.fast_backward
def distribution_entropies_fast_backward(g: Any, saved: Any) -> Gradients:
    backward = kernel("losses", "distribution_entropy_backward", saved.input)
    return (backward(g, saved.input, saved.target, saved.weight, saved.top, saved.total), None, None)


@distribution_entropies.decomposition
def distribution_entropies_decomposition(input: Any, target: Any, weight: Any) -> Array:
    dim = min(1, len(input.shape) - 1)
    products = log_softmax(widened(input), dim) * target
    if weight is not None:
        products = products * _along(widened(weight), dim, len(input.shape))
    return -sum_dims(products, (dim,), False)


def _check_scores(who: str, dtype: Any, shape: tuple[int, ...], weight: Any, ignore_index: int) -> None:
    if type(ignore_index) is not int:
        check_whole(who, ignore_index=ignore_index)
    if dtype.kind in "iub":
        raise DtypeError(
            f"{who}: expected scores of a floating dtype, got {dtypes.BY_NUM[dtype.num]}. Use input.float()."
        )
    if not shape:
        raise ShapeError(f"{who}: expected scores (N, C), (C,) or (N, C, d1, ...), got a 0-dim input.")
    if weight is not None:
        classes = shape[min(1, len(shape) - 1)]
        if tuple(weight.shape) != (classes,):
            raise ShapeError(
                f"{who}: weight tensor should be defined either for all {classes} classes or no classes but got weight tensor of shape "
                f"{tuple(weight.shape)} (input has shape {shape})."
            )


def _checked_labels(who: str, shape: tuple[int, ...], target: Any, labels: Any, ignore_index: int) -> Array:
    """`target`, whose array is `labels`, as int64, when it fits the scores and every number in it is a class."""
    expected = (shape[0], *shape[2:]) if len(shape) > 1 else ()
    if labels.shape != expected:
        raise _target_shape_error(who, shape, labels.shape, expected)
    if labels.dtype.kind not in "iu":
        raise DtypeError(
            f"{who}: expected target of an integer dtype (scalar type Long), got {dtypes.of_array(labels)} of shape {labels.shape}. Use "
            f"target.long(); probabilities need the shape of input, {shape}."
        )
    if not arrays.checked_later(labels, lambda known: _check_labels(who, shape, known, ignore_index)):
        _check_labels(who, shape, labels, ignore_index)
    return target if labels.dtype.num == dtypes.int64.num else convert(target, dtypes.int64)


def _check_labels(who: str, shape: tuple, labels: Any, ignore_index: int) -> None:
    classes = shape[1] if len(shape) > 1 else shape[0]
    labels = arrays.all_values(labels)
    wrong = kernel("masks", "wrong_target", labels)(labels, classes, ignore_index)
    if wrong is not None:
        value, position = wrong
        where = f" at position {list(position)}" if position else ""
        raise IndexRangeError(
            f"{who}: Target {value} is out of bounds: target{where} is {value}, but input of shape {shape} has {classes} classes (0 to "
            f"{classes - 1}). Use ignore_index={value} for targets that do not count."
        )


def _target_shape_error(who: str, shape: tuple, own: tuple, expected: tuple) -> ShapeError:
    if len(shape) > 1 and own and own[0] != shape[0]:
        return ShapeError(
            f"{who}: Expected input batch_size ({shape[0]}) to match target batch_size ({own[0]}): input has shape {shape}, target {own}."
        )
    way_out = "."
    if own[1:2] == (1,):
        way_out = "; use target.squeeze(1)."
    elif own == shape[:-1]:
        way_out = ", where classes belong; use input.movedim(-1, 1)."
    return ShapeError(
        f"{who}: expected target of size {list(expected)} for input of shape {shape}, got {list(own)}. Class numbers have input's shape "
        f"without dim {min(1, len(shape) - 1)}{way_out}"
    )


def _along(vector: Any, dim: int, rank: int) -> Array:
    return reshaped(vector, (-1, *(1,) * (rank - dim - 1)))


# --- yes or no ---------------------------------------------------------------------------------------------------------------


@op(name="binary_cross_entropy", saves="input target", functional=True, cast={"cpu": "wide"})
def yes_no_entropy(input: Array, target: Array) -> Array:
    """-(target * log(input) + (1 - target) * log(1 - input)), logarithms not below -100."""
    return (target - 1) * maximum(log1p(-input), -100.0) - target * maximum(log(input), -100.0)


@yes_no_entropy.backward
def yes_no_entropy_backward(g: Any, saved: Any) -> Gradients:
    x, y = saved.input, saved.target
    return (
        g * ((x - y) / maximum(x - x * x, 1e-12)) if saved.needs(0) else None,
        g * (maximum(log1p(-x), -100.0) - maximum(log(x), -100.0)) if saved.needs(1) else None,
    )


@composed(covers="binary_cross_entropy", ragged="elements")
def binary_cross_entropy(
    input: Any, target: Any, weight: Any = None, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
) -> Array:
    """-(target * log(input) + (1 - target) * log(1 - input)), averaged.

    Logarithms count as at least -100, so a certain prediction that is wrong costs 100, not inf.

    Args:
        input: probabilities.
        target: probabilities, in the shape of `input`.
        weight: a factor of each loss, broadcast.
        size_average, reduce: the old form of `reduction`.
        reduction: "mean", "sum" or "none".
    Returns:
        A tensor without dims, or of the losses with `reduction="none"`.
    Raises:
        ShapeError: `target` has another shape.
        RuntimeError: an input outside 0 to 1.

    >>> dynograd.nn.functional.binary_cross_entropy(tensor([0.5, 1.0]), tensor([1.0, 1.0]))
    tensor(0.3466)
    """
    who = "binary_cross_entropy"
    reduction = reduction_of(who, size_average, reduce, reduction)
    if tuple(input.shape) != tuple(target.shape):
        raise ShapeError(
            f"{who}: Using a target size ({tuple(target.shape)}) that is different to the input size ({tuple(input.shape)}) is deprecated. "
            f"Please ensure they have the same size (unsqueeze or squeeze one of them)."
        )
    _check_probabilities(who, input)
    if weight is None:
        return _yes_no(input, target, 0.0, reduction)
    check_fits(who, "weight", weight, tuple(input.shape))
    return reduced(_yes_no_losses(input, target) * weight, reduction)


def _yes_no_losses(input: Any, target: Any, _: float = 0.0) -> Array:
    return narrowed(yes_no_entropy(widened(input), widened(target)), input)


_yes_no = in_one_pass("binary_cross_entropy", _yes_no_losses, "The reduced entropies of probabilities.")


def _check_probabilities(who: str, input: Any) -> None:
    array = getattr(input, "array", input)
    if array.dtype.kind in "iub":
        raise DtypeError(
            f"{who}: expected probabilities of a floating dtype, got {dtypes.of_array(array)}. Use input.float()."
        )
    if arrays.checked_later(array, lambda known: _check_probabilities(who, known)):
        return
    array = arrays.all_values(array)
    if array.size:
        low, high = array.min(), array.max()
        if low < 0 or high > 1:
            raise RuntimeError(
                f"{who}: all elements of input should be between 0 and 1, got {low if low < 0 else high}. Use sigmoid first, or "
                f"binary_cross_entropy_with_logits, which takes scores."
            )


_yes_no_scores = in_one_pass(
    "binary_cross_entropy_with_logits",
    lambda input, target, _: input - input * target - logsigmoid(input),
    "The reduced entropies of scores.",
)


@composed(functional=True, cast="wide", ragged="elements")
def binary_cross_entropy_with_logits(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    pos_weight: Any = None,
) -> Array:
    """`binary_cross_entropy` of sigmoid(input), computed without overflow.

    Args:
        input: scores.
        target: probabilities, in the shape of `input`.
        weight: a factor of each loss, broadcast.
        size_average, reduce: the old form of `reduction`.
        reduction: "mean", "sum" or "none".
        pos_weight: a factor of the positive part, broadcast: more than 1 raises recall, less raises precision.
    Returns:
        A tensor without dims, or of the losses with `reduction="none"`.
    Raises:
        ShapeError: `target` has another shape.

    >>> dynograd.nn.functional.binary_cross_entropy_with_logits(tensor([0.0, 100.0]), tensor([1.0, 1.0]))
    tensor(0.3466)
    """
    who = "binary_cross_entropy_with_logits"
    reduction = reduction_of(who, size_average, reduce, reduction)
    if tuple(input.shape) != tuple(target.shape):
        raise ShapeError(
            f"{who}: Target size ({tuple(target.shape)}) must be the same as input size ({tuple(input.shape)}). Use unsqueeze or squeeze."
        )
    if pos_weight is None and weight is None:
        return _yes_no_scores(input, target, 0.0, reduction)
    logarithm = logsigmoid(input)
    if pos_weight is None:
        loss = input - input * target - logarithm
    else:
        check_fits(who, "pos_weight", pos_weight, tuple(input.shape))
        loss = input - input * target - logarithm * (target * (pos_weight - 1) + 1)
    if weight is not None:
        check_fits(who, "weight", weight, tuple(input.shape))
        loss = loss * weight
    return reduced(loss, reduction)
