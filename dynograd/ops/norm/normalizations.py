"""Normalization over features, groups of channels and neighbouring channels. Batch norm is in `batch_normalizations.py`.

Layer and RMS norm are fused ops with a `decomposition` for higher orders. Half types are normalised in float32.
"""

from __future__ import annotations

from math import prod
from typing import Any

from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.base.shapes import check_number
from dynograd.errors import ShapeError
from dynograd.kernels import kernel
from dynograd.ops.elementwise.arithmetic import pow
from dynograd.ops.elementwise.exponentials import sqrt
from dynograd.ops.image.poolings import average
from dynograd.ops.layout.paddings import pad_constant
from dynograd.ops.layout.views import reshaped
from dynograd.ops.op import Gradients, composed, op
from dynograd.ops.precisions import check_floating, narrowed, widened
from dynograd.ops.reduce.reductions import mean as mean_dims
from dynograd.ops.row import Row

__all__ = ["group_norm", "layer_norm", "local_response_norm", "rms_norm"]

FAMILY = Row(out=None, functional=True)


# --- over features -----------------------------------------------------------------------------------------------------------


@op(name="layer_norm", extras="mean rstd", cast={"cpu": "around", "cuda": "wide"}, uneven=True)
def layer_normalized(input: Array, weight: Array | None, bias: Array | None, rank: int, eps: float) -> Array:
    """`input` normalised over its last `rank` dims, scaled and shifted."""
    out, mean, rstd = kernel("normalizations", "layer_norm_forward", input)(input, rank, weight, bias, eps)
    return out, mean, rstd


@layer_normalized.fast_backward
def layer_normalized_fast_backward(g: Any, saved: Any, rank: Any, eps: Any) -> Gradients:
    backward = kernel("normalizations", "layer_norm_backward", g)
    return backward(g, saved.input, saved.mean, saved.rstd, saved.weight, rank)


@layer_normalized.decomposition
def layer_normalized_decomposition(input: Any, weight: Any, bias: Any, rank: int, eps: float) -> Array:
    dims = tuple(range(len(input.shape) - rank, len(input.shape)))
    wide = widened(input)
    centered = wide - mean_dims(wide, dims, True)
    out = centered / sqrt(mean_dims(centered * centered, dims, True) + eps)
    return narrowed(scaled(out, weight, bias), input)


