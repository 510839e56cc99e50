"""Dropout: of elements, of whole channels, and the variants for self-normalising networks.

A mask is a place in the stream of the default generator, so backward computes it again instead of being told which elements were
dropped, and gradients of every order see the same mask.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

from dynograd import arrays
from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.base.random_streams import default_generator, drawn, takers
from dynograd.base.shapes import check_tensor
from dynograd.base.values import differs_by_example
from dynograd.errors import ShapeError, user_level
from dynograd.kernels import kernel
from dynograd.ops.op import Gradients, composed, op
from dynograd.ops.row import Row

__all__ = [
    "alpha_dropout",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "dropout_add",
    "feature_alpha_dropout",
]

FAMILY = Row(out=None, functional=True)

# What SELU tends to far left: -scale * alpha.
_SELU_FLOOR = -1.7580993408473766


@op(name="dropout", linear=True, extras="mask", by_row="key")
def masked(input: Array, mask_shape: tuple[int, ...], p: float, key: tuple[int, int]) -> Array:
    """`input` times a mask that is 0 with probability p and 1 / (1 - p) otherwise; `key` is its place in the stream."""
    if mask_shape == input.shape and kernel("dropouts", "in_one_pass", input)(input):
        return kernel("dropouts", "dropout_forward", input)(*key, input, p)
    mask = kernel("random", "dropout_mask", arrays.device_of(input))(*key, mask_shape, p, input.dtype)
    result = kernel("elementwise", "mul", input)(input, mask)
    order = arrays.order_of(input) if mask_shape == input.shape else None
    if order is not None and arrays.order_of(result) != order:  # the mask's, which lies row by row
        result = arrays.turned(arrays.copy(result.transpose(order)), order)
    return result, mask


@masked.backward
def masked_backward(g: Any, saved: Any, mask_shape: Any, p: Any, key: Any) -> Gradients:
    return (masked_again(g, mask_shape, p, key),)


@masked.fast_backward
def masked_fast_backward(g: Any, saved: Any, mask_shape: Any, p: Any, key: Any) -> Gradients:
    if saved.mask.dtype.char == "B":  # which elements stay, not what they are multiplied with
        return (kernel("dropouts", "dropout_backward", g)(g, saved.mask, p),)
    return (kernel("elementwise", "mul", g)(g, saved.mask),)


@op(name="dropout_again", linear=True, functional=False, by_row="key")
def masked_again(input: Array, mask_shape: tuple[int, ...], p: float, key: tuple[int, int]) -> Array:
    """`input` times a mask that was drawn before: what backward calls, also where a forward would draw anew."""
    mask = kernel("random", "dropout_mask", arrays.device_of(input))(*key, mask_shape, p, input.dtype)
    return kernel("elementwise", "mul", input)(input, mask)


@masked_again.backward
def masked_again_backward(g: Any, saved: Any, mask_shape: Any, p: Any, key: Any) -> Gradients:
    return (masked_again(g, mask_shape, p, key),)


@op(name="dropout_add", extras="mask", by_row="key")
def masked_sum(input: Array, residual: Array, p: float, key: tuple[int, int]) -> Array:
    """`residual` plus `input` times a mask, of one shape; float32, row by row in memory."""
    return kernel("dropouts", "dropout_add_forward", input)(*key, input, residual, p)


@masked_sum.fast_backward
def masked_sum_fast_backward(g: Any, saved: Any, p: Any, key: Any) -> Gradients:
    return (kernel("dropouts", "dropout_backward", g)(g, saved.mask, p), g)


@masked_sum.decomposition
def masked_sum_decomposition(input: Any, residual: Any, p: float, key: tuple[int, int]) -> Array:
    return residual + masked(input, tuple(input.shape), p, key)


@composed(covers="dropout")
def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Array:
    """Zeroes elements with probability `p` and scales the others by 1 / (1 - p), so that the mean stays.

    Args:
        input: tensor of any shape.
        p: probability, from 0 to 1.
        training: False passes `input` through.
        inplace: write the result into `input`.
    Returns:
        A tensor of the shape and dtype of `input`.
    Raises:
        ValueError: `p` is not a probability.
    Source: Hinton et al., Improving neural networks by preventing co-adaptation of feature detectors, 2012 (arXiv:1207.0580).

    >>> dynograd.nn.functional.dropout(tensor([1.0, 2.0]), 0.5, training=False)
    tensor([1., 2.])
    """
    _check_probability("dropout", p)
    return _dropped(input, tuple(input.shape), p, training, inplace)


@composed(covers="dropout_add")
def dropout_add(input: Any, residual: Any, p: float = 0.5, training: bool = True) -> Array:
    """`residual + dropout(input, p, training)` in one pass over memory, with the same mask.

    Args:
        input, residual: of one shape (others broadcast, as with +).
        p: probability of dropping an element of `input`.
        training: False adds `input` as it is.
    Returns:
        A tensor of the broadcast shape.
    Raises:
        ValueError: `p` is not a probability.

    >>> dynograd.nn.functional.dropout_add(tensor([1.0, 2.0]), tensor([3.0, 4.0]), 1.0)
    tensor([3., 4.])
    """
    _check_probability("dropout_add", p)
    shape = tuple(input.shape)
    if p == 0 or not training or 0 in shape:
        return residual + input
    if _is_batch(input) or _is_batch(residual):  # values that are not there yet
        return residual + _dropped(input, shape, p, training, False)
    x, r = getattr(input, "array", input), getattr(residual, "array", residual)
    ready = kernel("dropouts", "in_one_pass", x)
    if getattr(r, "shape", None) == x.shape and r.dtype == x.dtype and ready(x) and ready(r):
        return masked_sum(input, residual, p, _key("dropout_mask", shape))
    return residual + _dropped(input, shape, p, training, False)


@composed()
def dropout1d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Array:
    """Zeroes whole channels of (N, C, L) or (C, L) with probability `p` and scales the others by 1 / (1 - p).

    Args:
        input (N, C, L) or (C, L): signals.
        p: probability, from 0 to 1.
        training: False passes `input` through.
        inplace: write the result into `input`.
    Returns:
        A tensor of the shape and dtype of `input`.
    Raises:
        ShapeError: `input` is neither 2-D nor 3-D.

    >>> dynograd.nn.functional.dropout1d(dynograd.ones(1, 2, 3), 1.0).sum()
    tensor(0.)
    """
    _check_probability("dropout1d", p)
    rank = len(input.shape)
    if rank not in (2, 3):
        raise ShapeError(
            f"dropout1d: Expected 2D or 3D input, but received a {rank}D input: shape {tuple(input.shape)}. Note that dropout1d exists "
            f"to drop whole channels; for elements use dropout."
        )
    return _dropped(input, _channels(input, rank == 3), p, training, inplace)


@composed()
def dropout2d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Array:
    """Zeroes whole channels of (N, C, H, W) with probability `p` and scales the others by 1 / (1 - p).

    The first two dims are always taken for batch and channel, as in PyTorch: (N, C, L) works too, and (C, H, W) does not.

    Args:
        input (N, C, H, W): images.
        p: probability, from 0 to 1.
        training: False passes `input` through.
        inplace: write the result into `input`.
    Returns:
        A tensor of the shape and dtype of `input`.
    Source: Tompson et al., Efficient object localization using convolutional networks, 2015 (arXiv:1411.4280).

    >>> dynograd.nn.functional.dropout2d(dynograd.ones(1, 2, 2, 2), 1.0).sum()
    tensor(0.)
    """
    _check_probability("dropout2d", p)
    _warn_rank("dropout2d", input, (3, 4))
    if len(input.shape) == 3:
        warnings.warn(
            "dropout2d: Received a 3-D input to dropout2d and assuming that channel-wise 1D dropout behavior is desired: (N, C, L). Use "
            "dropout1d for that, and input.unsqueeze(0) for (C, H, W).",
            UserWarning,
            stacklevel=user_level(),
        )
    return _dropped(input, _channels(input, True), p, training, inplace)


@composed()
def dropout3d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Array:
    """Zeroes whole channels of (N, C, D, H, W) or (C, D, H, W) with probability `p` and scales the others by 1 / (1 - p).

    Args:
        input (N, C, D, H, W) or (C, D, H, W): volumes.
        p: probability, from 0 to 1.
        training: False passes `input` through.
        inplace: write the result into `input`.
    Returns:
        A tensor of the shape and dtype of `input`.

    >>> dynograd.nn.functional.dropout3d(dynograd.ones(2, 1, 1, 2), 1.0).sum()
    tensor(0.)
    """
    _check_probability("dropout3d", p)
    _warn_rank("dropout3d", input, (4, 5))
    return _dropped(input, _channels(input, len(input.shape) != 4), p, training, inplace)


@composed()
def alpha_dropout(input: Any, p: float = 0.5, training: bool = False, inplace: bool = False) -> Array:
    """Dropout for SELU networks: dropped elements become SELU's floor, and the result keeps mean 0 and variance 1.

    Args:
        input: tensor of any shape.
        p: probability, from 0 to 1.
        training: False passes `input` through.
        inplace: write the result into `input`.
    Returns:
        A tensor of the shape and dtype of `input`.
    Source: Klambauer et al., Self-normalizing neural networks, 2017 (arXiv:1706.02515).

    >>> dynograd.nn.functional.alpha_dropout(tensor([1.0, 2.0]), 0.5)
    tensor([1., 2.])
    """
    _check_probability("alpha_dropout", p)
    return _alpha_dropped(input, tuple(input.shape), p, training, inplace)


@composed()
def feature_alpha_dropout(input: Any, p: float = 0.5, training: bool = False, inplace: bool = False) -> Array:
    """`alpha_dropout` of whole channels of (N, C, ...).

    Args:
        input (N, C, ...): tensor with channels.
        p: probability, from 0 to 1.
        training: False passes `input` through.
        inplace: write the result into `input`.
    Returns:
        A tensor of the shape and dtype of `input`.

    >>> dynograd.nn.functional.feature_alpha_dropout(tensor([[1.0], [2.0]]), 1.0, training=True)
    tensor([[0.],
            [0.]])
    """
    check_tensor("feature_alpha_dropout", "input", input)
    _check_probability("feature_alpha_dropout", p)
    if not training:
        return input
    if len(input.shape) < 2:
        raise ShapeError(
            f"feature_alpha_dropout: expected an input of at least 2 dims (N, C, ...), got shape {tuple(input.shape)}. Use alpha_dropout."
        )
    return _alpha_dropped(input, _channels(input, True), p, training, inplace)


def _dropped(input: Any, mask_shape: tuple[int, ...], p: float, training: bool, inplace: bool) -> Array:
    if p == 0 or not training or 0 in mask_shape:
        return input
    drop = _drop_inplace if inplace else _drop
    if takers and not _is_batch(input):  # inside `vmap` each example may have a mask of its own
        drop = drawn(drop)
    return drop(input, mask_shape, p)


def _drop(input: Any, mask_shape: tuple[int, ...], p: float) -> Array:
    return masked(input, mask_shape, p, _key("dropout_mask", mask_shape))


def _drop_inplace(input: Any, mask_shape: tuple[int, ...], p: float) -> Array:
    key = _key("dropout_mask", mask_shape)
    if _is_batch(input):
        return input.copy_(masked(input, mask_shape, p, key))
    array = getattr(input, "array", input)
    return input.mul_(kernel("random", "dropout_mask", arrays.device_of(array))(*key, mask_shape, p, array.dtype))


_drop.__name__, _drop_inplace.__name__ = "dropout", "dropout_"


def _alpha_dropped(input: Any, mask_shape: tuple[int, ...], p: float, training: bool, inplace: bool) -> Array:
    if p == 0 or not training or 0 in mask_shape:
        return input
    if p == 1:
        return input.mul_(0) if inplace else input * 0
    drop = _alpha_drop_inplace if inplace else _alpha_drop
    if takers and not _is_batch(input):
        drop = drawn(drop)
    return drop(input, mask_shape, p)


def _alpha_drop(input: Any, mask_shape: tuple[int, ...], p: float) -> Array:
    factor, summand = _alpha_parts(input, mask_shape, p)
    return input * factor + summand


def _alpha_drop_inplace(input: Any, mask_shape: tuple[int, ...], p: float) -> Array:
    factor, summand = _alpha_parts(input, mask_shape, p)
    return input.mul_(factor).add_(summand)


_alpha_drop.__name__, _alpha_drop_inplace.__name__ = "alpha_dropout", "alpha_dropout_"


def _alpha_parts(input: Any, mask_shape: tuple[int, ...], p: float) -> tuple[Any, Any]:
    """What to multiply with, and what to add then."""
    array = getattr(input, "array", input)
    if _is_batch(input):
        dropped = 1 - masked(input.detach() * 0 + 1, mask_shape, p, _key("dropout_mask", mask_shape)) * (1 - p)
    else:
        dropped = kernel("random", "bernoulli", arrays.device_of(array))(
            *_key("bernoulli", mask_shape), p, mask_shape, array.dtype
        )
    a = 1 / math.sqrt((_SELU_FLOOR**2 * p + 1) * (1 - p))
    factor, summand = (1 - dropped) * a, (dropped - p) * (a * _SELU_FLOOR)
    if not _is_batch(input):
        kind = dtypes.of_array(array)
        factor, summand = arrays.cast(factor, kind), arrays.cast(summand, kind)
    return factor, summand


def _is_batch(input: Any) -> bool:
    """Whether masks may have to differ from example to example: the op for dropout knows."""
    return differs_by_example(input)


def _key(kind: str, shape: tuple[int, ...]) -> tuple[int, int]:
    return default_generator.key(kernel("random", "blocks_needed", 0)(kind, math.prod(shape)))


def _channels(input: Any, batched: bool) -> tuple[int, ...]:
    """The shape of a mask with one number for each channel."""
    lead = 2 if batched else 1
    return (*input.shape[:lead], *(1,) * (len(input.shape) - lead))


def _check_probability(who: str, p: Any) -> None:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"{who}: dropout probability has to be between 0 and 1, but got {p}.")


def _warn_rank(who: str, input: Any, ranks: tuple[int, int]) -> None:
    rank = len(input.shape)
    if rank < 2:
        raise ShapeError(
            f"{who}: expected an input of at least 2 dims (N, C, ...), got shape {tuple(input.shape)}. Use dropout."
        )
    if rank not in ranks:
        warnings.warn(
            f"{who}: Received a {rank}-D input to {who}, which is deprecated. To retain the behavior and silence this warning, please "
            f"use dropout instead. Note that {who} exists to drop whole channels.",
            UserWarning,
            stacklevel=user_level(),
        )
