"""Mixtures: a value comes from one of several components of one family, drawn by a categorical."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dynograd.autograd import no_grad
from dynograd.base.shapes import broadcast_shapes
from dynograd.base.signatures import without_private
from dynograd.distributions import constraints
from dynograd.distributions.categorical import Categorical
from dynograd.distributions.distribution import Distribution
from dynograd.ops.norm.softmaxes import log_softmax
from dynograd.tensor.tensor import Tensor

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """Values of `component_distribution`, whose last batch dim holds the components, weighted by `mixture_distribution`.

    Args:
        mixture_distribution: a `Categorical` of batch shape (*B) over K components.
        component_distribution: a distribution of batch shape (*B, K).
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Raises:
        ValueError: the first is no `Categorical`, or the shapes do not fit.

    >>> from dynograd.distributions import Categorical, MixtureSameFamily, Normal
    >>> m = MixtureSameFamily(Categorical(tensor([0.5, 0.5])), Normal(tensor([-1.0, 1.0]), tensor([1.0, 1.0])))
    >>> m.mean, m.variance
    (tensor(0.), tensor(2.))
    """

    arg_constraints: Any = {}

    def __init__(
        self, mixture_distribution: Any, component_distribution: Any, validate_args: bool | None = None
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                f" The Mixture distribution needs to be an instance of Categorical, got {type(mixture_distribution).__name__}."
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                f"The Component distribution needs to be an instance of Distribution, got {component_distribution!r}."
            )
        mixing, inner = tuple(mixture_distribution.batch_shape), tuple(component_distribution.batch_shape)
        for size, inner_size in zip(reversed(mixing), reversed(inner[:-1])):
            if size != 1 and inner_size != 1 and size != inner_size:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({mixing}) is not compatible with `component_distribution.batch_shape` "
                    f"({inner})."
                )
        count = mixture_distribution.param_shape[-1]
        if not inner or inner[-1] != count:
            raise ValueError(
                f"`mixture_distribution component` ({count}) does not equal `component_distribution.batch_shape[-1]` "
                f"({inner[-1] if inner else 'none'})."
            )
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        self._num_component, self._event_ndims = count, len(component_distribution.event_shape)
        batch = broadcast_shapes("MixtureSameFamily", mixing, inner[:-1])
        super().__init__(batch, component_distribution.event_shape, validate_args=validate_args)

    @without_private
    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        expanded = self._expanded(batch_shape, _instance)
        expanded._component_distribution = self._component_distribution.expand((*batch_shape, self._num_component))
        expanded._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        expanded._num_component, expanded._event_ndims = self._num_component, self._event_ndims
        return expanded

    @constraints.dependent_property
    def support(self) -> Any:
        """Where values lie: that of the components."""
        return self._component_distribution.support

    @property
    def mixture_distribution(self) -> Categorical:
        """Which component a value comes from."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The components, along the last batch dim."""
        return self._component_distribution

    def _weights(self) -> Tensor:
        probs = self._mixture_distribution.probs
        return probs.reshape(*probs.shape, *(1,) * self._event_ndims)

    @property
    def _dim(self) -> int:
        return -1 - self._event_ndims

    @property
    def mean(self) -> Tensor:
        return (self._weights() * self._component_distribution.mean).sum(self._dim)

    @property
    def variance(self) -> Tensor:
        within = (self._weights() * self._component_distribution.variance).sum(self._dim)
        away = self._component_distribution.mean - self.mean.unsqueeze(self._dim)
        return within + (self._weights() * away**2).sum(self._dim)

    def cdf(self, x: Tensor) -> Tensor:
        cdfs = self._component_distribution.cdf(x.unsqueeze(self._dim))
        return (cdfs * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, x: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(x)
        log_probs = self._component_distribution.log_prob(x.unsqueeze(self._dim))
        return (log_probs + log_softmax(self._mixture_distribution.logits, dim=-1)).logsumexp(dim=-1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            shape = (sample_shape,) if isinstance(sample_shape, int) else tuple(sample_shape)
            chosen = self._mixture_distribution.expand(tuple(self.batch_shape)).sample(shape)
            values = self._component_distribution.expand((*self.batch_shape, self._num_component)).sample(shape)
            index = chosen.reshape(*chosen.shape, *(1,) * (self._event_ndims + 1))
            index = index.expand(*chosen.shape, 1, *self.event_shape)
            return values.gather(chosen.ndim, index).squeeze(chosen.ndim)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self._mixture_distribution},\n  {self._component_distribution})"