@composed(covers="layer_norm")
def layer_norm(
    input: Any,
    normalized_shape: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Array:
    """`input` with mean 0 and variance 1 over its last dims, times `weight` plus `bias`.

    (input - mean) / sqrt(variance + eps), with the biased variance.

    Args:
        input (*, *normalized_shape): tensor.
        normalized_shape: the last sizes of `input`, over which each row is normalised.
        weight, bias: of `normalized_shape`.
        eps: added to the variance.
        cudnn_enable: accepted for PyTorch's sake.
    Returns:
        A tensor of the shape and dtype of `input`.
    Raises:
        ShapeError: `input` does not end in `normalized_shape`.
    Source: Ba et al., Layer normalization, 2016 (arXiv:1607.06450), equation 4.

    >>> dynograd.nn.functional.layer_norm(tensor([[1.0, 3.0]]), (2,))
    tensor([[-1.0000,  1.0000]])
    """
    rank = _check_normalized("layer_norm", input, normalized_shape, weight, bias)
    return layer_normalized(input, weight, bias, rank, eps)


@op(name="rms_norm", extras="scale", cast="around")
def root_normalized(input: Array, weight: Array | None, rank: int, eps: float) -> Array:
    """`input` over the root of its mean square along its last `rank` dims, scaled."""
    return kernel("rms_norms", "rms_norm_forward", input)(input, rank, weight, eps)


@root_normalized.fast_backward
def root_normalized_fast_backward(g: Any, saved: Any, rank: Any, eps: Any) -> Gradients:
    return kernel("rms_norms", "rms_norm_backward", g)(g, saved.input, saved.weight, saved.scale, rank)


@root_normalized.decomposition
def root_normalized_decomposition(input: Any, weight: Any, rank: int, eps: float) -> Array:
    dims = tuple(range(len(input.shape) - rank, len(input.shape)))
    wide = widened(input)
    out = wide / sqrt(mean_dims(wide * wide, dims, True) + eps)
    return narrowed(scaled(out, weight, None), input)


@composed(covers="rms_norm")
def rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Array:
    """`input` divided by the root of its mean square over its last dims, times `weight`.

    Args:
        input (*, *normalized_shape): tensor.
        normalized_shape: the last sizes of `input`, over which each row is normalised.
        weight: of `normalized_shape`.
        eps: added to the mean square; the machine epsilon of the dtype when left out.
    Returns:
        A tensor of the shape and dtype of `input`.
    Raises:
        ShapeError: `input` does not end in `normalized_shape`.
    Source: Zhang and Sennrich, Root mean square layer normalization, 2019 (arXiv:1910.07467), equation 4.

    >>> dynograd.nn.functional.rms_norm(tensor([[3.0, 4.0]]), (2,))
    tensor([[0.8485, 1.1314]])
    """
    rank = _check_normalized("rms_norm", input, normalized_shape, weight, None)
    if eps is None:
        kind = dtypes.of_array(getattr(input, "array", input))
        eps = dtypes.finfo(dtypes.float32 if kind.itemsize == 2 else kind).eps
    if getattr(input, "array", input).dtype.kind == "c":  # by the mean of squares, not of squared sizes, as in PyTorch
        return root_normalized_decomposition(input, weight, rank, eps)
    return root_normalized(input, weight, rank, eps)


def _check_normalized(who: str, input: Any, normalized_shape: Any, weight: Any, bias: Any) -> int:
    """How many last dims are normalised."""
    sizes = tuple(normalized_shape) if isinstance(normalized_shape, (tuple, list)) else (normalized_shape,)
    rank, shape = len(sizes), tuple(input.shape)
    if not sizes:
        raise ShapeError(
            f"{who}: Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, got ()."
        )
    if shape[len(shape) - rank :] != sizes or rank > len(shape):
        raise ShapeError(
            f"{who}: Given normalized_shape={list(sizes)}, expected input with shape [*, {', '.join(map(str, sizes))}], but got input of "
            f"size {list(shape)}. Transpose input, or build the layer for {list(shape[max(0, len(shape) - rank) :])}."
        )
    for name, parameter in (("weight", weight), ("bias", bias)):
        if parameter is not None and tuple(parameter.shape) != sizes:
            raise ShapeError(
                f"{who}: Expected {name} to be of same shape as normalized_shape, but got {name} of shape {list(parameter.shape)} and "
                f"normalized_shape = {list(sizes)}."
            )
    check_floating(who, input)
    return rank


# --- over groups and neighbours ------------------------------------------------------------------------------------------------


@op(name="group_norm", extras="mean rstd", cast={"cpu": "around", "cuda": "wide"})
def group_normalized(input: Array, weight: Array | None, bias: Array | None, groups: int, eps: float) -> Array:
    """Each group of channels of each example of `input` (N, C, *) normalised, scaled and shifted per channel."""
    out, mean, rstd = kernel("normalizations", "group_norm_forward", input)(input, groups, weight, bias, eps)
    return out, mean, rstd


@group_normalized.fast_backward
def group_normalized_fast_backward(g: Any, saved: Any, groups: Any, eps: Any) -> Gradients:
    backward = kernel("normalizations", "group_norm_backward", g)
    return backward(g, saved.input, saved.mean, saved.rstd, saved.weight, groups)


@group_normalized.decomposition
def group_normalized_decomposition(input: Any, weight: Any, bias: Any, groups: int, eps: float) -> Array:
    shape = tuple(input.shape)
    rows = reshaped(input, (shape[0] * groups, prod(shape[1:]) // max(groups, 1)))
    out = layer_normalized_decomposition(rows, None, None, 1, eps)
    return by_channel(reshaped(out, shape), weight, bias)


@composed(covers="group_norm")
def group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Array:
    """Each group of channels of each example with mean 0 and variance 1, times `weight` plus `bias`.

    Args:
        input (N, C, *).
        num_groups: divides C.
        weight, bias (C,).
        eps: added to the variance.
    Returns:
        A tensor of the shape and dtype of `input`.
    Raises:
        ShapeError: C is not divisible by `num_groups`.
        ValueError: one example with one value in each group.
    Source: Wu and He, Group normalization, 2018 (arXiv:1803.08494).

    >>> dynograd.nn.functional.group_norm(tensor([[1.0, 3.0, 10.0, 30.0]]), 2)
    tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """
    who = "group_norm"
    shape = tuple(input.shape)
    if len(shape) < 2:
        raise ShapeError(
            f"{who}: Expected at least 2 dimensions for input tensor but received {len(shape)} (shape {shape})."
        )
    if num_groups <= 0 or shape[1] % num_groups:
        raise ShapeError(
            f"{who}: Expected number of channels in input to be divisible by num_groups, but got input of shape {list(shape)} and "
            f"num_groups={num_groups}."
        )
    check_channels(who, shape, weight=weight, bias=bias)
    check_floating(who, input)
    check_number(who, "eps", eps)
    if 0 in shape:
        return by_channel(input, weight, bias)
    if shape[0] * prod(shape[1:]) == num_groups:
        raise ValueError(
            f"{who}: Expected more than 1 value per channel when training, got input size {list(shape)} and num_groups={num_groups}. Use "
            f"fewer groups, or more examples: one value alone is its own mean."
        )
    return group_normalized(input, weight, bias, num_groups, eps)


@composed(ragged="groups")
def local_response_norm(input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Array:
    """input / (k + alpha * mean of the squares of `size` neighbouring channels)^beta.

    Args:
        input (N, C, *): at least 3 dims.
        size: channels in a window, which reaches size // 2 channels back.
        alpha, beta, k: numbers of the formula.
    Returns:
        A tensor of the shape and dtype of `input`.
    Raises:
        ShapeError: fewer than 3 dims.
    Source: Krizhevsky et al., ImageNet classification with deep convolutional neural networks, 2012, section 3.3.

    >>> dynograd.nn.functional.local_response_norm(tensor([[[2.0], [0.0]]]), 2, alpha=1.0, beta=1.0)
    tensor([[[0.6667],
             [0.0000]]])
    """
    shape = tuple(input.shape)
    if len(shape) < 3:
        raise ShapeError(
            f"local_response_norm: Expected 3D or higher dimensionality input (got {len(shape)} dimensions): shape {shape}. Use unsqueeze."
        )
    if 0 in shape:
        return input
    squares = reshaped(input * input, (shape[0], shape[1], prod(shape[2:])))
    squares = pad_constant(squares, ((0, 0), (size // 2, (size - 1) // 2), (0, 0)), 0.0)
    means = average(squares, ((size, 1), (1, 1), (0, 0), False, True, None))
    return input / pow(reshaped(means, shape) * alpha + k, beta)


# --- what they share ---------------------------------------------------------------------------------------------------------


def check_channels(who: str, shape: tuple[int, ...], **parameters: Any) -> None:
    for name, parameter in parameters.items():
        if parameter is not None and tuple(parameter.shape) != (shape[1],):
            raise ShapeError(
                f"{who}: {name} should contain {shape[1]} elements not {prod(parameter.shape)}: input has {shape[1]} channels (shape "
                f"{shape}), {name} has shape {tuple(parameter.shape)}."
            )


def scaled(out: Any, weight: Any, bias: Any) -> Array:
    if weight is not None:
        out = out * weight
    return out if bias is None else out + bias


def by_channel(out: Any, weight: Any, bias: Any) -> Array:
    """`out` (N, C, *) times and plus a number for each channel."""
    shape = (-1, *(1,) * (len(out.shape) - 2))
    weight = None if weight is None else reshaped(weight, shape)
    bias = None if bias is None else reshaped(bias, shape)
    return narrowed(scaled(out, weight, bias), out)
