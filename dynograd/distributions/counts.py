"""Distributions of counts: failures before a number of successes, and how often each class was drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dynograd.autograd import no_grad
from dynograd.base.signatures import without_private
from dynograd.distributions import constraints
from dynograd.distributions.bernoulli import Binomial
from dynograd.distributions.categorical import Categorical
from dynograd.distributions.distribution import Distribution
from dynograd.distributions.draws import poisson_numbers
from dynograd.distributions.gamma import Gamma
from dynograd.distributions.utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits
from dynograd.ops.elementwise.activations import logsigmoid, sigmoid
from dynograd.ops.elementwise.choices import where
from dynograd.ops.elementwise.special_functions import lgamma
from dynograd.tensor.creation import ones_like, zeros
from dynograd.tensor.tensor import Tensor

__all__ = ["Multinomial", "NegativeBinomial"]


class NegativeBinomial(Distribution):
    """Successes of probability `probs` before `total_count` failures.

    Args:
        total_count: failures at which counting stops, 0 or more; need not be whole.
        probs: probability of a success, from 0, below 1; or else
        logits: log-odds of a success.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Raises:
        ValueError: `probs` and `logits` are both given, or neither; or one is out of range.

    >>> dynograd.distributions.NegativeBinomial(3.0, 0.5).mean
    tensor(3.)
    """

    arg_constraints: Any = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(
        self,
        total_count: Tensor | float,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        if probs is not None:
            count, self.probs = broadcast_all(total_count, probs)
            parameter = self.probs
        else:
            assert logits is not None
            count, self.logits = broadcast_all(total_count, logits)
            parameter = self.logits
        self.total_count = count.to(parameter.dtype)
        super().__init__(parameter.shape, validate_args=validate_args)

    @without_private
    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, "total_count", "probs", "logits")

    @lazy_property
    def logits(self) -> Tensor:
        """Log-odds of a success."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Any:
        """Probability of a success."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def param_shape(self) -> Any:
        """The shape of the parameters."""
        return self.total_count.shape

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Any:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / sigmoid(-self.logits)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        with no_grad():
            rate = Gamma(self.total_count, (-self.logits).exp(), validate_args=False).sample(sample_shape)
            return poisson_numbers(rate)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        count, logits = self.total_count, self.logits
        weight = count * logsigmoid(-logits) + value * logsigmoid(logits)
        norm = -lgamma(count + value) + lgamma(1.0 + value) + lgamma(count)
        return weight - where(count + value == 0, norm.detach() * 0, norm).nan_to_num(nan=0.0)


class Multinomial(Distribution):
    """How often each of K classes comes up in `total_count` draws with the probabilities `probs`, or exp(`logits`).

    Args:
        total_count: number of draws, one int for the whole batch.
        probs (..., K): weights of the classes, 0 or more; divided by their sum. Or else
        logits (..., K): unnormalised log-probabilities.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Raises:
        NotImplementedError: `total_count` is not an int.
        ValueError: `probs` and `logits` are both given, or neither; or one is out of range.

    >>> dynograd.distributions.Multinomial(4, tensor([1.0, 1.0])).mean
    tensor([2., 2.])
    """

    arg_constraints: Any = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError(
                f"Multinomial: inhomogeneous total_count is not supported, expected an int, got {type(total_count).__name__}. Make "
                f"one distribution for each count."
            )
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    @without_private
    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        expanded = self._expanded(batch_shape, _instance)
        expanded.total_count = self.total_count
        expanded._categorical = self._categorical.expand(batch_shape)
        return expanded

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        """Whole numbers whose sum is `total_count`."""
        return constraints.multinomial(self.total_count)

    @property
    def logits(self) -> Tensor:
        """Log-probabilities of the classes."""
        return self._categorical.logits

    @property
    def probs(self) -> Tensor:
        """Probabilities of the classes."""
        return self._categorical.probs

    @property
    def param_shape(self) -> Any:
        """(*batch_shape, K)."""
        return self._categorical.param_shape

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = (sample_shape,) if isinstance(sample_shape, int) else tuple(sample_shape)
        drawn = self._categorical.sample((self.total_count, *shape))
        drawn = drawn.permute(*range(1, drawn.ndim), 0)
        like = self.probs.detach()
        counts = zeros(self._extended_shape(shape), dtype=like.dtype, device=like.device)
        return counts.scatter_add(-1, drawn, ones_like(drawn).to(like.dtype))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits = where((value == 0) & (self.logits == -float("inf")), self.logits.detach() * 0, self.logits)
        logits = where(logits != logits, logits.detach().nan_to_num(nan=0.0), logits)
        return lgamma(value.sum(-1) + 1) - lgamma(value + 1).sum(-1) + (logits * value).sum(-1)

    def entropy(self) -> Tensor:
        n = self.probs.new_full((), self.total_count)
        each = Binomial(self.total_count, probs=self.probs, validate_args=False)
        support: Any = each.enumerate_support(expand=False)[1:]
        weights = each.log_prob(support).exp()
        return n * self._categorical.entropy() - lgamma(n + 1) + (weights * lgamma(support + 1)).sum((0, -1))

    def __repr__(self) -> str:
        return type(self).__name__ + repr(self._categorical)[len("Categorical") :]
