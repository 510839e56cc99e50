"""Normalization over the batch, or over each example: the norms that keep running statistics.

Batch norm is a fused op with a `decomposition` for higher orders; instance norm is batch norm of examples taken for channels.
"""

from __future__ import annotations

from math import prod
from typing import Any

from dynograd.arrays import Array
from dynograd.base.shapes import check_number
from dynograd.errors import ShapeError
from dynograd.kernels import kernel
from dynograd.ops.elementwise.exponentials import sqrt
from dynograd.ops.layout.views import reshaped
from dynograd.ops.norm.normalizations import by_channel, check_channels, group_normalized, scaled
from dynograd.ops.op import Gradients, composed, op
from dynograd.ops.precisions import check_floating, narrowed, widened
from dynograd.ops.reduce.reductions import mean as mean_dims
from dynograd.ops.row import Row

__all__ = ["batch_norm", "instance_norm"]

FAMILY = Row(out=None)


@op(
    name="batch_norm",
    outputs="output mean variance",
    extras="batch_mean rstd",
    functional=True,
    cast="around",
    inner=True,
)
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
def batch_normalized_fast_backward(g: Any, saved: Any, training: Any, eps: Any) -> Gradients:
    backward = kernel("normalizations", "batch_norm_backward", g[0])
    result = backward(g[0], saved.input, saved.weight, saved.batch_mean, saved.rstd, training)
    return (*result, None, None)


@batch_normalized.decomposition
def batch_normalized_decomposition(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, eps: float
) -> tuple[Array, Array, Array]:
    shape = (1, -1, *(1,) * (len(input.shape) - 2))
    wide = widened(input)
    dims = (0, *range(2, len(input.shape)))
    count = prod(input.shape) // max(input.shape[1], 1)
    mean = mean_dims(wide, dims, True) if training else reshaped(widened(running_mean), shape)
    centered = wide - mean
    variance = mean_dims(centered * centered, dims, True) if training else reshaped(widened(running_var), shape)
    out = scaled(
        centered / sqrt(variance + eps),
        None if weight is None else reshaped(weight, shape),
        None if bias is None else reshaped(bias, shape),
    )
    flat = (input.shape[1],)
    spread = count / max(count - 1, 1) if training else 1.0
    return narrowed(out, input), reshaped(mean, flat), reshaped(variance * spread, flat)


@op(name="moved_statistics", differentiable=False, inner=True)
def moved_statistics(input: Array, batch: Array, momentum: float) -> Array:
    """Running statistics `input`, moved towards the batch's by the share `momentum`."""
    return kernel("normalizations", "moved_statistics", input)(input, batch, momentum)


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
) -> Array:
    """Each channel with mean 0 and variance 1, times `weight` plus `bias`.

    Args:
        input (N, C, *).
        running_mean, running_var (C,): what normalises when not training; while training they move towards the batch's mean and
            unbiased variance, in place. None: not kept.
        weight, bias (C,).
        training: normalise by the batch's own mean and biased variance.
        momentum: how far the running statistics move, from 0 to 1.
        eps: added to the variance.
    Returns:
        A tensor of the shape and dtype of `input`.
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
    if shape == (0,):  # there is nothing to normalize
        check_channels(who, (0, 0), running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
        return input * 1
    if len(shape) < 2:
        raise ShapeError(
            f"{who}: expected an input of at least 2 dims (N, C, ...), got shape {shape}. Use unsqueeze(0)."
        )
    check_channels(who, shape, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    check_floating(who, input)
    _check_running(who, running_mean, running_var)
    if training:
        if shape[0] * prod(shape[2:]) == 1:
            raise ValueError(
                f"{who}: Expected more than 1 value per channel when training, got input size {list(shape)}. Use a larger batch, or eval()."
            )
    elif running_mean is None or running_var is None:
        raise RuntimeError(
            f"{who}: Expected running_mean and running_var to be defined when training=False. Pass training=True to use the batch's."
        )
    check_number(who, "momentum", momentum)
    if not training:
        return _by_running(input, weight, bias, running_mean, running_var, eps)
    out, mean, variance = batch_normalized(input, weight, bias, None, None, True, eps)
    if prod(shape):  # an empty batch teaches nothing
        _move(momentum, (running_mean, mean), (running_var, variance))
    return out


@composed(functional=True)
def instance_norm(
    input: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Array:
    """Each channel of each example with mean 0 and variance 1, times `weight` plus `bias`.

    Args:
        input (N, C, *).
        running_mean, running_var (C,): what normalises without `use_input_stats`; otherwise they move, in place, towards the
            examples' mean statistics. None: not kept.
        weight, bias (C,).
        use_input_stats: normalise each example by its own statistics.
        momentum: how far the running statistics move, from 0 to 1.
        eps: added to the variance.
    Returns:
        A tensor of the shape and dtype of `input`.
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
    check_channels(who, shape, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    check_floating(who, input)
    _check_running(who, running_mean, running_var)
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
    if running_mean is None and running_var is None:
        return (
            group_normalized(input, weight, bias, shape[1], eps) if 0 not in shape else by_channel(input, weight, bias)
        )
    examples = reshaped(input, (1, shape[0] * shape[1], *shape[2:]))
    out, mean, variance = batch_normalized(examples, None, None, None, None, True, eps)
    if running_mean is not None:
        mean, variance = [mean_dims(reshaped(batch.detach(), shape[:2]), (0,), False) for batch in (mean, variance)]
    _move(momentum, (running_mean, mean), (running_var, variance))
    return by_channel(reshaped(out, shape), weight, bias)


def _check_running(who: str, mean: Any, var: Any) -> None:
    if (mean is None) is not (var is None):
        operands, missing = ("running_var", "running_mean") if mean is None else ("running_mean", "running_var")
        raise ValueError(
            f"{who}: running_mean and running_var must either both be None or neither be None, got {operands} without {missing}."
        )


def _by_running(input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, eps: float) -> Array:
    """Normalised by given statistics; through other ops where somebody wants their gradient."""
    with_gradient = getattr(running_mean, "requires_grad", False) or getattr(running_var, "requires_grad", False)
    normalize = batch_normalized_decomposition if with_gradient else batch_normalized
    return normalize(input, weight, bias, running_mean, running_var, False, eps)[0]


def _move(momentum: float, *statistics: tuple[Any, Any]) -> None:
    """Moves running statistics towards the batch's, in place and without history; all are computed before the first is written."""
    moved = [
        (running, moved_statistics(_without_history(running), batch.detach(), momentum))
        for running, batch in statistics
        if running is not None
    ]
    for running, values in moved:
        running.copy_(values)


def _without_history(running: Array) -> Array:
    return running.detach() if running.requires_grad else running
