"""Losses that ask for a margin: between scores, between distances, between cosines."""

from __future__ import annotations

from typing import Any

from dynograd import arrays
from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.base.shapes import broadcast_shapes, check_fits
from dynograd.base.values import has_own_values, read_values
from dynograd.errors import DtypeError, IndexRangeError, ShapeError
from dynograd.kernels import kernel
from dynograd.ops.elementwise.activations import logsigmoid
from dynograd.ops.elementwise.arithmetic import minimum
from dynograd.ops.elementwise.choices import choose, clamp_min
from dynograd.ops.elementwise.exponentials import sqrt
from dynograd.ops.index.indexing import get_advanced
from dynograd.ops.index.scatters import gathered
from dynograd.ops.layout.views import reshaped
from dynograd.ops.loss.losses import reduced, reduction_of, same_shape
from dynograd.ops.op import composed
from dynograd.ops.reduce.reductions import sum as sum_dims
from dynograd.ops.reduce.similarities import pairwise_distance
from dynograd.ops.row import Row

__all__ = [
    "cosine_embedding_loss",
    "hinge_embedding_loss",
    "margin_ranking_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]

FAMILY = Row(out=None, functional=True)


@composed(cast="wide", ragged="elements")
def hinge_embedding_loss(
    input: Any,
    target: Any,
    margin: float = 1.0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Array:
    """`input` where target is 1, max(0, margin - input) where it is -1, averaged.

    Args:
        input: distances.
        target: 1 or -1.
        margin: how far apart those of target -1 should be.
        size_average, reduce: the old form of `reduction`.
        reduction: "mean", "sum" or "none".
    Returns:
        A tensor without dims, or of the losses with `reduction="none"`.

    >>> dynograd.nn.functional.hinge_embedding_loss(tensor([0.25, 0.25]), tensor([1, -1]), reduction="none")
    tensor([0.2500, 0.7500])
    """
    reduction = reduction_of("hinge_embedding_loss", size_average, reduce, reduction)
    broadcast_shapes("hinge_embedding_loss", tuple(input.shape), tuple(target.shape))
    near = choose(target != -1, input, 0.0)
    far = choose(target != 1, clamp_min(-input + margin, 0.0), 0.0)
    return reduced(near + far, reduction)


@composed(cast="wide", ragged="tokens")
def cosine_embedding_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Array:
    """1 - cos where target is 1, max(0, cos - margin) where it is -1, averaged; cos of the angle between input1 and input2.

    Args:
        input1, input2 (N, D) or (D,).
        target (N,) or (): 1 or -1.
        margin: what the cosine of those of target -1 may be, from -1 to 1.
        size_average, reduce: the old form of `reduction`.
        reduction: "mean", "sum" or "none".
    Returns:
        A tensor without dims, or of the losses with `reduction="none"`.
    Raises:
        ShapeError: shapes that do not fit.

    >>> x = tensor([[1.0, 0.0], [1.0, 0.0]])
    >>> dynograd.nn.functional.cosine_embedding_loss(x, x, tensor([1, -1]), reduction="none")
    tensor([0., 1.])
    """
    who = "cosine_embedding_loss"
    reduction = reduction_of(who, size_average, reduce, reduction)
    rank = len(target.shape)
    if rank > 1 or len(input1.shape) != rank + 1 or len(input2.shape) != rank + 1:
        raise ShapeError(
            f"{who}: expects 1D target with 2D inputs, or 0D target with 1D inputs, got target {tuple(target.shape)}, input1 "
            f"{tuple(input1.shape)} and input2 {tuple(input2.shape)}."
        )
    products = sum_dims(input1 * input2, (rank,), False)
    lengths = [sum_dims(operand * operand, (rank,), False) + 1e-12 for operand in (input1, input2)]
    cosine = products / sqrt(lengths[0] * lengths[1])
    near = choose(target == 1, -cosine + 1, 0.0)
    far = choose(target == -1, clamp_min(cosine - margin, 0.0), 0.0)
    return reduced(near + far, reduction)


@composed(cast="wide", ragged="elements")
def margin_ranking_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Array:
    """max(0, -target * (input1 - input2) + margin), averaged: target 1 asks for a larger input1, -1 for a smaller one.

    Args:
        input1, input2: scores; they broadcast.
        target: 1 or -1.
        margin: how much larger the larger one should be.
        size_average, reduce: the old form of `reduction`.
        reduction: "mean", "sum" or "none".
    Returns:
        A tensor without dims, or of the losses with `reduction="none"`.
    Raises:
        ShapeError: the three differ in their number of dims.

    >>> dynograd.nn.functional.margin_ranking_loss(tensor([1.0]), tensor([3.0]), tensor([1.0]))
    tensor(2.)
    """
    who = "margin_ranking_loss"
    reduction = reduction_of(who, size_average, reduce, reduction)
    if not len(input1.shape) == len(input2.shape) == len(target.shape):
        raise ShapeError(
            f"{who}: All input tensors should have same dimension but got sizes: input1: {tuple(input1.shape)}, input2: "
            f"{tuple(input2.shape)}, target: {tuple(target.shape)}."
        )
    return reduced(clamp_min((input2 - input1) * target + margin, 0.0), reduction)


@composed(cast="wide", ragged="elements")
def soft_margin_loss(
    input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
) -> Array:
    """log(1 + exp(-target * input)), averaged; nothing overflows.

    Args:
        input: scores.
        target: 1 or -1.
        size_average, reduce: the old form of `reduction`.
        reduction: "mean", "sum" or "none".
    Returns:
        A tensor without dims, or of the losses with `reduction="none"`.

    >>> dynograd.nn.functional.soft_margin_loss(tensor([0.0]), tensor([1.0]))
    tensor(0.6931)
    """
    reduction = reduction_of("soft_margin_loss", size_average, reduce, reduction)
    check_fits("soft_margin_loss", "target", target, tuple(input.shape))
    return reduced(-logsigmoid(input * target), reduction)


@composed(ragged="tokens")
def multilabel_soft_margin_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Array:
    """The mean over classes of the binary cross-entropy of scores, averaged over examples.

    Args:
        input (N, C) or (C,): scores.
        target: 0 or 1, in the shape of `input`.
        weight (C,): a factor for each class.
        size_average, reduce: the old form of `reduction`.
        reduction: "mean", "sum" or "none".
    Returns:
        A tensor without dims, or of the losses with `reduction="none"`.

    >>> dynograd.nn.functional.multilabel_soft_margin_loss(tensor([[0.0, 0.0]]), tensor([[1.0, 0.0]]))
    tensor(0.6931)
    """
    who = "multilabel_soft_margin_loss"
    reduction = reduction_of(who, size_average, reduce, reduction)
    if not len(input.shape):
        raise ShapeError(f"{who}: expected an input (N, C) or (C,), got a 0-dim one.")
    broadcast_shapes(who, tuple(input.shape), tuple(target.shape))
    loss = -(logsigmoid(input) * target + logsigmoid(-input) * (1 - target))
    if weight is not None:
        loss = loss * weight
    last = len(input.shape) - 1
    return reduced(sum_dims(loss, (last,), False) / max(input.shape[last], 1), reduction)


@composed(cast="wide", ragged="tokens")
def multi_margin_loss(
    input: Any,
    target: Any,
    p: int = 1,
    margin: float = 1.0,
    weight: Any = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Array:
    """The sum over the other classes j of max(0, margin - input[target] + input[j])^p, divided by C, averaged.

    Args:
        input (N, C) or (C,): scores.
        target (N,) or (): class numbers.
        p: 1 or 2.
        margin: how much larger the score of the target should be.
        weight (C,): a factor for each target class.
        size_average, reduce: the old form of `reduction`.
        reduction: "mean", "sum" or "none".
    Returns:
        A tensor without dims, or of the losses with `reduction="none"`.
    Raises:
        IndexRangeError: a class number outside 0 to C - 1.

    >>> dynograd.nn.functional.multi_margin_loss(tensor([[1.0, 0.5, 0.0]]), tensor([0]))
    tensor(0.1667)
    """
    who = "multi_margin_loss"
    reduction = reduction_of(who, size_average, reduce, reduction)
    if p not in (1, 2):
        raise ValueError(f"{who}: only p == 1 and p == 2 supported, got {p}.")
    scores, labels = _rows(who, input, target, 0)
    classes = scores.shape[1]
    if weight is not None and tuple(weight.shape) != (classes,):
        raise ShapeError(
            f"{who}: weight must be one-dimensional of {classes} elements, got shape {tuple(weight.shape)}."
        )
    own = gathered(scores, 1, labels.reshape((-1, 1)))
    short = clamp_min(scores - own + margin, 0.0)
    if not has_own_values(labels):
        named = labels.reshape((-1, 1)) == arrays.from_python(list(range(classes)), None)
    else:
        named = kernel("masks", "class_mask", labels)(labels, classes)
    short = choose(named, 0.0, short * short if p == 2 else short)
    loss = sum_dims(short, (1,), False) / classes
    if weight is not None:
        loss = loss * get_advanced(weight, [labels], (0,))
    return reduced(loss if len(input.shape) == 2 else reshaped(loss, tuple(target.shape)), reduction)


@composed(cast="wide", ragged="tokens")
@read_values
def multilabel_margin_loss(
    input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
) -> Array:
    """The sum over named classes i and other classes j of max(0, 1 - input[i] + input[j]), divided by C, averaged.

    Args:
        input (N, C) or (C,): scores.
        target: class numbers in the shape of `input`, each row ended by -1.
        size_average, reduce: the old form of `reduction`.
        reduction: "mean", "sum" or "none".
    Returns:
        A tensor without dims, or of the losses with `reduction="none"`.
    Raises:
        IndexRangeError: a class number outside -1 to C - 1.

    >>> dynograd.nn.functional.multilabel_margin_loss(tensor([[0.5, 0.0]]), tensor([[0, -1]]))
    tensor(0.2500)
    """
    who = "multilabel_margin_loss"
    reduction = reduction_of(who, size_average, reduce, reduction)
    same_shape(who, input=input, target=target)
    scores, labels = _rows(who, input, target, -1)
    classes = scores.shape[1]
    labels = getattr(labels, "array", labels)
    named, places, other = kernel("masks", "multilabel_masks", labels)(labels)
    own = reshaped(gathered(scores, 1, places), (-1, classes, 1))
    short = clamp_min(reshaped(scores, (-1, 1, classes)) - own + 1.0, 0.0)
    pairs = named.reshape((-1, classes, 1)) & other.reshape((-1, 1, classes))
    loss = sum_dims(choose(pairs, short, 0.0), (1, 2), False) / max(classes, 1)
    return reduced(loss if len(input.shape) == 2 else reshaped(loss, ()), reduction)


def _rows(who: str, input: Any, target: Any, least: int) -> tuple[Any, Any]:
    """Scores (N, C) and the raw class numbers that belong to them, checked to be in `least` to C - 1."""
    labels, shape = getattr(target, "array", target), tuple(input.shape)
    alone = len(shape) < 2 and tuple(labels.shape) == (1,)
    if len(shape) > 2 or not (alone or tuple(labels.shape) in (shape, shape[:-1])):
        raise ShapeError(
            f"{who}: Expected (N, C) or (C,) input and a target that fits, got input {shape} and target {labels.shape}."
        )
    if labels.dtype.kind not in "iu":
        raise DtypeError(
            f"{who}: expected target of an integer dtype, got {dtypes.of_array(labels)}. Use target.long()."
        )
    classes = shape[-1] if shape else 1
    if not arrays.checked_later(labels, lambda known: _check_classes(who, known, least, classes, shape)):
        _check_classes(who, labels, least, classes, shape)
    if not has_own_values(target):
        labels = target
    if len(shape) == 2:
        return input, labels
    return reshaped(input, (1, classes)), labels.reshape((1, -1) if least < 0 else (-1,))


def _check_classes(who: str, labels: Any, least: int, classes: int, shape: tuple) -> None:
    values = arrays.all_values(labels)
    wrong = kernel("indexing", "out_of_range", values)(values, least, classes, who)
    if wrong is not None:
        raise IndexRangeError(
            f"{who}: target {wrong[0]} at position {list(wrong[1])} is out of range: input of shape {shape} has {classes} classes "
            f"({least} to {classes - 1})."
        )


@composed(cast="wide", ragged="tokens")
def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Array:
    """max(0, |anchor - positive| - |anchor - negative| + margin), averaged.

    Args:
        anchor, positive, negative: (N, D) or (D,), broadcast.
        margin: how much farther than the positive the negative should be; above 0.
        p: of the norm.
        eps: added to each difference.
        swap: take the distance of positive and negative where it is smaller than that of anchor and negative.
        size_average, reduce: the old form of `reduction`.
        reduction: "mean", "sum" or "none".
    Returns:
        A tensor without dims, or of the losses with `reduction="none"`.
    Raises:
        ValueError: a margin that is not positive.
    Source: Balntas et al., Learning shallow convolutional feature descriptors with triplet losses, 2016.

    >>> dynograd.nn.functional.triplet_margin_loss(tensor([[0.0]]), tensor([[1.0]]), tensor([[3.0]]), margin=3.0)
    tensor(1.)
    """
    reduction = reduction_of("triplet_margin_loss", size_average, reduce, reduction)

    def distance(first: Any, other: Any) -> Array:
        return pairwise_distance(first, other, p, eps)

    return _triplet("triplet_margin_loss", anchor, positive, negative, distance, margin, swap, reduction)


@composed(ragged="tokens")
def triplet_margin_with_distance_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    *,
    distance_function: Any = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Array:
    """`triplet_margin_loss` with any distance function of two tensors.

    Args:
        anchor, positive, negative: what `distance_function` takes.
        distance_function: of two tensors; `pairwise_distance` by default.
        margin: how much farther than the positive the negative should be; above 0.
        swap: take the distance of positive and negative where it is smaller than that of anchor and negative.
        reduction: "mean", "sum" or "none".
    Returns:
        A tensor without dims, or of the losses with `reduction="none"`.

    >>> one, two = tensor([[0.0, 1.0]]), tensor([[1.0, 0.0]])
    >>> dynograd.nn.functional.triplet_margin_with_distance_loss(one, one, two)
    tensor(0.)
    """
    who = "triplet_margin_with_distance_loss"
    reduction = reduction_of(who, None, None, reduction)
    return _triplet(who, anchor, positive, negative, distance_function or pairwise_distance, margin, swap, reduction)


def _triplet(
    who: str, anchor: Any, positive: Any, negative: Any, distance: Any, margin: float, swap: bool, reduction: str
) -> Array:
    if margin <= 0:
        raise ValueError(f"{who}: margin must be greater than 0, got {margin}.")
    if not len(anchor.shape) == len(positive.shape) == len(negative.shape):
        raise ShapeError(
            f"{who}: The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: anchor "
            f"{tuple(anchor.shape)}, positive {tuple(positive.shape)}, negative {tuple(negative.shape)}."
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = minimum(far, distance(positive, negative))
    return reduced(clamp_min(near - far + margin, 0.0), reduction)
