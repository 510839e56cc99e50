"""Random tensors of the gamma, Poisson and binomial families, with implicit gradients for the gammas.

The gradient holds each number's quantile: d sample / d concentration = -(dF / d concentration) / density.
"""

from __future__ import annotations

from typing import Any

from dynograd import arrays
from dynograd.base import devices, dtypes
from dynograd.base.random_streams import Generator, default_generator
from dynograd.base.shapes import broadcast_shapes
from dynograd.kernels import kernel
from dynograd.tensor.custom_function import Function, once_differentiable
from dynograd.tensor.randomness import without_gradient
from dynograd.tensor.tensor import Tensor, wrap

__all__ = ["binomial", "binomial_numbers", "gamma_numbers", "poisson", "poisson_numbers", "simplex_numbers"]


def _drawn(name: str, like: Tensor, *parameters: Tensor, generator: Generator | None = None) -> Tensor:
    arrays_on_cpu = [arrays.to_device(parameter.array, devices.cpu) for parameter in parameters]
    sample = kernel("family_draws", name, arrays_on_cpu[0])(*(generator or default_generator).key(1), *arrays_on_cpu)
    return wrap(arrays.to_device(sample, like.device))


def _slope(concentration: Tensor, sample: Tensor) -> Tensor:
    arrays_on_cpu = [arrays.to_device(tensor.array, devices.cpu) for tensor in (concentration, sample)]
    slope = kernel("family_draws", "gamma_derivative", arrays_on_cpu[0])(*arrays_on_cpu)
    return wrap(arrays.to_device(slope, sample.device))


class _Gamma(Function):
    @staticmethod
    def forward(ctx: Any, concentration: Tensor, generator: Generator | None) -> Tensor:
        sample = _drawn("gamma", concentration, concentration, generator=generator)
        ctx.save_for_backward(concentration, sample)
        return sample

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        return g * _slope(*ctx.saved_tensors), None


class _Simplex(Function):
    """Shares of independent gamma numbers. Their sum T is independent of the shares, so any value of it serves the gradient."""

    @staticmethod
    def forward(ctx: Any, concentration: Tensor, generator: Generator | None) -> Tensor:
        sample = _drawn("gamma_shares", concentration, concentration, generator=generator)
        limits = dtypes.finfo(sample.dtype)
        sample.clamp_(
            min=float(limits.tiny), max=1 - float(limits.eps) / 2
        )  # rounded to 0 or 1, their logarithms are infinite
        ctx.save_for_backward(concentration, sample)
        ctx.total = _drawn("gamma", concentration, concentration.sum(-1, keepdim=True), generator=generator)
        return sample

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        concentration, sample = ctx.saved_tensors
        # share_i = y_i / T with y_i = share_i T: d share_i / d a_j = (dy_j / d a_j / T) (1[i = j] - share_i)
        pull = _slope(concentration, sample * ctx.total) / ctx.total
        return pull * (g - (g * sample).sum(-1, keepdim=True)), None


def gamma_numbers(concentration: Tensor, generator: Generator | None = None) -> Tensor:
    """Gamma numbers of rate 1 in the shape of `concentration`; differentiable once."""
    return _Gamma.apply(concentration, generator)


def simplex_numbers(concentration: Tensor, generator: Generator | None = None) -> Tensor:
    """Dirichlet numbers over the last dim; differentiable once."""
    return _Simplex.apply(concentration, generator)


def poisson_numbers(rate: Tensor) -> Tensor:
    """Poisson numbers in the shape of `rate`, without gradient."""
    return _drawn("poisson", rate, rate)


def binomial_numbers(count: Tensor, probability: Tensor) -> Tensor:
    """Successes in `count` trials in the shape of `probability`, without gradient."""
    return _drawn("binomial", probability, count, probability)


def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Poisson numbers of the rates `input`.

    Args:
        input: rates, 0 or more, of any shape.
        generator: the source of random numbers; None is the default one.
    Returns:
        Whole numbers in the shape and dtype of `input`; the gradient is 0.
    Raises:
        ValueError: a rate is negative or NaN.

    >>> dynograd.poisson(tensor([0.0, 0.0]))
    tensor([0., 0.])
    """
    if not bool((input >= 0).all()):
        raise ValueError("poisson: expected rates of at least 0, found a negative one or NaN. Take input.clamp(min=0).")
    return without_gradient(_drawn("poisson", input, input.detach(), generator=generator), input)


def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """How many of `count` trials succeed, each with probability `prob`; the two broadcast.

    Args:
        count: numbers of trials, 0 or more, of a floating dtype.
        prob: probabilities, 0 to 1.
        generator: the source of random numbers; None is the default one.
    Returns:
        Whole numbers in the broadcast shape and the dtype of the arguments, without gradient.
    Raises:
        ValueError: a count is negative, or a probability not between 0 and 1.

    >>> dynograd.binomial(tensor([3.0, 4.0]), tensor([0.0, 1.0]))
    tensor([0., 4.])
    """
    if not bool((count >= 0).all()) or not bool(((prob >= 0) & (prob <= 1)).all()):
        raise ValueError("binomial: expected counts of at least 0 and probabilities between 0 and 1.")
    count, prob = (
        parameter.detach().expand(broadcast_shapes("binomial", tuple(count.shape), tuple(prob.shape)))
        for parameter in (count, prob)
    )
    return _drawn("binomial", count, count.contiguous(), prob.contiguous(), generator=generator)
