"""The Dirichlet distribution and, for two shares, the beta distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dynograd.base.signatures import without_private
from dynograd.distributions import constraints
from dynograd.distributions.distribution import ExponentialFamily
from dynograd.distributions.draws import simplex_numbers
from dynograd.distributions.utils import broadcast_all
from dynograd.ops.elementwise.choices import where
from dynograd.ops.elementwise.special_functions import digamma, lgamma
from dynograd.ops.layout.joins import stack
from dynograd.tensor.creation import arange
from dynograd.tensor.tensor import Tensor

__all__ = ["Beta", "Dirichlet"]


class Dirichlet(ExponentialFamily):
    """Shares that sum to 1 over the last dim; `rsample` has implicit gradients.

    Args:
        concentration (..., K): positive, one for each share; large ones keep the shares near the mean.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Raises:
        ValueError: a parameter is out of range (where arguments are checked).

    >>> dynograd.distributions.Dirichlet(tensor([1.0, 3.0])).mean
    tensor([0.2500, 0.7500])
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.ndim < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    @without_private
    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, "concentration", event=self.event_shape)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return lgamma(x).sum(-1) - lgamma(x.sum(-1))

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def mode(self) -> Tensor:
        above = (self.concentration - 1).clamp(min=0.0)
        mode = above / above.sum(-1, keepdim=True)
        flat = (self.concentration < 1).all(-1, keepdim=True)
        first = (arange(mode.shape[-1], device=mode.device) == 0).to(mode.dtype)  # all corners are infinite: as PyTorch
        return where(flat, first, mode)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, keepdim=True)
        return self.concentration * (total - self.concentration) / (total**2 * (total + 1))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return simplex_numbers(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a = self.concentration
        return (a - 1.0).xlogy(value).sum(-1) + lgamma(a.sum(-1)) - lgamma(a).sum(-1)

    def entropy(self) -> Tensor:
        a, count = self.concentration, self.concentration.shape[-1]
        total = a.sum(-1)
        return lgamma(a).sum(-1) - lgamma(total) - (count - total) * digamma(total) - ((a - 1.0) * digamma(a)).sum(-1)


class Beta(ExponentialFamily):
    """Shares of [0, 1] with density x**(concentration1 - 1) (1 - x)**(concentration0 - 1), normed.

    Args:
        concentration1: positive; large values draw the shares to 1.
        concentration0: positive; large values draw them to 0. The two broadcast.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Raises:
        ValueError: a parameter is out of range (where arguments are checked).

    >>> dynograd.distributions.Beta(1.0, 3.0).mean
    tensor(0.2500)
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, concentration1: Tensor | float, concentration0: Tensor | float, validate_args: bool | None = None
    ) -> None:
        both = stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(both, validate_args=False)
        super().__init__(self._dirichlet.batch_shape, validate_args=validate_args)

    @without_private
    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        expanded = self._expanded(batch_shape, _instance)
        expanded._dirichlet = self._dirichlet.expand(batch_shape)
        return expanded

    @property
    def concentration1(self) -> Tensor:
        """Weight of 1."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Tensor:
        """Weight of 0."""
        return self._dirichlet.concentration[..., 1]

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration1, self.concentration0)

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return lgamma(x) + lgamma(y) - lgamma(x + y)

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Tensor:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total**2 * (total + 1))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._dirichlet.rsample(sample_shape)[..., 0]

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self._dirichlet.log_prob(stack([value, 1.0 - value], -1))

    def entropy(self) -> Tensor:
        return self._dirichlet.entropy()
