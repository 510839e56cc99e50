"""`native_layer_norm`, `native_group_norm` and `native_batch_norm`: normalised values with the means and inverse deviations used."""

from __future__ import annotations

from math import prod
from typing import Any

from dynograd.arrays import Array
from dynograd.errors import ShapeError
from dynograd.ops.elementwise.exponentials import rsqrt
from dynograd.ops.layout.views import reshaped
from dynograd.ops.norm.batch_normalizations import batch_norm
from dynograd.ops.norm.normalizations import group_norm, layer_norm
from dynograd.ops.op import composed
from dynograd.ops.reduce.deviations import var
from dynograd.ops.reduce.reductions import mean

__all__ = ["native_batch_norm", "native_group_norm", "native_layer_norm"]


@composed(out=None)
def native_layer_norm(input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float) -> tuple[Array, ...]:
    """(`layer_norm` of `input`, means, 1 / root of variance + eps), the last two with dims of size 1 in place of the normalised ones.

    Args:
        input (*, *normalized_shape): tensor.
        normalized_shape: the last sizes of `input`.
        weight, bias: of `normalized_shape`, or None.
        eps: added to the variance.
    Returns:
        Three tensors.

    >>> out, mean, rstd = dynograd.native_layer_norm(tensor([[1.0, 3.0]]), (2,), None, None, 0.0)
    >>> mean, rstd
    (tensor([[2.]]), tensor([[1.]]))
    """
    out = layer_norm(input, normalized_shape, weight, bias, eps)
    rank = len(input.shape) - len(tuple(normalized_shape))
    return (out, *_statistics(input, tuple(range(rank, len(input.shape))), True, eps))


@composed(out=None)
def native_group_norm(
    input: Any, weight: Any, bias: Any, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Array, ...]:
    """(`group_norm` of `input` (N, C, *), means (N, group), 1 / root of variance + eps (N, group)).

    Args:
        input (N, C, *): tensor.
        weight, bias (C,): or None.
        N, C, HxW: the sizes of `input`; HxW is the product of the last ones.
        group: number of groups, a divisor of C.
        eps: added to the variance.
    Returns:
        Three tensors.

    >>> out, mean, rstd = dynograd.native_group_norm(tensor([[[1.0, 3.0]]]), None, None, 1, 1, 2, 1, 0.0)
    >>> mean, rstd
    (tensor([[2.]]), tensor([[1.]]))
    """
    shape = tuple(input.shape)
    if not all([isinstance(number, int) for number in (N, C, HxW, group)]):
        raise TypeError(
            f"native_group_norm: N, C, HxW and group must be ints, got {N!r}, {C!r}, {HxW!r} and {group!r}."
        )
    if prod(shape) != N * C * HxW or shape[:2] != (N, C):
        raise ShapeError(
            f"native_group_norm: Expected input.numel() to be N * C * HxW with input of shape (N, C, *), got shape {shape}, N={N}, C={C} and "
            f"HxW={HxW}."
        )
    out = group_norm(input, group, weight, bias, eps)
    return (out, *_statistics(reshaped(input, (N, group, -1) if N * group else (N, group, 0)), (2,), False, eps))


@composed()
def native_batch_norm(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: float, eps: float
) -> tuple[Array, ...]:
    """(`batch_norm` of `input` (N, C, *), means (C,), 1 / root of variance + eps (C,)); the last two are empty when not training.

    Args:
        input (N, C, *): tensor.
        weight, bias (C,): or None.
        running_mean, running_var (C,): as in `nn.functional.batch_norm`.
        training: normalise with the batch's own statistics.
        momentum: how far the running statistics move.
        eps: added to the variance.
    Returns:
        Three tensors.

    >>> out, mean, rstd = dynograd.native_batch_norm(tensor([[1.0], [3.0]]), None, None, None, None, True, 0.1, 0.0)
    >>> mean, rstd
    (tensor([2.]), tensor([1.]))
    """
    out = batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    if not training:
        nothing = reshaped(out.detach(), (-1,))[:0]
        return out, nothing, nothing
    return (out, *_statistics(input, (0, *range(2, len(input.shape))), False, eps))


def _statistics(input: Any, dims: tuple[int, ...], keepdim: bool, eps: float) -> tuple[Any, Any]:
    return mean(input, dims, keepdim), rsqrt(var(input, dims, correction=0, keepdim=keepdim) + eps)
