"""Batch norm folded into the convolution or linear layer before it, for evaluation."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from dynograd.autograd.modes import no_grad
from dynograd.nn.module import Module
from dynograd.nn.parameter import Parameter
from dynograd.tensor.creation import ones_like, zeros_like
from dynograd.tensor.tensor import Tensor

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]

M = TypeVar("M", bound=Module)


def fuse_conv_bn_eval(conv: M, bn: Module, transpose: bool = False) -> M:
    """A new convolution that computes `bn(conv(x))`; both must be in evaluation mode.

    Args:
        conv: a convolution.
        bn: the batch norm behind it.
        transpose: whether `conv` is a transposed convolution (of one group).
    Returns:
        a convolution like `conv`, with a bias.
    Raises:
        AssertionError: one of them is in training mode, or `bn` has no running statistics.

    >>> conv, bn = dynograd.nn.Conv1d(1, 2, 3).eval(), dynograd.nn.BatchNorm1d(2).eval()
    >>> x = dynograd.ones(1, 1, 5)
    >>> dynograd.allclose(dynograd.nn.utils.fuse_conv_bn_eval(conv, bn)(x), bn(conv(x)))
    True
    """
    fused = _copy("fuse_conv_bn_eval", conv, bn)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        conv.weight, conv.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused


def fuse_linear_bn_eval(linear: M, bn: Module) -> M:
    """A new Linear that computes `bn(linear(x))`; both must be in evaluation mode.

    Args:
        linear: a Linear.
        bn: the batch norm behind it, of as many features as `linear` gives, or of one.
    Returns:
        a Linear with a bias.
    Raises:
        AssertionError: one of them is in training mode, `bn` has no running statistics, or features that do not fit.

    >>> linear, bn = dynograd.nn.Linear(3, 2).eval(), dynograd.nn.BatchNorm1d(2).eval()
    >>> x = dynograd.ones(4, 3)
    >>> dynograd.allclose(dynograd.nn.utils.fuse_linear_bn_eval(linear, bn)(x), bn(linear(x)))
    True
    """
    fused = _copy("fuse_linear_bn_eval", linear, bn)
    if bn.num_features not in (linear.out_features, 1):
        raise AssertionError(
            f"fuse_linear_bn_eval: linear.out_features == bn.num_features or bn.num_features == 1 is needed, got {linear.out_features} and "
            f"{bn.num_features}."
        )
    fused.weight, fused.bias = fuse_linear_bn_weights(
        linear.weight, linear.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a convolution with a batch norm behind it.

    Args:
        conv_w (out, in, *), conv_b (out,): those of the convolution; the bias may be None.
        bn_rm, bn_rv (out,): running mean and variance.
        bn_eps: added to the variance.
        bn_w, bn_b (out,): scale and shift; None is 1 and 0.
        transpose: the weight is (in, out, *), of a transposed convolution.
    Returns:
        (weight, bias), Parameters.

    >>> w, zero, one = dynograd.ones(2, 1, 3), dynograd.zeros(2), dynograd.ones(2)
    >>> weight, bias = dynograd.nn.utils.fuse_conv_bn_weights(w, None, one, one, 0.0, 2 * one, zero)
    >>> weight[0, 0].detach(), bias.detach()
    (tensor([2., 2., 2.]), tensor([-2., -2.]))
    """
    with no_grad():
        bias = zeros_like(bn_rm) if conv_b is None else conv_b
        scale = (ones_like(bn_rm) if bn_w is None else bn_w) / (bn_rv + bn_eps).sqrt()
        shape = [1, -1] if transpose else [-1, 1]
        weight = conv_w * scale.reshape(shape + [1] * (conv_w.dim() - 2))
        shifted = (bias - bn_rm) * scale + (0 if bn_b is None else bn_b)
    kept = conv_w if conv_b is None else conv_b
    return (
        Parameter(weight.to(conv_w.dtype), conv_w.requires_grad),
        Parameter(shifted.to(kept.dtype), bias.requires_grad),
    )


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a Linear with a batch norm behind it.

    Args:
        linear_w (out, in), linear_b (out,): those of the Linear; the bias may be None.
        bn_rm, bn_rv (out,): running mean and variance.
        bn_eps: added to the variance.
        bn_w, bn_b (out,): scale and shift; None is 1 and 0.
    Returns:
        (weight, bias), Parameters.

    >>> w, zero, one = dynograd.ones(2, 3), dynograd.zeros(2), dynograd.ones(2)
    >>> weight, bias = dynograd.nn.utils.fuse_linear_bn_weights(w, None, one, one, 0.0, 2 * one, zero)
    >>> weight[0].detach(), bias.detach()
    (tensor([2., 2., 2.]), tensor([-2., -2.]))
    """
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def _copy(who: str, layer: Any, bn: Any) -> Any:
    if layer.training or bn.training:
        raise AssertionError(
            f"{who}: Fusion only for eval! Call eval() on {type(layer).__name__} and {type(bn).__name__} first."
        )
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError(
            f"{who}: bn.running_mean and bn.running_var must not be None: a norm without track_running_stats cannot be fused."
        )
    return copy.deepcopy(layer)
