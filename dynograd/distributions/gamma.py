"""The gamma distribution and, as one of its cases, the chi-squared one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dynograd.base.signatures import without_private
from dynograd.distributions import constraints
from dynograd.distributions.distribution import ExponentialFamily
from dynograd.distributions.draws import gamma_numbers
from dynograd.distributions.utils import broadcast_all
from dynograd.ops.elementwise.special_functions import digamma, igamma, lgamma
from dynograd.tensor.creation import as_tensor
from dynograd.tensor.tensor import Tensor

__all__ = ["Chi2", "Gamma"]


class Gamma(ExponentialFamily):
    """Gamma numbers of shape `concentration` and inverse scale `rate`; `rsample` has implicit gradients.

    Args:
        concentration: positive; often called alpha or shape.
        rate: positive; often called beta. The two broadcast.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Raises:
        ValueError: a parameter is out of range (where arguments are checked).

    >>> dynograd.distributions.Gamma(3.0, 2.0).mean
    tensor(1.5000)
    """

    arg_constraints: Any = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, concentration: Tensor | float, rate: Tensor | float, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @without_private
    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, "concentration", "rate")

    _mean_carrier_measure = 0.0

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration - 1, -self.rate)

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return lgamma(x + 1) - (x + 1) * (-y).log()

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate**2

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return gamma_numbers(self.concentration.expand(shape)) / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        if not isinstance(value, Tensor):  # a number
            value = as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        if self._validate_args:
            self._validate_sample(value)
        a, rate = self.concentration, self.rate
        return a.xlogy(rate) + (a - 1).xlogy(value) - rate * value - lgamma(a)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return igamma(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - self.rate.log() + lgamma(a) + (1.0 - a) * digamma(a)


class Chi2(Gamma):
    """Sums of `df` squared standard normal numbers: `Gamma(df / 2, 1 / 2)`.

    Args:
        df: degrees of freedom, positive; need not be whole.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Raises:
        ValueError: a parameter is out of range (where arguments are checked).

    >>> dynograd.distributions.Chi2(4.0).variance
    tensor(8.)
    """

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Tensor | float, validate_args: bool | None = None) -> None:
        (degrees,) = broadcast_all(df)
        super().__init__(0.5 * degrees, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Tensor:
        """Degrees of freedom."""
        return self.concentration * 2
