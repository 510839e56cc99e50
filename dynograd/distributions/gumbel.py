"""The Gumbel distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dynograd.distributions.distribution import LocationScale
from dynograd.tensor.creation import empty
from dynograd.tensor.tensor import Tensor

__all__ = ["Gumbel"]

_EULER = 0.57721566490153286060


class Gumbel(LocationScale):
    """The largest of many: density exp(-(z + exp(-z))) / scale with z = (value - loc) / scale.

    Args:
        loc: the mode.
        scale: positive; the two broadcast.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Raises:
        ValueError: a parameter is out of range (where arguments are checked).

    >>> dynograd.distributions.Gumbel(0.0, 1.0).mean
    tensor(0.5772)
    """

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * _EULER

    @property
    def stddev(self) -> Tensor:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev**2

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        waiting = empty(shape, dtype=self.loc.dtype, device=self.loc.device).exponential_()
        return self.loc - self.scale * waiting.log()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return y - y.exp() - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return (-((self.loc - value) / self.scale).exp()).exp()

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + _EULER)
