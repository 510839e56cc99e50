"""Families that are another one after a map: half-normal, inverse gamma, Weibull, Kumaraswamy, logistic-normal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dynograd.base.signatures import without_private
from dynograd.distributions import constraints
from dynograd.distributions.exponential import Exponential
from dynograd.distributions.gamma import Gamma
from dynograd.distributions.heavy_tailed import where_or
from dynograd.distributions.normal import Normal
from dynograd.distributions.scalar_transforms import AbsTransform, AffineTransform, PowerTransform
from dynograd.distributions.transformed_distribution import TransformedDistribution
from dynograd.distributions.transforms import StickBreakingTransform
from dynograd.distributions.uniform import Uniform
from dynograd.distributions.utils import broadcast_all
from dynograd.ops.elementwise.special_functions import digamma, lgamma
from dynograd.tensor.creation import ones_like
from dynograd.tensor.tensor import Tensor

__all__ = ["HalfNormal", "InverseGamma", "Kumaraswamy", "LogisticNormal", "Weibull"]

_EULER = 0.57721566490153286060


class HalfNormal(TransformedDistribution):
    """|x| of normal numbers x of mean 0 and standard deviation `scale`.

    Args:
        scale: standard deviation of x, positive.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Raises:
        ValueError: a parameter is out of range (where arguments are checked).

    >>> dynograd.distributions.HalfNormal(1.0).mean
    tensor(0.7979)
    """

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, scale: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(Normal(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    @property
    def scale(self) -> Tensor:
        """Standard deviation of x."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def mode(self) -> Any:
        return self.scale.detach() * 0

    @property
    def variance(self) -> Tensor:
        return self.scale**2 * (1 - 2 / math.pi)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return where_or(value >= 0, self.base_dist.log_prob(value) + math.log(2), -float("inf"))

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob: Tensor) -> Tensor:
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)


class InverseGamma(TransformedDistribution):
    """1 / x of gamma numbers x of shape `concentration` and inverse scale `rate`.

    Args:
        concentration: positive; the mean is infinite up to 1, the variance up to 2.
        rate: positive; the two broadcast.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Raises:
        ValueError: a parameter is out of range (where arguments are checked).

    >>> dynograd.distributions.InverseGamma(3.0, 2.0).mean
    tensor(1.)
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, concentration: Tensor | float, rate: Tensor | float, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        super().__init__(base, PowerTransform(-1.0), validate_args=validate_args)

    @property
    def concentration(self) -> Tensor:
        """Shape of the gamma numbers."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        """Inverse scale of the gamma numbers."""
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        return where_or(self.concentration > 1, self.rate / (self.concentration - 1), float("inf"))

    @property
    def mode(self) -> Any:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        a = self.concentration
        return where_or(a > 2, self.rate**2 / ((a - 1) ** 2 * (a - 2)), float("inf"))

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + lgamma(a) - (1 + a) * digamma(a)


class Weibull(TransformedDistribution):
    """Waiting times whose rate rises (`concentration` above 1) or falls with time; `scale` is passed by 1 / e of them.

    Args:
        scale: positive.
        concentration: positive; 1 is the exponential distribution. The two broadcast.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Raises:
        ValueError: a parameter is out of range (where arguments are checked).

    >>> dynograd.distributions.Weibull(2.0, 1.0).mean
    tensor(2.)
    """

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, scale: Tensor | float, concentration: Tensor | float, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        maps = [PowerTransform(self.concentration_reciprocal), AffineTransform(0, self.scale)]
        super().__init__(Exponential(ones_like(self.scale), validate_args=False), maps, validate_args=validate_args)

    @without_private
    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return type(self)(self.scale.expand(batch_shape), self.concentration.expand(batch_shape), validate_args=False)

    def _moment(self, order: int) -> Tensor:
        return self.scale**order * lgamma(1 + order * self.concentration_reciprocal).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Any:
        return self.scale * ((self.concentration - 1) / self.concentration) ** self.concentration_reciprocal

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self._moment(1) ** 2

    def entropy(self) -> Tensor:
        return _EULER * (1 - self.concentration_reciprocal) + (self.scale * self.concentration_reciprocal).log() + 1


class Kumaraswamy(TransformedDistribution):
    """Shares of [0, 1], much as beta numbers, with a distribution function in closed form: 1 - (1 - x^concentration1)^concentration0.

    Args:
        concentration1: positive.
        concentration0: positive; the two broadcast.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Raises:
        ValueError: a parameter is out of range (where arguments are checked).

    >>> dynograd.distributions.Kumaraswamy(1.0, 1.0).mean
    tensor(0.5000)
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, concentration1: Tensor | float, concentration0: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        ones = ones_like(self.concentration1)
        maps = [
            PowerTransform(self.concentration0.reciprocal()),
            AffineTransform(1.0, -1.0),
            PowerTransform(self.concentration1.reciprocal()),
        ]
        super().__init__(Uniform(ones * 0, ones, validate_args=False), maps, validate_args=validate_args)

    @without_private
    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return type(self)(
            self.concentration1.expand(batch_shape), self.concentration0.expand(batch_shape), validate_args=False
        )

    def _moment(self, order: int) -> Tensor:
        a, b = 1 + order / self.concentration1, self.concentration0
        return (b.log() + lgamma(a) + lgamma(b) - lgamma(a + b)).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Any:
        a, b = self.concentration1, self.concentration0
        inner = (((a - 1) / (a * b - 1)).log() / a).exp()
        return where_or((a >= 1) & (b >= 1) & (a * b > 1), inner, float("nan"))

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self._moment(1) ** 2

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        return 1 - 1 / b + (1 - 1 / a) * (digamma(b + 1) + _EULER) - a.log() - b.log()


class LogisticNormal(TransformedDistribution):
    """Shares that sum to 1: K normal numbers broken off a stick give K + 1 of them.

    Args:
        loc (..., K): means of the normal numbers.
        scale (..., K): their standard deviations, positive.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Raises:
        ValueError: a parameter is out of range (where arguments are checked).

    >>> dynograd.distributions.LogisticNormal(dynograd.zeros(2), dynograd.ones(2)).event_shape
    dynograd.Size([3])
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Any:
        """Means of the normal numbers."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Any:
        """Standard deviations of the normal numbers."""
        return self.base_dist.base_dist.scale

    @without_private
    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        inner = (*batch_shape, self.loc.shape[-1])
        return type(self)(self.loc.expand(inner), self.scale.expand(inner), validate_args=False)
