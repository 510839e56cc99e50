"""Yes or no, and counts of it: Bernoulli, binomial and geometric distributions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dynograd.autograd import no_grad
from dynograd.base import dtypes
from dynograd.base.signatures import without_private
from dynograd.distributions import constraints
from dynograd.distributions.distribution import Distribution, ExponentialFamily
from dynograd.distributions.draws import binomial_numbers
from dynograd.distributions.utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits
from dynograd.ops.elementwise.activations import softplus
from dynograd.ops.elementwise.choices import where
from dynograd.ops.elementwise.special_functions import lgamma
from dynograd.ops.loss.class_losses import binary_cross_entropy_with_logits
from dynograd.tensor.creation import arange, tensor
from dynograd.tensor.randomness import bernoulli, rand
from dynograd.tensor.tensor import Tensor

__all__ = ["Bernoulli", "Binomial", "Geometric"]


class _Binary(Distribution):
    """What is given by `probs` or `logits` of success."""

    arg_constraints: Any = {"probs": constraints.unit_interval, "logits": constraints.real}

    def _take(self, probs: Any, logits: Any, *others: Any) -> tuple[Tensor, ...]:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        name = "logits" if probs is None else "probs"
        parameter, *rest = broadcast_all(logits if probs is None else probs, *others)
        setattr(self, name, parameter)
        return tuple(rest)

    @lazy_property
    def logits(self) -> Tensor:
        """Log-odds of success."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Tensor:
        """Probability of success."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def _given(self) -> Tensor:
        return self.__dict__["probs"] if "probs" in self.__dict__ else self.__dict__["logits"]

    @property
    def param_shape(self) -> Any:
        """The shape of the parameters."""
        return self._given.shape


class Bernoulli(_Binary, ExponentialFamily):
    """1 with probability `probs` (or log-odds `logits`), else 0.

    Args:
        probs: probability of 1, 0 to 1, of any shape; or else
        logits: log-odds of 1, any real numbers.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Raises:
        ValueError: `probs` and `logits` are both given, or neither; or one is out of range.

    >>> dynograd.distributions.Bernoulli(0.25).log_prob(tensor(1.0)).exp()
    tensor(0.2500)
    """

    support = constraints.boolean
    has_enumerate_support = True

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._take(probs, logits)
        super().__init__(self._given.shape, validate_args=validate_args)

    @without_private
    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, "probs", "logits")

    _mean_carrier_measure = 0.0

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return softplus(x)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        chosen = (self.probs >= 0.5).to(self.probs.dtype)
        return where(self.probs == 0.5, chosen * float("nan"), chosen)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value.to(logits.dtype), reduction="none")

    def entropy(self) -> Tensor:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        parameter = self._given
        values = arange(2, dtype=parameter.dtype, device=parameter.device).reshape(-1, *[1] * len(self.batch_shape))
        return values.expand(-1, *self.batch_shape) if expand else values


class Binomial(_Binary):
    """Successes in `total_count` independent trials, each of probability `probs`.

    Args:
        total_count: number of trials, 0 or more; broadcast against the probabilities.
        probs: probability of success, 0 to 1; or else
        logits: log-odds of success, any real numbers.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Raises:
        ValueError: `probs` and `logits` are both given, or neither; or one is out of range.

    >>> m = dynograd.distributions.Binomial(10, 0.5)
    >>> m.mean, m.log_prob(tensor(5.0)).exp()
    (tensor(5.), tensor(0.2461))
    """

    arg_constraints = {"total_count": constraints.nonnegative_integer, **_Binary.arg_constraints}
    has_enumerate_support = True

    def __init__(
        self,
        total_count: Tensor | float = 1,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        (count,) = self._take(probs, logits, total_count)
        self.total_count = count.to(self._given.dtype)
        super().__init__(self._given.shape, validate_args=validate_args)

    @without_private
    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, "total_count", "probs", "logits")

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """Whole numbers from 0 to `total_count`."""
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().minimum(self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return binomial_numbers(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        count, logits = self.total_count, self.logits
        ways = lgamma(count + 1) - lgamma(value + 1) - lgamma(count - value + 1)
        norm = count * logits.logaddexp(logits.new_zeros(()))  # log(1 + exp(logits)), of slope 1/2 at 0
        return ways + value * logits - norm

    def entropy(self) -> Tensor:
        values = self.enumerate_support(expand=False)
        logs = self.log_prob(values)
        return -(logs.exp() * logs).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        most = int(self.total_count.max())
        if int(self.total_count.min()) != most:
            raise NotImplementedError("Inhomogeneous total count not supported by `enumerate_support`.")
        parameter = self._given
        values = arange(1 + most, dtype=parameter.dtype, device=parameter.device).reshape(
            -1, *[1] * len(self.batch_shape)
        )
        return values.expand(-1, *self.batch_shape) if expand else values


class Geometric(_Binary):
    """Failures before the first success, when each trial succeeds with probability `probs`: 0, 1, 2, ...

    Args:
        probs: probability of success, above 0, at most 1; or else
        logits: log-odds of success.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Raises:
        ValueError: `probs` and `logits` are both given, or neither; or one is out of range.

    >>> dynograd.distributions.Geometric(0.25).mean
    tensor(3.)
    """

    support = constraints.nonnegative_integer

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._take(probs, logits)
        super().__init__(self._given.shape, validate_args=validate_args)
        if self._validate_args and probs is not None and not bool((self.probs > 0).all()):
            raise ValueError(
                f"Expected parameter probs ({type(self.probs).__name__} of shape {tuple(self.probs.shape)}) of distribution "
                f"{self!r} to be positive but found invalid values:\n{self.probs}"
            )

    @without_private
    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, "probs", "logits")

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return self.probs.detach() * 0

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        kind = self.probs.dtype
        with no_grad():
            u = rand(shape, dtype=kind, device=self.probs.device).clamp(min=float(dtypes.finfo(kind).tiny))
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        certain = (probs == 1) & (value == 0)
        failure = where(certain, tensor(0.0, dtype=probs.dtype, device=probs.device), probs)
        return value * (-failure).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        p = self.probs
        return -(p.xlogy(p) + (1 - p).xlogy(1 - p)) / p
