"""Distributions whose tails fall as powers: Cauchy, Student's t, Fisher's F and the Paretos. Their high moments are infinite."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dynograd.base import dtypes
from dynograd.base.signatures import without_private
from dynograd.distributions import constraints
from dynograd.distributions.distribution import Distribution, LocationScale
from dynograd.distributions.exponential import Exponential
from dynograd.distributions.gamma import Chi2, Gamma
from dynograd.distributions.scalar_transforms import AbsTransform, AffineTransform, ExpTransform
from dynograd.distributions.transformed_distribution import TransformedDistribution
from dynograd.distributions.utils import broadcast_all
from dynograd.ops.elementwise.choices import where
from dynograd.ops.elementwise.special_functions import digamma, lgamma
from dynograd.tensor.creation import full_like
from dynograd.tensor.randomness import rand, randn
from dynograd.tensor.tensor import Tensor

__all__ = ["Cauchy", "FisherSnedecor", "GeneralizedPareto", "HalfCauchy", "Pareto", "StudentT"]

_NAN, _INF = float("nan"), float("inf")


def where_or(condition: Any, value: Tensor, other: float) -> Tensor:
    """`value` where the condition holds, elsewhere a number."""
    return where(condition, value, full_like(value.detach(), other))


class Cauchy(LocationScale):
    """Numbers around `loc` without a mean; half of them lie within `scale` of it.

    Args:
        loc: the median and the mode; the mean is NaN.
        scale: positive; the two broadcast.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Raises:
        ValueError: a parameter is out of range (where arguments are checked).

    >>> dynograd.distributions.Cauchy(0.0, 1.0).cdf(tensor(1.0))
    tensor(0.7500)
    """

    @property
    def mean(self) -> Tensor:
        return self.loc.detach() * 0 + _NAN

    @property
    def variance(self) -> Any:
        return self.loc.detach() * 0 + _INF

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        u = rand(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.icdf(u)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -math.log(math.pi) - self.scale.log() - (((value - self.loc) / self.scale) ** 2).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return ((value - self.loc) / self.scale).atan() / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()


class HalfCauchy(TransformedDistribution):
    """|x| of Cauchy numbers x around 0; half of them lie below `scale`.

    Args:
        scale: positive; the median.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Raises:
        ValueError: a parameter is out of range (where arguments are checked).

    >>> dynograd.distributions.HalfCauchy(1.0).cdf(tensor(1.0))
    tensor(0.5000)
    """

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, scale: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(Cauchy(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    @property
    def scale(self) -> Tensor:
        """The median."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return self.scale.detach() * 0 + _INF

    @property
    def mode(self) -> Any:
        return self.scale.detach() * 0

    @property
    def variance(self) -> Any:
        return self.base_dist.variance

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return where_or(value >= 0, self.base_dist.log_prob(value) + math.log(2), -_INF)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob: Tensor) -> Tensor:
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)


class StudentT(Distribution):
    """Student's t numbers of `df` degrees of freedom, moved by `loc` and stretched by `scale`.

    Args:
        df: degrees of freedom, positive; the mean is NaN up to 1, the variance infinite up to 2.
        loc: the centre.
        scale: positive. The three broadcast.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Raises:
        ValueError: a parameter is out of range (where arguments are checked).

    >>> dynograd.distributions.StudentT(4.0).variance
    tensor(2.)
    """

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(
        self,
        df: Tensor | float,
        loc: Tensor | float = 0.0,
        scale: Tensor | float = 1.0,
        validate_args: bool | None = None,
    ) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    @without_private
    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, "df", "loc", "scale")

    @property
    def mean(self) -> Tensor:
        return where_or(self.df > 1, self.loc, _NAN)

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Tensor:
        some = where(self.df > 2, self.df, self.df * 0 + 3)
        finite = where_or(self.df > 2, self.scale**2 * some / (some - 2), _INF)
        return where_or(self.df > 1, finite, _NAN)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        noise = randn(shape, dtype=self.df.dtype, device=self.df.device)
        squares = Chi2(self.df, validate_args=False).rsample(sample_shape)
        return self.loc + self.scale * noise * (squares / self.df).rsqrt()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        y = (value - self.loc) / self.scale
        half = 0.5 * (self.df + 1.0)
        norm = self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi) + lgamma(0.5 * self.df) - lgamma(half)
        return -half * (y**2 / self.df).log1p() - norm

    def entropy(self) -> Tensor:
        half = 0.5 * (self.df + 1.0)
        beta = lgamma(0.5 * self.df) + 0.5 * math.log(math.pi) - lgamma(half)
        return self.scale.log() + half * (digamma(half) - digamma(0.5 * self.df)) + 0.5 * self.df.log() + beta


