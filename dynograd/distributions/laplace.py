"""The Laplace distribution."""

from __future__ import annotations

from collections.abc import Sequence

from dynograd.base import dtypes
from dynograd.distributions.distribution import LocationScale
from dynograd.tensor.randomness import rand
from dynograd.tensor.tensor import Tensor

__all__ = ["Laplace"]


class Laplace(LocationScale):
    """Numbers around `loc` whose distance from it is exponential of mean `scale`.

    Args:
        loc: the centre: mean, median and mode.
        scale: positive; the two broadcast.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Raises:
        ValueError: a parameter is out of range (where arguments are checked).

    >>> dynograd.distributions.Laplace(0.0, 1.0).log_prob(tensor(1.0))
    tensor(-1.6931)
    """

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return 2**0.5 * self.scale

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale**2

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        kind = self.loc.dtype
        u = 2 * rand(shape, dtype=kind, device=self.loc.device) - 1
        return self.loc - self.scale * u.sign() * (-u.abs().clamp(max=1 - dtypes.finfo(kind).eps / 2)).log1p()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        away = value - self.loc
        return 0.5 - 0.5 * away.sign() * (-away.abs() / self.scale).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        side = value - 0.5
        return self.loc - self.scale * side.sign() * (-2 * side.abs()).log1p()

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()
