"""Normalization: over features, over the batch, over groups of channels, by a norm.

Layer and batch norm are fused ops with a `decomposition` for higher orders; the others are made of them. Half types are
normalised in float32.
"""

from __future__ import annotations

from math import prod
from typing import Any

from dynograd import dtypes
from dynograd.arrays import Array
from dynograd.errors import DtypeError, ShapeError
from dynograd.kernels import kernel
from dynograd.ops.arithmetic import pow
from dynograd.ops.broadcasting import convert
from dynograd.ops.exponentials import sqrt
from dynograd.ops.op import composed, op
from dynograd.ops.paddings import pad_constant
from dynograd.ops.poolings import average
from dynograd.ops.reductions import mean_dims
from dynograd.ops.views import reshaped

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "local_response_norm", "rms_norm"]


# --- over features -----------------------------------------------------------------------------------------------------------


@op(name="layer_norm", extras="mean rstd")
def layer_normalized(input: Array, weight: Array | None, bias: Array | None, rank: int, eps: float) -> Array:
    """`input` normalised over its last `rank` dims, scaled and shifted."""
    out, mean, rstd = kernel("normalizations", "layer_norm_forward", input)(input, rank, weight, bias, eps)
    return out, mean, rstd


@layer_normalized.fast_backward
def layer_normalized_fast_backward(g: Any, saved: Any, rank: Any, eps: Any) -> Any:
    backward = kernel("normalizations", "layer_norm_backward", g)
    return backward(g, saved.input, saved.mean, saved.rstd, saved.weight, rank)


@layer_normalized.decomposition
def layer_normalized_decomposition(input: Any, weight: Any, bias: Any, rank: int, eps: float) -> Any:
    dims = tuple(range(len(input.shape) - rank, len(input.shape)))
    wide = _widened(input)
    centered = wide - mean_dims(wide, dims, True)
    out = centered / sqrt(mean_dims(centered * centered, dims, True) + eps)
    return _narrowed(_scaled(out, weight, bias), input)


