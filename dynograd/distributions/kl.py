"""Kullback-Leibler divergences, in closed form, by the types of the two distributions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynograd.distributions.bernoulli import Bernoulli, Binomial, Geometric
from dynograd.distributions.categorical import Categorical, OneHotCategorical
from dynograd.distributions.dirichlet import Beta, Dirichlet
from dynograd.distributions.distribution import Distribution, ExponentialFamily
from dynograd.distributions.exponential import Exponential
from dynograd.distributions.gamma import Gamma
from dynograd.distributions.gumbel import Gumbel
from dynograd.distributions.independent import Independent, sum_rightmost
from dynograd.distributions.laplace import Laplace
from dynograd.distributions.multivariate_normal import MultivariateNormal
from dynograd.distributions.normal import Normal
from dynograd.distributions.poisson import Poisson
from dynograd.distributions.transformed_distribution import LogNormal, TransformedDistribution
from dynograd.distributions.uniform import Uniform
from dynograd.ops.elementwise.activations import softplus
from dynograd.ops.elementwise.choices import where
from dynograd.ops.elementwise.special_functions import digamma, lgamma
from dynograd.ops.linalg.linear_systems import linalg_solve_triangular
from dynograd.tensor.tensor import Tensor

__all__ = ["kl_divergence", "register_kl"]

_rules: dict[tuple[type, type], Callable[[Any, Any], Tensor]] = {}
_EULER = 0.57721566490153286060


def register_kl(type_p: type, type_q: type) -> Callable[[Any], Any]:
    """Registers a function (p, q) for two types of distributions and their subclasses.

    Args:
        type_p, type_q: types of distributions; the rule holds for their subclasses, too.
    Returns:
        A decorator for a function (p, q) that gives the divergence, of the batch's shape.
    Raises:
        TypeError: `type_p` or `type_q` is no type.

    >>> from dynograd.distributions import Normal, kl_divergence, register_kl
    >>> class Mine(Normal): ...
    >>> @register_kl(Mine, Mine)
    ... def zero(p, q):
    ...     return p.loc * 0
    >>> kl_divergence(Mine(0.0, 1.0), Mine(1.0, 1.0))
    tensor(0.)
    """
    for name, type_ in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(type_, type):  # of any kind: packages have distributions of their own
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {type_}")

    def register(rule: Any) -> Callable[..., Any]:
        _rules[type_p, type_q] = rule
        return rule

    return register


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The expectation under p of log p - log q, in nats; infinite where p has values that q has not.

    Args:
        p, q: distributions; their batches broadcast.
    Returns:
        (*batch_shape).
    Raises:
        NotImplementedError: no rule is known for the two types.

    >>> from dynograd.distributions import Normal, kl_divergence
    >>> kl_divergence(Normal(1.0, 1.0), Normal(0.0, 1.0))
    tensor(0.5000)
    """
    for type_p in type(p).__mro__:
        for type_q in type(q).__mro__:
            if (type_p, type_q) in _rules:
                return _rules[type_p, type_q](p, q)
    raise _no_rule(p, q)


def _no_rule(p: Any, q: Any) -> NotImplementedError:
    return NotImplementedError(
        f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}. "
        f"Add one with register_kl, or average p.log_prob(x) - q.log_prob(x) over samples of p."
    )


def _infinite(like: Tensor) -> Tensor:
    return like.new_full(tuple(like.shape), float("inf"))  # not like * 0, which is NaN where `like` is infinite


def _cross(weight: Tensor, ratio_of: Tensor, to: Tensor) -> Tensor:
    """weight log(ratio_of / to), 0 where the weight is 0 and infinite where only `to` is 0."""
    divergence = weight.xlogy(ratio_of) - weight.xlogy(to)
    return where((to == 0) & (weight != 0), _infinite(divergence), where(weight == 0, divergence * 0, divergence))


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Tensor:
    ratio = (p.scale / q.scale) ** 2
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale) ** 2 - 1 - ratio.log())


