"""The cross-entropy of a linear layer's scores, for many classes: the scores of all rows are never held at once.

Rows go through layer, loss and their gradients chunk by chunk. Where the loss is one number, its gradients are computed on the way
forward, while a chunk's scores are at hand; else the backward computes the scores again.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from dynograd import arrays
from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.base.shapes import check_whole
from dynograd.errors import DtypeError, ShapeError
from dynograd.kernels import kernel
from dynograd.ops.elementwise.choices import choose
from dynograd.ops.index.indexing import get_advanced, get_basic
from dynograd.ops.layout.joins import joined
from dynograd.ops.layout.views import permuted, reshaped
from dynograd.ops.loss.class_losses import _checked_labels, class_entropy_decomposition, cross_entropy
from dynograd.ops.loss.losses import reduction_of
from dynograd.ops.matmul.matmuls import linear, matmul
from dynograd.ops.op import Gradients, composed, op
from dynograd.ops.precisions import narrowed, widened
from dynograd.ops.reduce.reductions import sum as sum_dims

__all__ = ["linear_cross_entropy"]

_SCORES = 1 << 22  # so many of a chunk: 16 MiB stay in the cache of a large processor, and products are large enough


@dataclass(frozen=True)
class LinearCrossEntropyOptions:
    """PyTorch's options of `linear_cross_entropy`; here chunks are the rule, and only their size can be chosen.

    Args:
        batch_chunk_size: rows of a chunk; None: as many as make 4M scores.
        allow_retain_graph, chunking_method, acc_policy, acc_dtype: accepted for PyTorch's sake. A second backward always works, half
            types add up in float32.
    Raises:
        ValueError: `batch_chunk_size` is no int above 0.

    >>> dynograd.nn.LinearCrossEntropyOptions(batch_chunk_size=256).batch_chunk_size
    256
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: dtypes.dtype | None = None

    def __post_init__(self) -> None:
        size = self.batch_chunk_size
        if size is not None and (not isinstance(size, int) or size < 1):
            raise ValueError(f"LinearCrossEntropyOptions: batch_chunk_size must be positive int or None, got {size!r}.")


@op(name="linear_cross_entropy_in_chunks", extras="input_slope weight_slope bias_slope", cast="lower", inner=True)
def chunked_entropy(
    input: Array,
    linear_weight: Array,
    target: Array,
    linear_bias: Array | None,
    weight: Array | None,
    ignore_index: int,
    label_smoothing: float,
    reduction: str,
    chunk: int,
    with_gradients: bool,
) -> Array:
    """The "sum" of the cross-entropies of `linear(input, linear_weight, linear_bias)`, float32 for half types; or "none": each row's.

    `with_gradients`: computed with the sum, for the backward.
    """
    losses, slopes = _through_chunks(
        None, input, linear_weight, target, linear_bias, weight, ignore_index, label_smoothing, reduction, chunk,
        with_gradients,
    )  # fmt: skip
    if reduction == "none":
        return joined(losses, 0), *slopes
    total = None
    for loss in losses:
        total = _sum_of(total, sum_dims(widened(loss), None, False))
    return total, *slopes


@chunked_entropy.fast_backward
def chunked_entropy_fast_backward(
    g: Any, saved: Any, ignore_index: Any, label_smoothing: Any, reduction: Any, chunk: Any, with_gradients: Any
) -> Gradients:
    slopes: tuple[Any, ...] = saved.input_slope, saved.weight_slope, saved.bias_slope
    if with_gradients:
        slopes = tuple([None if slope is None else narrowed(slope * g, slope) for slope in slopes])
    else:
        operands = saved.input, saved.linear_weight, saved.target, saved.linear_bias, saved.weight
        slopes = _through_chunks(g, *operands, ignore_index, label_smoothing, reduction, chunk, True)[1]
    return slopes[0], slopes[1], None, slopes[2], None


@chunked_entropy.decomposition
def chunked_entropy_decomposition(
    input: Any,
    linear_weight: Any,
    target: Any,
    linear_bias: Any,
    weight: Any,
    ignore_index: int,
    label_smoothing: float,
    reduction: str,
    chunk: int,
    with_gradients: bool,
) -> Array:
    bias = None if linear_bias is None else widened(linear_bias)
    scores = linear(widened(input), widened(linear_weight), bias)
    loss = class_entropy_decomposition(scores, target, weight, ignore_index, label_smoothing, reduction)
    return narrowed(loss, input) if reduction == "none" else loss


def _through_chunks(
    g: Any, input: Any, linear_weight: Any, target: Any, linear_bias: Any, weight: Any, ignore_index: int,
    label_smoothing: float, reduction: str, chunk: int, with_gradients: bool,
) -> tuple[list[Any], tuple[Any, ...]]:  # fmt: skip
    """(losses of each chunk, gradients of input, linear_weight and linear_bias, or None) where the losses receive `g` (None: 1)."""
    forward, backward = (kernel("losses", f"cross_entropy_{way}", input) for way in ("forward", "backward"))
    options = weight, ignore_index, label_smoothing, "none"
    losses, input_slopes, weight_slope, bias_slope = [], [], None, None
    for start in range(0, input.shape[0], chunk):
        rows = (slice(start, start + chunk),)
        x, labels = get_basic(input, rows), get_basic(target, rows)
        scores = linear(x, linear_weight, linear_bias)
        loss, statistics, total, slope = forward(scores, labels, *options, with_gradients)
        losses.append(loss)
        if not with_gradients:
            continue
        if g is not None or slope is None:
            ones = arrays.ones_like(loss)
            own = ones if g is None else get_basic(g, rows) if reduction == "none" else ones * g
            slope = backward(own, scores, labels, statistics, total, *options, slope)
        input_slopes.append(matmul(slope, linear_weight))
        weight_slope = _sum_of(weight_slope, matmul(permuted(slope, (1, 0)), x))
        if linear_bias is not None:
            bias_slope = _sum_of(bias_slope, sum_dims(slope, (0,), False))
    if not with_gradients:
        return losses, (None, None, None)
    weight_slope = narrowed(weight_slope, linear_weight)
    bias_slope = None if linear_bias is None else narrowed(bias_slope, linear_bias)
    return losses, (joined(input_slopes, 0), weight_slope, bias_slope)


