"""Random tensors of the gamma, Poisson and binomial families, with implicit gradients for the gammas.

The gradient holds each number's quantile: d sample / d concentration = -(dF / d concentration) / density.
"""

from __future__ import annotations

from typing import Any

from dynograd import arrays, devices
from dynograd.custom_function import Function, once_differentiable
from dynograd.kernels import kernel
from dynograd.random_streams import default_generator
from dynograd.tensor import Tensor, wrap

__all__ = ["binomial_numbers", "gamma_numbers", "poisson_numbers", "simplex_numbers"]


def _drawn(name: str, like: Tensor, *parameters: Tensor) -> Tensor:
    held = [arrays.to_device(one.array, devices.cpu) for one in parameters]
    made = kernel("family_draws", name, held[0])(*default_generator.key(1), *held)
    return wrap(arrays.to_device(made, like.device))


def _slope(concentration: Tensor, sample: Tensor) -> Tensor:
    held = [arrays.to_device(one.array, devices.cpu) for one in (concentration, sample)]
    made = kernel("family_draws", "gamma_derivative", held[0])(*held)
    return wrap(arrays.to_device(made, sample.device))


class _Gamma(Function):
    @staticmethod
    def forward(ctx: Any, concentration: Tensor) -> Tensor:
        sample = _drawn("gamma", concentration, concentration)
        ctx.save_for_backward(concentration, sample)
        return sample

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g * _slope(*ctx.saved_tensors)


class _Simplex(Function):
    """Shares of independent gamma numbers. Their sum T is independent of the shares, so any value of it serves the gradient."""

    @staticmethod
    def forward(ctx: Any, concentration: Tensor) -> Tensor:
        sample = _drawn("gamma_shares", concentration, concentration)
        ctx.save_for_backward(concentration, sample)
        ctx.total = _drawn("gamma", concentration, concentration.sum(-1, keepdim=True))
        return sample

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Tensor:
        concentration, sample = ctx.saved_tensors
        # share_i = y_i / T with y_i = share_i T: d share_i / d a_j = (dy_j / d a_j / T) (1[i = j] - share_i)
        pull = _slope(concentration, sample * ctx.total) / ctx.total
        return pull * (g - (g * sample).sum(-1, keepdim=True))


def gamma_numbers(concentration: Tensor) -> Tensor:
    """Gamma numbers of rate 1 in the shape of `concentration`; differentiable once."""
    return _Gamma.apply(concentration)


def simplex_numbers(concentration: Tensor) -> Tensor:
    """Dirichlet numbers over the last dim; differentiable once."""
    return _Simplex.apply(concentration)


def poisson_numbers(rate: Tensor) -> Tensor:
    """Poisson numbers in the shape of `rate`, without gradient."""
    return _drawn("poisson", rate, rate)


def binomial_numbers(count: Tensor, probability: Tensor) -> Tensor:
    """Successes in `count` trials in the shape of `probability`, without gradient."""
    return _drawn("binomial", probability, count, probability)
