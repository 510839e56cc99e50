"""The Poisson distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dynograd.autograd import no_grad
from dynograd.base.signatures import without_private
from dynograd.distributions import constraints
from dynograd.distributions.distribution import ExponentialFamily
from dynograd.distributions.draws import poisson_numbers
from dynograd.distributions.utils import broadcast_all
from dynograd.ops.elementwise.special_functions import lgamma
from dynograd.tensor.tensor import Tensor

__all__ = ["Poisson"]


class Poisson(ExponentialFamily):
    """Counts of independent events that are `rate` on average.

    Args:
        rate: the mean, 0 or more, of any shape.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Raises:
        ValueError: a parameter is out of range (where arguments are checked).

    >>> dynograd.distributions.Poisson(2.0).log_prob(tensor(0.0))
    tensor(-2.)
    """

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Tensor | float, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @without_private
    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, "rate")

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.rate.log(),)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return x.exp()

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return poisson_numbers(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return value.xlogy(rate) - rate - lgamma(value + 1)
