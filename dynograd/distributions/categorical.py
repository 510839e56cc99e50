"""Distributions over numbered classes: as an index and as a one-hot vector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dynograd.base import dtypes
from dynograd.base.shapes import Size
from dynograd.base.signatures import without_private
from dynograd.distributions import constraints
from dynograd.distributions.distribution import Distribution
from dynograd.distributions.utils import lazy_property, logits_to_probs, probs_to_logits
from dynograd.tensor.creation import arange, full, zeros
from dynograd.tensor.randomness import multinomial
from dynograd.tensor.tensor import Tensor

__all__ = ["Categorical", "OneHotCategorical", "OneHotCategoricalStraightThrough"]


class Categorical(Distribution):
    """Class numbers 0 to K - 1 with the probabilities `probs`, or exp(`logits`), both normed over the last dim.

    Args:
        probs (..., K): weights of the classes, 0 or more; divided by their sum. Or else
        logits (..., K): unnormalised log-probabilities.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Raises:
        ValueError: `probs` and `logits` are both given, or neither; or one is out of range.

    >>> m = dynograd.distributions.Categorical(tensor([0.25, 0.25, 0.5]))
    >>> m.log_prob(tensor(2)).exp()
    tensor(0.5000)
    """

    arg_constraints: Any = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        parameter = probs if probs is not None else logits
        assert parameter is not None
        if parameter.ndim < 1:
            raise ValueError(f"`{'logits' if probs is None else 'probs'}` parameter must be at least one-dimensional.")
        if probs is not None:
            self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            self.logits = parameter - parameter.logsumexp(dim=-1, keepdim=True)
        self._num_events = parameter.shape[-1]
        super().__init__(parameter.shape[:-1], validate_args=validate_args)

    @without_private
    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        expanded = self._expanded(batch_shape, _instance, "probs", "logits", event=(self._num_events,))
        expanded._num_events = self._num_events
        return expanded

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """Whole numbers from 0 to K - 1."""
        return constraints.integer_interval(0, self._num_events - 1)

    @lazy_property
    def logits(self) -> Tensor:
        """Log-probabilities."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Tensor:
        """Probabilities."""
        return logits_to_probs(self.logits)

    @property
    def _given(self) -> Tensor:
        return self.__dict__["probs"] if "probs" in self.__dict__ else self.__dict__["logits"]

    @property
    def param_shape(self) -> Size:
        """(*batch_shape, K)."""
        return self._given.shape

    @property
    def mean(self) -> Tensor:
        return full(tuple(self.batch_shape), float("nan"), dtype=self._given.dtype, device=self._given.device)

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        return self.mean

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        rows = self.probs.detach().reshape(-1, self._num_events)
        count = 1
        for size in Size(sample_shape if not isinstance(sample_shape, int) else (sample_shape,)):
            count *= size
        if not count or not rows.shape[0]:
            return zeros(tuple(shape), dtype=dtypes.int64, device=rows.device)
        return multinomial(rows, count, True).t().reshape(shape)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        index = value.to(dtypes.int64).unsqueeze(-1)
        logits = self.logits
        batch = _together(tuple(index.shape[:-1]), tuple(logits.shape[:-1]))
        return logits.expand(*batch, self._num_events).gather(-1, index.expand(*batch, 1)).squeeze(-1)

    def entropy(self) -> Tensor:
        smallest = float(dtypes.finfo(self.logits.dtype).min)
        return -(self.logits.clamp(min=smallest) * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = arange(self._num_events, device=self._given.device).reshape(-1, *[1] * len(self.batch_shape))
        return values.expand(-1, *self.batch_shape) if expand else values


def _together(shape: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    from dynograd.base.shapes import broadcast_shapes

    return tuple(broadcast_shapes("log_prob", shape, other))


class OneHotCategorical(Distribution):
    """Class numbers as `Categorical` draws them; a value is a vector of K zeros with a 1 in the place of the class.

    Args:
        probs (..., K): weights of the classes, 0 or more; divided by their sum. Or else
        logits (..., K): unnormalised log-probabilities.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Raises:
        ValueError: `probs` and `logits` are both given, or neither; or one is out of range.

    >>> m = dynograd.distributions.OneHotCategorical(tensor([0.0, 1.0]))
    >>> m.sample()
    tensor([0., 1.])
    """

    arg_constraints: Any = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits, validate_args=False)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def _check_parameters(self) -> None:
        Categorical._check_parameters(self._categorical)

    @without_private
    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        expanded = self._expanded(batch_shape, _instance)
        expanded._categorical = self._categorical.expand(batch_shape)
        return expanded

    @property
    def probs(self) -> Tensor:
        """Probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Log-probabilities."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Any:
        """(*batch_shape, K)."""
        return self._categorical.param_shape

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return self._one_hot(self.probs.argmax(-1))

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def _one_hot(self, index: Tensor) -> Tensor:
        kind = self._categorical._given
        return (index.unsqueeze(-1) == arange(self._event_shape[0], device=kind.device)).to(kind.dtype)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._one_hot(self._categorical.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._one_hot(self._categorical.enumerate_support(expand))

    def __repr__(self) -> str:
        return type(self).__name__ + repr(self._categorical)[len("Categorical") :]


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """One-hot values whose gradient is taken as that of the probabilities.

    Args:
        probs (..., K): weights of the classes, 0 or more; divided by their sum. Or else
        logits (..., K): unnormalised log-probabilities.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Source: Bengio, Léonard, Courville, Estimating or propagating gradients through stochastic neurons, 2013 (arXiv:1308.3432).

    >>> probs = tensor([0.0, 1.0], requires_grad=True)
    >>> m = dynograd.distributions.OneHotCategoricalStraightThrough(probs)
    >>> m.rsample()
    tensor([0., 1.], grad_fn=<AddBackward0>)
    """

    has_rsample = True

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())