class FisherSnedecor(Distribution):
    """Ratios of two chi-squared numbers, each divided by its degrees of freedom `df1` and `df2`.

    Args:
        df1: degrees of freedom of the numerator, positive.
        df2: those of the denominator, positive; the mean exists above 2, the variance above 4. The two broadcast.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Raises:
        ValueError: a parameter is out of range (where arguments are checked).

    >>> dynograd.distributions.FisherSnedecor(1.0, 4.0).mean
    tensor(2.)
    """

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Tensor | float, df2: Tensor | float, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @without_private
    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, "df1", "df2")

    @property
    def mean(self) -> Tensor:
        some = where_or(self.df2 > 2, self.df2, _NAN)
        return some / (some - 2)

    @property
    def mode(self) -> Any:
        return where_or(self.df1 > 2, (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2), _NAN)

    @property
    def variance(self) -> Tensor:
        some = where_or(self.df2 > 4, self.df2, _NAN)
        return 2 * some**2 * (self.df1 + some - 2) / (self.df1 * (some - 2) ** 2 * (some - 4))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        above = Gamma(0.5 * self.df1, self.df1, validate_args=False).rsample(sample_shape)
        below = Gamma(0.5 * self.df2, self.df2, validate_args=False).rsample(sample_shape)
        tiny = float(dtypes.finfo(self.df1.dtype).tiny)
        return (above / below.clamp(min=tiny)).clamp(min=tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        half1, half2, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        norm = lgamma(half1 + half2) - lgamma(half1) - lgamma(half2)
        return norm + half1 * ratio.log() + (half1 - 1) * value.log() - (half1 + half2) * (ratio * value).log1p()


class Pareto(TransformedDistribution):
    """Numbers above `scale` whose tail falls with the power `alpha`.

    Args:
        scale: positive; the smallest value.
        alpha: positive; the mean is infinite up to 1, the variance up to 2. The two broadcast.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Raises:
        ValueError: a parameter is out of range (where arguments are checked).

    >>> dynograd.distributions.Pareto(1.0, 2.0).mean
    tensor(2.)
    """

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}
    has_rsample = True

    def __init__(self, scale: Tensor | float, alpha: Tensor | float, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        super().__init__(base, [ExpTransform(), AffineTransform(0, self.scale)], validate_args=validate_args)

    @without_private
    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return type(self)(self.scale.expand(batch_shape), self.alpha.expand(batch_shape), validate_args=False)

    @property
    def mean(self) -> Tensor:
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Any:
        return self.scale

    @property
    def variance(self) -> Tensor:
        a = self.alpha.clamp(min=2)
        return self.scale**2 * a / ((a - 1) ** 2 * (a - 2))

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """Numbers from `scale` on."""
        return constraints.greater_than_eq(self.scale)

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + 1 + self.alpha.reciprocal()


class GeneralizedPareto(Distribution):
    """What lies above a threshold `loc`: exponential for `concentration` 0, heavier tails above, bounded ones below.

    Args:
        loc: the threshold, the smallest value.
        scale: positive.
        concentration: the weight of the tail; the mean is infinite from 1, the variance from 1/2. The three broadcast.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Raises:
        ValueError: a parameter is out of range (where arguments are checked).

    >>> dynograd.distributions.GeneralizedPareto(0.0, 1.0, 0.5).mean
    tensor(2.)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True

    def __init__(
        self,
        loc: Tensor | float,
        scale: Tensor | float,
        concentration: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @without_private
    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, "loc", "scale", "concentration")

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """Numbers from `loc` on; for a negative `concentration` up to a bound."""
        top = where_or(self.concentration < 0, self.loc - self.scale / self.concentration, _INF)
        return constraints.interval(self.loc, top)

    @property
    def _flat(self) -> Tensor:
        """Where the concentration is 0, as far as the formulas are concerned."""
        return self.concentration.abs() < 1e-12

    @property
    def _divisor(self) -> Tensor:
        return where(self._flat, self.concentration.detach() * 0 + 1, self.concentration)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.icdf(rand(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device))

    def _log_survival(self, value: Any) -> Tensor:
        z = (value - self.loc) / self.scale
        return where(self._flat, -z, -(self._divisor * z).log1p() / self._divisor)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return (1 + self.concentration) * self._log_survival(value) - self.scale.log()

    def log_survival_function(self, value: Tensor) -> Tensor:
        """Logarithm of the probability of a value > `value`.

        Args:
            value (..., *batch_shape): broadcast against the batch.
        Returns:
            (..., *batch_shape).

        >>> dynograd.distributions.GeneralizedPareto(0.0, 1.0, 0.5).log_survival_function(tensor(2.0))
        tensor(-1.3863)
        """
        if self._validate_args:
            self._validate_sample(value)
        return self._log_survival(value)

    def log_cdf(self, value: Tensor) -> Tensor:
        """Logarithm of `cdf`, the probability of a value <= `value`.

        Args:
            value (..., *batch_shape): broadcast against the batch.
        Returns:
            (..., *batch_shape).

        >>> dynograd.distributions.GeneralizedPareto(0.0, 1.0, 0.5).log_cdf(tensor(2.0))
        tensor(-0.2877)
        """
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        return -self.log_survival_function(value).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        rest = -(-value).log1p()
        return self.loc + self.scale * where(self._flat, rest, (self._divisor * rest).expm1() / self._divisor)

    @property
    def mean(self) -> Tensor:
        c = self.concentration
        return where_or(c < 1, self.loc + self.scale / (1 - where(c < 1, c, c.detach() * 0)), _INF)

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Tensor:
        c = self.concentration
        low = where(c < 0.5, c, c.detach() * 0)
        return where_or(c < 0.5, self.scale**2 / ((1 - low) ** 2 * (1 - 2 * low)), _INF)

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1