@composed(covers="layer_norm")
def layer_norm(
    input: Any,
    normalized_shape: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Any:
    """`input` with mean 0 and variance 1 over its last dims, times `weight` plus `bias`.

    (input - mean) / sqrt(variance + eps), with the biased variance.

    Args:
        normalized_shape: the last sizes of `input`, over which each row is normalised.
        weight, bias: of `normalized_shape`.
        cudnn_enable: accepted for PyTorch's sake.
    Raises:
        ShapeError: `input` does not end in `normalized_shape`.

    Source: Ba et al., Layer normalization, 2016 (arXiv:1607.06450), equation 4.

    >>> dynograd.nn.functional.layer_norm(tensor([[1.0, 3.0]]), (2,))
    tensor([[-1.0000,  1.0000]])
    """
    rank = _check_normalized("layer_norm", input, normalized_shape, weight, bias)
    return layer_normalized(input, weight, bias, rank, eps)


@composed()
def rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    """`input` divided by the root of its mean square over its last dims, times `weight`.

    Args:
        normalized_shape: the last sizes of `input`, over which each row is normalised.
        weight: of `normalized_shape`.
        eps: added to the mean square; the machine epsilon of the dtype when left out.
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
    dims = tuple(range(len(input.shape) - rank, len(input.shape)))
    wide = _widened(input)
    out = wide / sqrt(mean_dims(wide * wide, dims, True) + eps)
    return _narrowed(_scaled(out, weight, None), input)


def _check_normalized(who: str, input: Any, normalized_shape: Any, weight: Any, bias: Any) -> int:
    """How many last dims are normalised."""
    wanted = tuple(normalized_shape) if isinstance(normalized_shape, (tuple, list)) else (normalized_shape,)
    rank, shape = len(wanted), tuple(input.shape)
    if not wanted:
        raise ShapeError(
            f"{who}: Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, got ()."
        )
    if shape[len(shape) - rank :] != wanted or rank > len(shape):
        raise ShapeError(
            f"{who}: Given normalized_shape={list(wanted)}, expected input with shape [*, {', '.join(map(str, wanted))}], but got input of "
            f"size {list(shape)}. Transpose input, or build the layer for {list(shape[max(0, len(shape) - rank) :])}."
        )
    for name, parameter in (("weight", weight), ("bias", bias)):
        if parameter is not None and tuple(parameter.shape) != wanted:
            raise ShapeError(
                f"{who}: Expected {name} to be of same shape as normalized_shape, but got {name} of shape {list(parameter.shape)} and "
                f"normalized_shape = {list(wanted)}."
            )
    _check_floating(who, input)
    return rank


# --- over the batch ----------------------------------------------------------------------------------------------------------


@op(name="batch_norm", outputs="output mean variance", extras="batch_mean rstd")
def batch_normalized(
    input: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    training: bool,
    eps: float,
) -> Array:
    """(N, C, *) normalised per channel, and the batch's mean and unbiased variance, which carry no gradient."""
    forward = kernel("normalizations", "batch_norm_forward", input)
    out, mean, rstd, variance = forward(input, weight, bias, running_mean, running_var, training, 0.0, eps)
    return (out, mean, variance), mean, rstd


@batch_normalized.fast_backward
def batch_normalized_fast_backward(g: Any, saved: Any, training: Any, eps: Any) -> Any:
    backward = kernel("normalizations", "batch_norm_backward", g[0])
    found = backward(g[0], saved.input, saved.weight, saved.batch_mean, saved.rstd, training)
    return (*found, None, None)


@batch_normalized.decomposition
def batch_normalized_decomposition(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, eps: float
) -> Any:
    shape = (1, -1, *(1,) * (len(input.shape) - 2))
    wide = _widened(input)
    dims = (0, *range(2, len(input.shape)))
    count = prod(input.shape) // max(input.shape[1], 1)
    mean = mean_dims(wide, dims, True) if training else reshaped(_widened(running_mean), shape)
    centered = wide - mean
    variance = mean_dims(centered * centered, dims, True) if training else reshaped(_widened(running_var), shape)
    out = _scaled(
        centered / sqrt(variance + eps),
        None if weight is None else reshaped(weight, shape),
        None if bias is None else reshaped(bias, shape),
    )
    flat = (input.shape[1],)
    spread = count / max(count - 1, 1) if training else 1.0
    return _narrowed(out, input), reshaped(mean, flat), reshaped(variance * spread, flat)


@composed(covers="batch_norm")
def batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Each channel with mean 0 and variance 1, times `weight` plus `bias`.

    Args:
        input (N, C, *).
        running_mean, running_var (C,): what normalises when not training; while training they move towards the batch's mean and
            unbiased variance, in place. None: not kept.
        weight, bias (C,).
        training: normalise by the batch's own mean and biased variance.
        momentum: share of the batch in the new running statistics.
    Raises:
        ValueError: training with one value for each channel.
        ShapeError: a parameter that has not C elements.

    Source: Ioffe and Szegedy, Batch normalization, 2015 (arXiv:1502.03167), algorithm 1.

    >>> dynograd.nn.functional.batch_norm(tensor([[1.0], [3.0]]), None, None, training=True)
    tensor([[-1.0000],
            [ 1.0000]])
    """
    who = "batch_norm"
    shape = tuple(input.shape)
    if len(shape) < 2:
        raise ShapeError(
            f"{who}: expected an input of at least 2 dims (N, C, ...), got shape {shape}. Use unsqueeze(0)."
        )
    _check_channels(who, shape, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    _check_floating(who, input)
    if training:
        if prod(shape) == shape[1]:
            raise ValueError(
                f"{who}: Expected more than 1 value per channel when training, got input size {list(shape)}. Use a larger batch, or eval()."
            )
    elif running_mean is None or running_var is None:
        raise RuntimeError(
            f"{who}: Expected running_mean and running_var to be defined when training=False. Pass training=True to use the batch's."
        )
    if not training:
        return _by_running(input, weight, bias, running_mean, running_var, eps)
    out, mean, variance = batch_normalized(input, weight, bias, None, None, True, eps)
    _move(running_mean, mean, momentum)
    _move(running_var, variance, momentum)
    return out


@composed()
def instance_norm(
    input: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Each channel of each example with mean 0 and variance 1, times `weight` plus `bias`.

    Args:
        input (N, C, *).
        running_mean, running_var (C,): what normalises without `use_input_stats`; otherwise they move, in place, towards the
            examples' mean statistics. None: not kept.
        weight, bias (C,).
        use_input_stats: normalise each example by its own statistics.
    Raises:
        ValueError: one value for each channel.

    Source: Ulyanov et al., Instance normalization, 2016 (arXiv:1607.08022).

    >>> dynograd.nn.functional.instance_norm(tensor([[[1.0, 3.0]]]))
    tensor([[[-1.0000,  1.0000]]])
    """
    who = "instance_norm"
    shape = tuple(input.shape)
    if len(shape) < 3:
        raise ShapeError(
            f"{who}: expected an input of at least 3 dims (N, C, ...), got shape {shape}. Use unsqueeze(0)."
        )
    _check_channels(who, shape, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    _check_floating(who, input)
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise RuntimeError(
                f"{who}: Expected running_mean and running_var to be defined when use_input_stats=False."
            )
        return _by_running(input, weight, bias, running_mean, running_var, eps)
    if prod(shape[2:]) == 1:
        raise ValueError(
            f"{who}: Expected more than 1 spatial element when training, got input size {list(shape)}. Statistics of one value are no help."
        )
    examples = reshaped(input, (1, shape[0] * shape[1], *shape[2:]))
    out, mean, variance = batch_normalized(examples, None, None, None, None, True, eps)
    _move(running_mean, mean, momentum, shape[:2])
    _move(running_var, variance, momentum, shape[:2])
    return _by_channel(reshaped(out, shape), weight, bias)


def _by_running(input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, eps: float) -> Any:
    """Normalised by given statistics; through other ops where somebody wants their gradient."""
    wanted = getattr(running_mean, "requires_grad", False) or getattr(running_var, "requires_grad", False)
    normalize = batch_normalized_decomposition if wanted else batch_normalized
    return normalize(input, weight, bias, running_mean, running_var, False, eps)[0]


def _move(running: Any, batch: Any, momentum: float, per_example: Any = None) -> None:
    """Moves running statistics towards the batch's, in place and without history."""
    if running is None:
        return
    batch = batch.detach()
    if per_example is not None:
        batch = mean_dims(reshaped(batch, per_example), (0,), False)
    running.mul_(1 - momentum).add_(convert(batch, running.dtype) * momentum)


def _check_channels(who: str, shape: tuple[int, ...], **parameters: Any) -> None:
    for name, parameter in parameters.items():
        if parameter is not None and tuple(parameter.shape) != (shape[1],):
            raise ShapeError(
                f"{who}: {name} should contain {shape[1]} elements not {prod(parameter.shape)}: input has {shape[1]} channels (shape "
                f"{shape}), {name} has shape {tuple(parameter.shape)}."
            )


# --- over groups and neighbours ------------------------------------------------------------------------------------------------


@composed()
def group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Each group of channels of each example with mean 0 and variance 1, times `weight` plus `bias`.

    Args:
        input (N, C, *).
        num_groups: divides C.
        weight, bias (C,).
    Raises:
        ShapeError: C is not divisible by `num_groups`.

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
    _check_channels(who, shape, weight=weight, bias=bias)
    _check_floating(who, input)
    if 0 in shape:
        return _by_channel(input, weight, bias)
    groups = reshaped(input, (shape[0] * num_groups, prod(shape[1:]) // num_groups))
    return _by_channel(reshaped(layer_normalized(groups, None, None, 1, eps), shape), weight, bias)


@composed()
def local_response_norm(input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Any:
    """input / (k + alpha * mean of the squares of `size` neighbouring channels)^beta.

    Args:
        input (N, C, *): at least 3 dims.
        size: channels in a window, which reaches size // 2 channels back.
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


def _widened(input: Any) -> Any:
    return convert(input, dtypes.float32) if getattr(input, "array", input).dtype.itemsize == 2 else input


def _narrowed(out: Any, input: Any) -> Any:
    kind = dtypes.of_array(getattr(input, "array", input))
    return out if getattr(out, "array", out).dtype.num == kind.num else convert(out, kind)


def _scaled(out: Any, weight: Any, bias: Any) -> Any:
    if weight is not None:
        out = out * weight
    return out if bias is None else out + bias


def _by_channel(out: Any, weight: Any, bias: Any) -> Any:
    """`out` (N, C, *) times and plus a number for each channel."""
    shape = (-1, *(1,) * (len(out.shape) - 2))
    scaled = _scaled(
        out, None if weight is None else reshaped(weight, shape), None if bias is None else reshaped(bias, shape)
    )
    return _narrowed(scaled, out)


def _check_floating(who: str, input: Any) -> None:
    array = getattr(input, "array", input)
    if array.dtype.kind in "iub":
        raise DtypeError(
            f"{who}: not implemented for {dtypes.of_array(array)}: expected a floating dtype. Use input.float()."
        )
