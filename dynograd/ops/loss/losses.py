"""Losses of predicted values against wanted ones, and how every loss is reduced. Losses of classes are in `class_losses.py`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from dynograd import arrays
from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.base.shapes import broadcast_shapes, check_tensor
from dynograd.base.values import has_values
from dynograd.errors import DtypeError, ShapeError, user_level
from dynograd.kernels import kernel
from dynograd.ops.elementwise.arithmetic import abs, square
from dynograd.ops.elementwise.choices import choose
from dynograd.ops.elementwise.exponentials import exp, log
from dynograd.ops.layout.broadcasting import convert
from dynograd.ops.layout.views import reshaped
from dynograd.ops.op import Gradients, composed, op
from dynograd.ops.reduce.reductions import mean as mean_dims
from dynograd.ops.reduce.reductions import sum as sum_dims
from dynograd.ops.row import Row

__all__ = ["gaussian_nll_loss", "huber_loss", "kl_div", "l1_loss", "mse_loss", "poisson_nll_loss", "smooth_l1_loss"]

FAMILY = Row(out=None)


# --- in one pass ---------------------------------------------------------------------------------------------------------------


def in_one_pass(name: str, losses: Any, summary: str) -> Callable[..., Any]:
    """An op that gives the sum or mean of a loss without an array of losses; `losses(input, target, parameter)` by other ops."""

    def forward(input: Array, target: Array, parameter: float, reduction: str) -> Array:
        return kernel("paired_losses", "loss_forward", input)(name, input, target, parameter, reduction)

    def backward(g: Any, saved: Any, parameter: Any, reduction: Any) -> Gradients:
        run = kernel("paired_losses", "loss_backward", saved.input)
        return (run(name, g, saved.input, saved.target, parameter, reduction), None)

    def decomposition(input: Any, target: Any, parameter: float, reduction: str) -> Array:
        return reduced(losses(input, target, parameter), reduction)

    forward.__doc__ = summary
    forward.__module__ = losses.__module__
    result = op(name=f"{name}_in_one_pass")(forward)
    result.fast_backward(backward)
    result.decomposition(decomposition)

    def loss(input: Any, target: Any, parameter: float, reduction: str) -> Array:
        """The reduced losses, in one pass where that is possible."""
        if reduction != "none" and not getattr(target, "requires_grad", False):
            x, t = getattr(input, "array", input), getattr(target, "array", target)
            if kernel("paired_losses", "pays", x)(x, t):
                return result(input, target, parameter, reduction)
        return decomposition(input, target, parameter, reduction)

    return loss


def _near_or_far(input: Any, target: Any, beta: float) -> Array:
    distance = abs(input - target)
    return choose(distance < beta, distance * distance * (0.5 / beta), distance - 0.5 * beta)


def _huber(input: Any, target: Any, delta: float) -> Array:
    distance = abs(input - target)
    return choose(distance < delta, distance * distance * 0.5, (distance - 0.5 * delta) * delta)


_squares = in_one_pass("mse", lambda input, target, _: square(input - target), "The reduced squares.")
_distances = in_one_pass("l1", lambda input, target, _: abs(input - target), "The reduced distances.")
_smooth = in_one_pass("smooth_l1", _near_or_far, "The reduced distances, squared below the parameter.")
_huber_losses = in_one_pass("huber", _huber, "The reduced squares, distances beyond the parameter.")


@composed(functional=True, cast="wide", ragged="elements")
def mse_loss(
    input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean", weight: Any = None
) -> Array:
    """(input - target)^2, averaged.

    Args:
        input, target: of one shape (others broadcast, with a warning).
        size_average, reduce: the old form of `reduction`.
        reduction: "mean", "sum" or "none".
        weight: in the shape of `input`; the mean then divides by its sum.
    Returns:
        A tensor without dims, or of the losses with `reduction="none"`.

    >>> dynograd.nn.functional.mse_loss(tensor([1.0, 2.0]), tensor([0.0, 0.0]))
    tensor(2.5000)
    """
    reduction = reduction_of("mse_loss", size_average, reduce, reduction)
    _compare_sizes("mse_loss", input, target)
    input, target = _as_numbers(input, target), _as_numbers(target, input)
    if weight is None:
        return _squares(input, target, 0.0, reduction)
    return _weighted("mse_loss", square(input - target), input, weight, reduction)


@composed(functional=True, cast="wide", ragged="elements")
def l1_loss(
    input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean", weight: Any = None
) -> Array:
    """|input - target|, averaged. Gradient 0 where they are equal.

    Args:
        input, target: of one shape (others broadcast, with a warning).
        size_average, reduce: the old form of `reduction`.
        reduction: "mean", "sum" or "none".
        weight: in the shape of `input`; the mean then divides by its sum.
    Returns:
        A tensor without dims, or of the losses with `reduction="none"`.

    >>> dynograd.nn.functional.l1_loss(tensor([1.0, -2.0]), tensor([0.0, 0.0]))
    tensor(1.5000)
    """
    reduction = reduction_of("l1_loss", size_average, reduce, reduction)
    _compare_sizes("l1_loss", input, target)
    if weight is None:
        return _distances(input, target, 0.0, reduction)
    return _weighted("l1_loss", abs(input - target), input, weight, reduction)


@composed(functional=True, cast="wide", ragged="elements")
def smooth_l1_loss(
    input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean", beta: float = 1.0
) -> Array:
    """d^2 / (2 beta) below beta, d - beta / 2 above, of d = |input - target|, averaged.

    Args:
        input, target: of one shape (others broadcast, with a warning).
        size_average, reduce: the old form of `reduction`.
        reduction: "mean", "sum" or "none".
        beta: where the parabola turns into a line; 0 gives `l1_loss`.
    Returns:
        A tensor without dims, or of the losses with `reduction="none"`.
    Raises:
        RuntimeError: a negative beta.
    Source: Girshick, Fast R-CNN, 2015 (arXiv:1504.08083), equation 3.

    >>> dynograd.nn.functional.smooth_l1_loss(tensor([0.5, 3.0]), tensor([0.0, 0.0]), reduction="none")
    tensor([0.1250, 2.5000])
    """
    reduction = reduction_of("smooth_l1_loss", size_average, reduce, reduction)
    _compare_sizes("smooth_l1_loss", input, target)
    input, target = _as_numbers(input, target), _as_numbers(target, input)
    if beta < 0:
        raise RuntimeError(f"smooth_l1_loss: smooth_l1_loss does not support negative values for beta, got {beta}.")
    if beta == 0:
        return _distances(input, target, 0.0, reduction)
    return _smooth(input, target, float(beta), reduction)


@composed(functional=True, cast="wide", ragged="elements")
def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0, weight: Any = None) -> Array:
    """d^2 / 2 below delta, delta (d - delta / 2) above, of d = |input - target|, averaged.

    Args:
        input, target: of one shape (others broadcast, with a warning).
        reduction: "mean", "sum" or "none".
        delta: where the parabola turns into a line.
        weight: in the shape of `input`, a factor of each loss.
    Returns:
        A tensor without dims, or of the losses with `reduction="none"`.
    Raises:
        RuntimeError: delta is not positive.
    Source: Huber, Robust estimation of a location parameter, 1964.

    >>> dynograd.nn.functional.huber_loss(tensor([0.5, 3.0]), tensor([0.0, 0.0]), reduction="none", delta=2.0)
    tensor([0.1250, 4.0000])
    """
    reduction = reduction_of("huber_loss", None, None, reduction)
    _compare_sizes("huber_loss", input, target)
    input, target = _as_numbers(input, target), _as_numbers(target, input)
    if delta <= 0:
        raise RuntimeError(f"huber_loss: huber_loss does not support non-positive values for delta, got {delta}.")
    if weight is None:
        result = _huber_losses(input, target, float(delta), reduction)
    else:
        _check_weight("huber_loss", weight, input)
        result = reduced(_huber(input, target, delta) * weight, reduction)
    kind = dtypes.BY_NUM[getattr(input, "array", input).dtype.num]
    return convert(result, kind) if kind.is_floating_point and result.dtype != input.dtype else result


@composed(functional=True, cast="wide", ragged="elements")
def kl_div(
    input: Any,
    target: Any,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Array:
    """target * (log(target) - input): the Kullback-Leibler divergence of `target` from exp(input). 0 where target is 0.

    Args:
        input: log-probabilities.
        target: probabilities, or log-probabilities with `log_target`.
        size_average, reduce: the old form of `reduction`.
        reduction: "batchmean" (the sum over dim 0's size, the mathematical value), "mean" (over all elements), "sum" or "none".
        log_target: `target` holds logarithms.
    Returns:
        A tensor without dims, or of the losses with `reduction="none"`.

    >>> dynograd.nn.functional.kl_div(tensor([[0.5, 0.5]]).log(), tensor([[0.0, 1.0]]), reduction="batchmean")
    tensor(0.6931)
    """
    for name, operands in (("input", input), ("target", target)):
        if (kind := dtypes.of_array(getattr(operands, "array", operands))).category != dtypes.FLOATING:
            raise DtypeError(
                f"kl_div: expected log-probabilities and probabilities of floating dtypes, got {name} of {kind}. Use {name}.float()."
            )
    if reduction == "batchmean" and size_average is None and reduce is None:
        total = _reduced_divergence(input, target, log_target, "sum")
        return total / input.shape[0] if len(input.shape) else total
    reduction = reduction_of("kl_div", size_average, reduce, reduction)
    if reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size. 'batchmean' divides only by the "
            "batch size, and aligns with the KL div math definition. 'mean' will be changed to behave the same as 'batchmean' in the "
            "next major release.",
            UserWarning,
            stacklevel=user_level(),
        )
    return _reduced_divergence(input, target, log_target, reduction)


def _reduced_divergence(input: Any, target: Any, log_target: bool, reduction: str) -> Array:
    return (_divergence_of_logarithms if log_target else _divergence)(input, target, 0.0, reduction)


def _entropy(target: Any) -> Array:
    """target * log(target), 0 at 0, NaN below."""
    zero = target == 0
    return choose(zero, target * 0, target * log(choose(zero, 1.0, target)))


_divergence = in_one_pass(
    "kl_div", lambda input, target, _: _entropy(target) - target * input, "The reduced divergences."
)
_divergence_of_logarithms = in_one_pass(
    "kl_div_of_logarithms",
    lambda input, target, _: exp(target) * (target - input),
    "The reduced divergences of logarithms.",
)


@composed(functional=True, cast="wide", ragged="elements")
def poisson_nll_loss(
    input: Any,
    target: Any,
    log_input: bool = True,
    full: bool = False,
    size_average: Any = None,
    eps: float = 1e-8,
    reduce: Any = None,
    reduction: str = "mean",
) -> Array:
    """The negative log-likelihood of counts under Poisson distributions: exp(input) - target * input, averaged.

    Args:
        input: logarithm of the rate; or the rate, with `log_input=False` (then input - target * log(input + eps)).
        target: counts.
        log_input: whether `input` is a logarithm.
        full: add Stirling's approximation of log(target!) where target > 1.
        size_average, reduce: the old form of `reduction`.
        eps: added to a rate before its logarithm is taken.
        reduction: "mean", "sum" or "none".
    Returns:
        A tensor without dims, or of the losses with `reduction="none"`.

    >>> dynograd.nn.functional.poisson_nll_loss(tensor([0.0]), tensor([2.0]))
    tensor(1.)
    """
    reduction = reduction_of("poisson_nll_loss", size_average, reduce, reduction)
    check_tensor("poisson_nll_loss", "target", target)
    loss = exp(input) - target * input if log_input else input - target * log(input + eps)
    if full:
        large = target > 1
        counts = choose(large, target, 1.0)
        stirling = counts * log(counts) - counts + 0.5 * log(counts * (2 * math.pi))
        loss = loss + choose(large, stirling, stirling * 0)
    return reduced(loss, reduction)


@composed(functional=True, ragged="elements")
def gaussian_nll_loss(
    input: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Array:
    """The negative log-likelihood under normal distributions: (log(var) + (input - target)^2 / var) / 2, averaged.

    Args:
        input: the means.
        target: in the shape of `input`.
        var: the variances: a number, or in the shape of `input`, which may lack its last dim or have one dim of size 1 instead.
            Those below `eps` count as `eps`, without a change of gradients.
        full: add log(2 pi) / 2.
        eps: the smallest variance.
        reduction: "mean", "sum" or "none".
    Returns:
        A tensor without dims, or of the losses with `reduction="none"`.
    Raises:
        ValueError: a negative variance, or one that does not fit `input`.
    Source: Nix and Weigend, Estimating the mean and variance of the target probability distribution, 1994.

    >>> dynograd.nn.functional.gaussian_nll_loss(tensor([1.0]), tensor([0.0]), tensor([1.0]))
    tensor(0.5000)
    """
    reduction = reduction_of("gaussian_nll_loss", None, None, reduction)
    if isinstance(var, (int, float)):
        if var < 0:
            raise ValueError(f"gaussian_nll_loss: var has negative entry/entries: {var}.")
        logarithm, inverse = math.log(max(var, eps)), 1 / max(var, eps)
        loss = (square(input - target) * inverse + logarithm) * 0.5
    else:
        var = _spread_variance(input, var)
        values = arrays.all_values(getattr(var, "array", var))
        if (values < 0).any():
            raise ValueError(f"gaussian_nll_loss: var has negative entry/entries: the smallest is {values.min()}.")
        if (values < eps).any():
            if not has_values(var):
                values = var.detach()
            lift = choose(values < eps, eps - values, 0.0)
            var = var + (
                lift if values is not getattr(var, "array", var) else arrays.cast(lift, dtypes.of_array(values))
            )
        loss = (log(var) + square(input - target) / var) * 0.5
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduced(loss, reduction)


def _spread_variance(input: Any, var: Any) -> Array:
    shape, own = tuple(input.shape), tuple(var.shape)
    if own == shape:
        return var
    if own == shape[:-1]:
        return reshaped(var, (*own, 1))
    if (
        len(own) == len(shape)
        and sum([1 for size, other in zip(shape, own, strict=True) if size != other and other == 1]) == 1
    ):
        if broadcast_shapes("gaussian_nll_loss", shape, own) == shape:
            return var
    raise ShapeError(
        f"gaussian_nll_loss: var is of incorrect size: {own} for input {shape}. Expected the shape of input, that without its last dim, "
        f"or with one dim of size 1."
    )


# --- what all losses share ---------------------------------------------------------------------------------------------------


def reduced(loss: Any, reduction: str) -> Array:
    """The mean, the sum, or the losses themselves."""
    if reduction == "mean":
        return mean_dims(loss, None, False)
    return sum_dims(loss, None, False) if reduction == "sum" else loss


def reduction_of(who: str, size_average: Any, reduce: Any, reduction: str) -> str:
    """The one word that PyTorch's old pair of switches and its `reduction` stand for."""
    if size_average is not None or reduce is not None:
        if reduce is False:
            return "none"
        return "sum" if size_average is False else "mean"
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{who}: {reduction} is not a valid value for reduction: expected 'mean', 'sum' or 'none'.")
    return reduction


def same_shape(who: str, **named: Any) -> None:
    """Raises unless all the given tensors have one shape."""
    shapes = {name: tuple(value.shape) for name, value in named.items()}
    if len(set(shapes.values())) > 1:
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ShapeError(
            f"{who}: expected tensors of one size, got {listed}. Reshape one of them (unsqueeze, squeeze or reshape)."
        )


def _compare_sizes(who: str, input: Any, target: Any) -> None:
    if input.shape != target.shape:
        broadcast_shapes(who, tuple(input.shape), tuple(target.shape))
        warnings.warn(
            f"{who}: Using a target size ({tuple(target.shape)}) that is different to the input size ({tuple(input.shape)}). This will "
            f"likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
            UserWarning,
            stacklevel=user_level(),
        )


def _as_numbers(operand: Any, other: Any) -> Array:
    """`operand`; truth values beside numbers become numbers of their dtype, whose differences there are."""
    array, beside = getattr(operand, "array", operand), getattr(other, "array", other)
    if array.dtype.kind != "b" or beside.dtype.kind == "b":
        return operand
    return convert(operand, dtypes.BY_NUM[beside.dtype.num])


def _check_weight(who: str, weight: Any, input: Any) -> None:
    if tuple(weight.shape) != tuple(input.shape):
        raise ShapeError(
            f"{who}: Weights and input must have the same size, got {tuple(weight.shape)} and {tuple(input.shape)}."
        )


def _weighted(who: str, loss: Any, input: Any, weight: Any, reduction: str) -> Array:
    if weight is None:
        return reduced(loss, reduction)
    _check_weight(who, weight, input)
    loss = loss * weight
    if reduction == "mean":
        return sum_dims(loss, None, False) / sum_dims(weight, None, False)
    return reduced(loss, reduction)
