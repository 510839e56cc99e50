"""The uniform distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dynograd.base.signatures import without_private
from dynograd.distributions import constraints
from dynograd.distributions.distribution import Distribution
from dynograd.distributions.utils import broadcast_all
from dynograd.tensor.randomness import rand
from dynograd.tensor.tensor import Tensor

__all__ = ["Uniform"]


class Uniform(Distribution):
    """Uniform numbers of [low, high).

    Args:
        low: the smallest value.
        high: above `low`, itself left out; the two broadcast.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Raises:
        ValueError: `low` is not below `high` (where arguments are checked).

    >>> dynograd.distributions.Uniform(0.0, 4.0).entropy()
    tensor(1.3863)
    """

    arg_constraints = {"low": constraints.dependent, "high": constraints.dependent}
    has_rsample = True

    def __init__(self, low: Tensor | float, high: Tensor | float, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)
        if self._validate_args and not bool((self.low < self.high).all()):
            raise ValueError("Uniform is not defined when low>= high")

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """Numbers from `low` to `high`."""
        return constraints.interval(self.low, self.high)

    @without_private
    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, "low", "high")

    @property
    def mean(self) -> Tensor:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        return self.high * float("nan")

    @property
    def stddev(self) -> Tensor:
        return (self.high - self.low) / 12**0.5

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low) ** 2 / 12

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.low + rand(shape, dtype=self.low.dtype, device=self.low.device) * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        inside = ((self.low <= value) & (self.high > value)).to(self.low.dtype)
        return inside.log() - (self.high - self.low).log()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Tensor) -> Tensor:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()
