"""Continuous distributions in place of discrete ones, so that samples have gradients: relaxed Bernoulli and one-hot, continuous Bernoulli.

Sources: Maddison et al., The Concrete Distribution, 2017; Jang et al., Categorical Reparameterization with Gumbel-Softmax, 2017;
Loaiza-Ganem and Cunningham, The continuous Bernoulli, 2019.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dynograd.base.dtypes import finfo
from dynograd.base.signatures import without_private
from dynograd.distributions import constraints
from dynograd.distributions.categorical import Categorical
from dynograd.distributions.distribution import Distribution, ExponentialFamily
from dynograd.distributions.scalar_transforms import ExpTransform, SigmoidTransform
from dynograd.distributions.transformed_distribution import TransformedDistribution
from dynograd.distributions.utils import broadcast_all, clamp_probs, lazy_property, logits_to_probs, probs_to_logits
from dynograd.ops.elementwise.activations import logsigmoid
from dynograd.ops.elementwise.choices import where
from dynograd.ops.elementwise.exponentials import logaddexp
from dynograd.tensor.creation import tensor
from dynograd.tensor.randomness import rand
from dynograd.tensor.tensor import Tensor

__all__ = [
    "ContinuousBernoulli",
    "ExpRelaxedCategorical",
    "LogitRelaxedBernoulli",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
]


class _Binary(Distribution):
    """Parameters of a probability or its log-odds, one of the two given."""

    arg_constraints: Any = {"probs": constraints.unit_interval, "logits": constraints.real}

    def _take(self, probs: Any, logits: Any) -> Tensor:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        if probs is not None:
            (self.probs,) = broadcast_all(probs)
            return self.probs
        (self.logits,) = broadcast_all(logits)
        return self.logits

    @lazy_property
    def logits(self) -> Tensor:
        """Log-odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Tensor:
        """Probabilities."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def _given(self) -> Tensor:
        return self.__dict__["probs"] if "probs" in self.__dict__ else self.__dict__["logits"]

    @property
    def param_shape(self) -> Any:
        """The shape of the parameters."""
        return self._given.shape

    def _uniform(self, sample_shape: Any) -> Tensor:
        like = self._given
        return rand(self._extended_shape(sample_shape), dtype=like.dtype, device=like.device)


class LogitRelaxedBernoulli(_Binary):
    """Log-odds of relaxed Bernoulli numbers: logistic noise added to the log-odds `logits`, divided by `temperature`."""

    support = constraints.real
    has_rsample = True

    def __init__(
        self,
        temperature: Tensor | float,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        parameter = self._take(probs, logits)
        self.temperature = (
            temperature if isinstance(temperature, Tensor) else tensor(temperature, dtype=parameter.dtype)
        )
        super().__init__(parameter.shape, validate_args=validate_args)

    @without_private
    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        expanded = self._expanded(batch_shape, _instance, "probs", "logits")
        expanded.temperature = self.temperature
        return expanded

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        p, u = clamp_probs(self.probs), clamp_probs(self._uniform(sample_shape))
        return (u.log() - (-u).log1p() + p.log() - (-p).log1p()) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        away = self.logits - value * self.temperature
        return self.temperature.log() + away + 2 * logsigmoid(-away)


class RelaxedBernoulli(TransformedDistribution):
    """Numbers in (0, 1) that come near 0 and 1 as `temperature` falls, with gradients through their samples.

    Args:
        temperature: positive; near 0 the numbers are near 0 and 1.
        probs: probability of 1, 0 to 1; or else
        logits: log-odds of 1.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Raises:
        ValueError: `probs` and `logits` are both given, or neither; or one is out of range.
    Source: Maddison et al., The concrete distribution, 2017 (arXiv:1611.00712).

    >>> dynograd.distributions.RelaxedBernoulli(tensor(0.5), probs=tensor([0.1, 0.9])).rsample().shape
    dynograd.Size([2])
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        temperature: Tensor | float,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        super().__init__(
            LogitRelaxedBernoulli(temperature, probs, logits), SigmoidTransform(), validate_args=validate_args
        )

    @property
    def temperature(self) -> Tensor:
        """How far from 0 and 1 numbers stay."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """Log-odds of 1."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """Probability of 1."""
        return self.base_dist.probs


class ExpRelaxedCategorical(Distribution):
    """Logarithms of relaxed one-hot vectors: Gumbel noise added to `logits`, divided by `temperature`, normed."""

    arg_constraints: Any = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        temperature: Tensor | float,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical = Categorical(probs, logits)
        self.temperature = (
            temperature if isinstance(temperature, Tensor) else tensor(temperature, dtype=self.logits.dtype)
        )
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    @without_private
    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        expanded = self._expanded(batch_shape, _instance)
        expanded.temperature, expanded._categorical = self.temperature, self._categorical.expand(batch_shape)
        return expanded

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

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        u = clamp_probs(rand(self._extended_shape(sample_shape), dtype=self.logits.dtype, device=self.logits.device))
        scores = (self.logits - (-u.log()).log()) / self.temperature
        return scores - scores.logsumexp(dim=-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        count = self._categorical.param_shape[-1]
        scores = self.logits - value * self.temperature
        scores = (scores - scores.logsumexp(dim=-1, keepdim=True)).sum(-1)
        return scores + math.lgamma(count) + (count - 1) * self.temperature.log()


class RelaxedOneHotCategorical(TransformedDistribution):
    """Vectors of the simplex that come near one-hot ones as `temperature` falls, with gradients through their samples.

    Args:
        temperature: positive; near 0 the vectors are near one-hot ones.
        probs (..., K): weights of the classes, 0 or more; divided by their sum. Or else
        logits (..., K): unnormalised log-probabilities.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Raises:
        ValueError: `probs` and `logits` are both given, or neither; or one is out of range.
    Source: Jang et al., Categorical reparameterization with Gumbel-softmax, 2017 (arXiv:1611.01144).

    >>> dynograd.distributions.RelaxedOneHotCategorical(tensor(0.5), logits=dynograd.zeros(3)).rsample().shape
    dynograd.Size([3])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    has_rsample = True

    def __init__(
        self,
        temperature: Tensor | float,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Tensor:
        """How far from one-hot the vectors stay."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """Log-probabilities of the classes."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """Probabilities of the classes."""
        return self.base_dist.probs


class ContinuousBernoulli(_Binary, ExponentialFamily):
    """Numbers x of [0, 1] with density proportional to probs^x (1 - probs)^(1 - x), for data such as grey values.

    Between the `lims` around 1/2, where the closed forms lose their digits, their Taylor series are used.

    Args:
        probs: the parameter, between 0 and 1 (not the mean, but for 1/2); or else
        logits: its log-odds.
        lims: where the series are used.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Raises:
        ValueError: `probs` and `logits` are both given, or neither; or one is out of range.
    Source: Loaiza-Ganem and Cunningham, The continuous Bernoulli, 2019 (arXiv:1907.06845).

    >>> dynograd.distributions.ContinuousBernoulli(0.5).mean
    tensor(0.5000)
    """

    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        parameter = self._take(probs, logits)
        if probs is not None:
            if validate_args and not bool(((parameter >= 0) & (parameter <= 1)).all()):
                raise ValueError("The parameter probs has invalid values")
            self.probs = clamp_probs(parameter)
        self._lims = lims
        super().__init__(parameter.shape, validate_args=validate_args)

    @without_private
    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        expanded = self._expanded(batch_shape, _instance, "probs", "logits")
        expanded._lims = self._lims
        return expanded

    @property
    def _far(self) -> Tensor:
        return (self.probs < self._lims[0]) | (self.probs > self._lims[1])

    @property
    def _cut(self) -> Tensor:
        return where(self._far, self.probs, self.probs.detach() * 0 + self._lims[0])

    @property
    def _cut_logits(self) -> Tensor:
        """log(p / (1 - p)) where the closed forms hold, which is finite where p rounds to 1."""
        least = math.log(self._lims[0] / (1 - self._lims[0]))
        return where(self._far, self.logits, self.logits.detach() * 0 + least)

    def _log_norm(self) -> Tensor:
        logits = self._cut_logits
        exact = logits.abs().log() - (logits / 2).tanh().abs().log()
        x = (self.probs - 0.5) ** 2
        return where(self._far, exact, math.log(2.0) + (4 / 3 + 104 / 45 * x) * x)

    _mean_carrier_measure = 0.0

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        far = (x <= self._lims[0] - 0.5) | (x > self._lims[1] - 0.5)
        cut = where(far, x, x.detach() * 0 + self._lims[0] - 0.5)
        series = x / 2 + x**2 / 24 - x**4 / 2880
        return where(far, cut.expm1().abs().log() - cut.abs().log(), series)

    @property
    def mean(self) -> Tensor:
        p = self._cut
        x = self.probs - 0.5
        return where(self._far, p / (2 * p - 1) - 1 / self._cut_logits, 0.5 + (1 / 3 + 16 / 45 * x**2) * x)

    @property
    def variance(self) -> Tensor:
        p = self._cut
        exact = p * (p - 1) / (1 - 2 * p) ** 2 + 1 / self._cut_logits**2
        x = (self.probs - 0.5) ** 2
        return where(self._far, exact, 1 / 12 - (1 / 15 - 128 / 945 * x) * x)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.icdf(self._uniform(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return value * logsigmoid(self.logits) + (1 - value) * logsigmoid(-self.logits) + self._log_norm()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        p = self._cut
        far = (p**value * (1 - p) ** (1 - value) + p - 1) / (2 * p - 1)
        return where(self._far, far, value).clamp(min=0.0, max=1.0)

    def icdf(self, value: Tensor) -> Tensor:
        logits, limits = self._cut_logits, finfo(value.dtype)
        inside = value.clamp(min=limits.tiny, max=1 - limits.eps)
        far = logaddexp(inside.log() + logits, (-inside).log1p()) / logits
        return where(self._far, far, value + far * 0)

    def entropy(self) -> Tensor:
        return -self.mean * self.logits - self._log_norm() - logsigmoid(-self.logits)