@register_kl(LogNormal, LogNormal)
def _log_normal(p: Any, q: Any) -> Tensor:
    return _normal(p, q)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("kl_divergence: the two distributions have different transforms.")
    more = len(p.event_shape) - len(p.base_dist.event_shape)
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), more)


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_families(p: Any, q: Any) -> Tensor:
    """F(q) - F(p) - (q - p) · grad F(p): the Bregman divergence of the log normalizer F between the natural parameters."""
    if type(p) is not type(q):
        raise _no_rule(p, q)
    normalizer, parameters, gradients = p._normalizer_with_gradients()
    result = q._log_normalizer(*q._natural_params) - normalizer
    for of_q, of_p, gradient in zip(q._natural_params, parameters, gradients):
        result = result - sum_rightmost((of_q - of_p) * gradient, of_p.ndim - len(p.batch_shape))
    return result


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("kl_divergence: the two Independent take different numbers of batch dims.")
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Tensor:
    return _cross(p.probs, p.probs, q.probs) + _cross(1 - p.probs, 1 - p.probs, 1 - q.probs)


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Any, q: Any) -> Tensor:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Tensor:
    divergence = p.total_count * (p.probs * (p.logits - q.logits) + softplus(q.logits) - softplus(p.logits))
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    return where(p.total_count > q.total_count, _infinite(divergence), divergence)


@register_kl(Geometric, Geometric)
def _geometric(p: Any, q: Any) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() * (1 - p.probs) / p.probs - q.probs.log()


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    terms = where((q.probs == 0) & (p.probs != 0), _infinite(terms), terms)
    return where((p.probs == 0) & (terms == terms), terms * 0, where(p.probs == 0, p.probs * 0, terms)).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: Any, q: Any) -> Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(Poisson, Poisson)
def _poisson(p: Any, q: Any) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    return -q.concentration * ratio.log() + ratio + lgamma(q.concentration) + q.concentration * _EULER - (1 + _EULER)


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Tensor:
    return (
        q.concentration * (p.rate / q.rate).log()
        + lgamma(q.concentration)
        - lgamma(p.concentration)
        + (p.concentration - q.concentration) * digamma(p.concentration)
        + (q.rate - p.rate) * (p.concentration / p.rate)
    )


@register_kl(Beta, Beta)
def _beta(p: Any, q: Any) -> Tensor:
    return _dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    norms = lgamma(total) - lgamma(b.sum(-1)) - (lgamma(a) - lgamma(b)).sum(-1)
    return norms + ((a - b) * (digamma(a) - digamma(total).unsqueeze(-1))).sum(-1)


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Tensor:
    ratio, away = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + away / q.scale + ratio * (-away / p.scale).exp() - 1


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Any, q: Any) -> Tensor:
    ratio = p.scale / q.scale
    start, middle = q.loc / q.scale, p.loc / q.scale
    last = (start - middle + lgamma(1 + ratio)).exp()
    return middle - start - ratio.log() + ratio * _EULER + last - (1 + _EULER)


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Tensor:
    divergence = ((q.high - q.low) / (p.high - p.low)).log()
    return where((q.low > p.low) | (q.high < p.high), _infinite(divergence), divergence)


@register_kl(Uniform, Normal)
def _uniform_normal(p: Any, q: Any) -> Tensor:
    middle = (p.high + p.low - 2 * q.loc) / 2
    spread = ((p.high - p.low) ** 2 / 12 + middle**2) / (2 * q.scale**2)
    return spread + 0.9189385332046727 + q.scale.log() - (p.high - p.low).log()


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: Any, q: Any) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"KL-divergence between two Multivariate Normals with different event shapes cannot be computed: "
            f"{tuple(p.event_shape)} and {tuple(q.event_shape)}."
        )
    spread = (linalg_solve_triangular(q.scale_tril, p.scale_tril, upper=False) ** 2).sum((-2, -1))
    away = linalg_solve_triangular(q.scale_tril, (q.loc - p.loc).unsqueeze(-1), upper=False)
    return q._half_log_det() - p._half_log_det() + 0.5 * (spread + (away**2).sum((-2, -1)) - p.event_shape[0])
