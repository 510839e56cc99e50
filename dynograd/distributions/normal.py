"""The normal distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dynograd.autograd import no_grad
from dynograd.distributions.distribution import ExponentialFamily, LocationScale
from dynograd.ops.elementwise.special_functions import erf, erfinv
from dynograd.tensor.randomness import normal, randn
from dynograd.tensor.tensor import Tensor

__all__ = ["Normal"]

_LOG_2_PI = math.log(2 * math.pi)


class Normal(LocationScale, ExponentialFamily):
    """Normal numbers of mean `loc` and standard deviation `scale`.

    Args:
        loc: the mean, of any shape.
        scale: the standard deviation, positive; the two broadcast.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Raises:
        ValueError: a parameter is out of range (where arguments are checked).

    >>> m = dynograd.distributions.Normal(0.0, 1.0)
    >>> m.log_prob(tensor(0.0))
    tensor(-0.9189)
    """

    _mean_carrier_measure = 0.0

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.loc / self.scale**2, -0.5 / self.scale**2)

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return -0.25 * x**2 / y + 0.5 * (-math.pi / y).log()

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.scale**2

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.loc + randn(shape, dtype=self.loc.dtype, device=self.loc.device) * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -((value - self.loc) ** 2) / (2 * self.scale**2) - self.scale.log() - _LOG_2_PI / 2

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return 0.5 * (1 + erf((value - self.loc) / (self.scale * math.sqrt(2))))

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + 0.5 * _LOG_2_PI + self.scale.log()