def _sum_of(total: Any, part: Any) -> Array:
    """Half types add up in float32."""
    part = widened(part)
    return part if total is None else total + part


@composed(functional=True)
def linear_cross_entropy(
    input: Any,
    linear_weight: Any,
    target: Any,
    *,
    linear_bias: Any = None,
    weight: Any = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: LinearCrossEntropyOptions | None = None,
) -> Array:
    """`cross_entropy(linear(input, linear_weight, linear_bias), target)` without holding the scores of all rows at once.

    Args:
        input (N, D) or (D,): what the layer takes.
        linear_weight (C, D) or (C, d1, ..., D): of the layer, for C classes (at each of d1, ... places).
        target: class numbers (N, d1, ...), or probabilities (N, C, d1, ...).
        linear_bias (C, d1, ...): of the layer.
        weight (C,): a factor for each class.
        reduction: "mean", "sum" or "none".
        ignore_index: targets of this number do not count; None is -100.
        label_smoothing: share of the target's probability that is spread evenly over all classes.
        options: the size of chunks.
    Returns:
        a scalar, or one loss for each target.
    Raises:
        ShapeError: arguments that do not fit each other.
        IndexRangeError: a class number outside 0 to C - 1.

    >>> x, w = dynograd.zeros(2, 3), dynograd.zeros(4, 3)
    >>> dynograd.nn.functional.linear_cross_entropy(x, w, tensor([0, 3]))
    tensor(1.3863)
    """
    who = "linear_cross_entropy"
    reduction = reduction_of(who, None, None, reduction)
    shape, wide = tuple(input.shape), tuple(linear_weight.shape)
    if len(shape) not in (1, 2):
        raise ShapeError(
            f"{who}: expected input with dimensionality 1 or 2, got shape {shape}. Use input.flatten(0, -2)."
        )
    if len(wide) < 2 or wide[-1] != shape[-1]:
        raise ShapeError(
            f"{who}: expected linear_weight (classes, ..., {shape[-1]}) for input of shape {shape}, got shape {wide}. Its last dim are the "
            f"input's features."
        )
    if linear_bias is not None and tuple(linear_bias.shape) != wide[:-1]:
        raise ShapeError(f"{who}: expected linear_bias shape {wide[:-1]}, got {tuple(linear_bias.shape)}.")
    if len(wide) > 2 and len(shape) == 1:
        raise ShapeError(
            f"{who}: linear_weight of shape {wide} (losses at several places) needs input (N, {shape[-1]}), got {shape}. Use unsqueeze(0)."
        )
    classes = wide[0]
    scores_shape = (*shape[:-1], *wide[:-1])
    probabilities = tuple(target.shape) == scores_shape
    if probabilities and ignore_index is not None:
        raise RuntimeError(
            f"{who}: ignore_index={ignore_index} cannot be specified when target contains probabilities. Leave it out."
        )
    if ignore_index is not None:
        check_whole(who, ignore_index=ignore_index)
    ignored = -100 if ignore_index is None else ignore_index
    size = options.batch_chunk_size if options is not None else None
    chunk = size or max(1, _SCORES // max(classes, 1))
    whole = probabilities or len(wide) > 2 or len(shape) == 1 or shape[0] <= chunk
    if whole or getattr(weight, "requires_grad", False):
        flat = len(wide) > 2
        matrix = reshaped(linear_weight, (prod(wide[:-1]), wide[-1])) if flat else linear_weight
        bias = reshaped(linear_bias, (prod(wide[:-1]),)) if flat and linear_bias is not None else linear_bias
        scores = linear(input, matrix, bias)
        scores = reshaped(scores, scores_shape) if flat else scores
        return cross_entropy(
            scores, target, weight, ignore_index=ignored, reduction=reduction, label_smoothing=label_smoothing
        )
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"{who}: label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}.")
    if weight is not None and tuple(weight.shape) != (classes,):
        raise ShapeError(
            f"{who}: expected weight shape to be ({classes},), one for each class, got {tuple(weight.shape)}."
        )
    if getattr(input, "array", input).dtype.kind in "iub":
        raise DtypeError(f"{who}: expected input of a floating dtype, got {input.dtype}. Use input.float().")
    labels = _checked_labels(who, scores_shape, target, getattr(target, "array", target), ignored)
    each = reduction == "none"
    loss = chunked_entropy(
        input, linear_weight, labels, linear_bias, weight, ignored, label_smoothing, "none" if each else "sum", chunk,
        not each and bool(getattr(input, "requires_grad", False)),
    )  # fmt: skip
    if reduction == "mean":
        loss = loss / _counted(labels, weight, ignored)
    sizes = [
        getattr(operand, "array", operand).dtype.itemsize for operand in (input, linear_weight)
    ]  # they differ in autocast
    return narrowed(loss, linear_weight if sizes[1] > sizes[0] else input)


def _counted(labels: Any, weight: Any, ignored: int) -> Array:
    """The sum of the weights of the labels that count."""
    counts = labels != ignored
    if weight is None:
        return counts.sum()
    factors = get_advanced(widened(weight), [choose(counts, labels, 0)], (0,))
    return sum_dims(choose(counts, factors, 0.0), None, False)
