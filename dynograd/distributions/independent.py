"""Batch dims taken as dims of the value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dynograd.base.signatures import without_private
from dynograd.distributions import constraints
from dynograd.distributions.distribution import Distribution
from dynograd.tensor.tensor import Tensor

__all__ = ["Independent"]


def sum_rightmost(value: Tensor, count: int) -> Tensor:
    """The sum over the last `count` dims."""
    return value.sum(tuple(range(-count, 0))) if count else value


class Independent(Distribution):
    """`base_distribution` with its last batch dims as part of one value, whose log-probability is the sum over them.

    Args:
        base_distribution: a distribution of batch shape (*B, *R).
        reinterpreted_batch_ndims: how many dims R has, 0 to the number of the batch's dims.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Raises:
        ValueError: the batch has fewer dims.

    >>> from dynograd.distributions import Independent, Normal
    >>> m = Independent(Normal(dynograd.zeros(3), dynograd.ones(3)), 1)
    >>> m.batch_shape, m.event_shape
    (dynograd.Size([]), dynograd.Size([3]))
    """

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        if reinterpreted_batch_ndims > len(base_distribution.batch_shape):
            raise ValueError(
                f"Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                f"actual {reinterpreted_batch_ndims} vs {len(base_distribution.batch_shape)}"
            )
        shape = base_distribution.batch_shape + base_distribution.event_shape
        events = reinterpreted_batch_ndims + len(base_distribution.event_shape)
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(shape[: len(shape) - events], shape[len(shape) - events :], validate_args=validate_args)

    @without_private
    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        expanded = _instance if _instance is not None else object.__new__(type(self))
        inner = self.event_shape[: self.reinterpreted_batch_ndims]
        expanded.base_dist = self.base_dist.expand((*batch_shape, *inner))
        expanded.reinterpreted_batch_ndims = self.reinterpreted_batch_ndims
        return self._expanded(batch_shape, expanded)  # a derived class may pass on what it sets

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Whether values have a gradient."""
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        """Whether all values can be listed: only when no dim is reinterpreted."""
        return self.base_dist.has_enumerate_support and not self.reinterpreted_batch_ndims

    @constraints.dependent_property
    def support(self) -> Any:
        """Where values lie: that of the base, with more dims as one value."""
        base = self.base_dist.support
        return constraints.independent(base, self.reinterpreted_batch_ndims) if self.reinterpreted_batch_ndims else base

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist!r}, {self.reinterpreted_batch_ndims})"
