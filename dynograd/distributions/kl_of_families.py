"""Kullback-Leibler divergences of the families beside the commonest ones, and between different families."""

from __future__ import annotations

import math
from typing import Any

from dynograd.distributions.bernoulli import Bernoulli, Binomial
from dynograd.distributions.dirichlet import Beta
from dynograd.distributions.exponential import Exponential
from dynograd.distributions.gamma import Gamma
from dynograd.distributions.gumbel import Gumbel
from dynograd.distributions.heavy_tailed import Cauchy, Pareto
from dynograd.distributions.kl import _infinite, kl_divergence, register_kl
from dynograd.distributions.laplace import Laplace
from dynograd.distributions.matrices import LowRankMultivariateNormal, _low_rank_distance
from dynograd.distributions.multivariate_normal import MultivariateNormal
from dynograd.distributions.normal import Normal
from dynograd.distributions.poisson import Poisson
from dynograd.distributions.relaxed import ContinuousBernoulli
from dynograd.distributions.transformed_families import HalfNormal
from dynograd.distributions.uniform import Uniform
from dynograd.ops.elementwise.choices import where
from dynograd.ops.elementwise.special_functions import digamma, lgamma
from dynograd.ops.linalg.linear_systems import linalg_solve_triangular
from dynograd.tensor.tensor import Tensor

_EULER = 0.57721566490153286060
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


# --- two of one family -------------------------------------------------------------------------------------------------------


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Any, q: Any) -> Tensor:
    return ((p.scale + q.scale) ** 2 + (p.loc - q.loc) ** 2).log() - (4 * p.scale * q.scale).log()


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: Any, q: Any) -> Tensor:
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Pareto, Pareto)
def _pareto(p: Any, q: Any) -> Tensor:
    ratio = q.alpha / p.alpha
    divergence = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return where(p.scale < q.scale, _infinite(divergence), divergence)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: Any, q: Any) -> Tensor:
    norms = p._log_norm() + (-p.probs).log1p() - q._log_norm() - (-q.probs).log1p()
    return p.mean * (p.logits - q.logits) + norms


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _low_rank(p: Any, q: Any) -> Tensor:
    _same_size(p, q)
    distance = _low_rank_distance(q._factor, q._diag, q.loc - p.loc, q._root)
    # trace((Wq Wq^T + Dq)^-1 (Wp Wp^T + Dp)) = trace(Dq^-1 (...)) - trace(A^T A (...)), A = Lq^-1 Wq^T Dq^-1
    a = linalg_solve_triangular(q._root, q._factor.mT / q._diag.unsqueeze(-2), upper=False)
    spread = (p._diag / q._diag).sum(-1) + (p._factor**2 / q._diag.unsqueeze(-1)).sum((-2, -1))
    spread = spread - (a**2 * p._diag.unsqueeze(-2)).sum((-2, -1)) - ((a @ p._factor) ** 2).sum((-2, -1))
    return 0.5 * (q._log_det() - p._log_det() + spread + distance - p.event_shape[0])


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _normal_low_rank(p: Any, q: Any) -> Tensor:
    _same_size(p, q)
    distance = _low_rank_distance(q._factor, q._diag, q.loc - p.loc, q._root)
    a = linalg_solve_triangular(q._root, q._factor.mT / q._diag.unsqueeze(-2), upper=False)
    root = p._unbroadcasted_scale_tril
    spread = (root**2 / q._diag.unsqueeze(-1)).sum((-2, -1)) - ((a @ root) ** 2).sum((-2, -1))
    return 0.5 * (q._log_det() - 2 * p._half_log_det() + spread + distance - p.event_shape[0])


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _low_rank_normal(p: Any, q: Any) -> Tensor:
    _same_size(p, q)
    away = linalg_solve_triangular(q.scale_tril, (q.loc - p.loc).unsqueeze(-1), upper=False)
    along = linalg_solve_triangular(q.scale_tril, p.cov_factor, upper=False)
    alone = linalg_solve_triangular(q.scale_tril, p.cov_diag.sqrt().diag_embed(), upper=False)
    spread = (along**2).sum((-2, -1)) + (alone**2).sum((-2, -1))
    return 0.5 * (2 * q._half_log_det() - p._log_det() + spread + (away**2).sum((-2, -1)) - p.event_shape[0])


def _same_size(p: Any, q: Any) -> None:
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"KL-divergence between two Multivariate Normals with different event shapes cannot be computed: "
            f"{tuple(p.event_shape)} and {tuple(q.event_shape)}."
        )


# --- two families --------------------------------------------------------------------------------------------------------------


@register_kl(Beta, ContinuousBernoulli)
def _beta_continuous_bernoulli(p: Any, q: Any) -> Tensor:
    return -p.entropy() - p.mean * q.logits - (-q.probs).log1p() - q._log_norm()


@register_kl(Beta, Exponential)
def _beta_exponential(p: Any, q: Any) -> Tensor:
    return -p.entropy() - q.rate.log() + q.rate * p.mean


@register_kl(Beta, Gamma)
def _beta_gamma(p: Any, q: Any) -> Tensor:
    a = p.concentration1
    logs = digamma(a) - digamma(a + p.concentration0)
    return (
        -p.entropy()
        + lgamma(q.concentration)
        - q.concentration * q.rate.log()
        - (q.concentration - 1) * logs
        + q.rate * p.mean
    )


def _to_normal(p: Any, q: Any) -> Tensor:
    """From any distribution with an entropy and two moments."""
    squares = p.variance + (p.mean - q.loc) ** 2
    return -p.entropy() + q.scale.log() + _HALF_LOG_2PI + squares / (2 * q.scale**2)


for _family in (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace):
    register_kl(_family, Normal)(_to_normal)


@register_kl(ContinuousBernoulli, Exponential)
def _continuous_bernoulli_exponential(p: Any, q: Any) -> Tensor:
    return -p.entropy() - q.rate.log() + q.rate * p.mean


@register_kl(Gamma, Exponential)
def _gamma_exponential(p: Any, q: Any) -> Tensor:
    return -p.entropy() - q.rate.log() + q.rate * p.concentration / p.rate


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p: Any, q: Any) -> Tensor:
    product = p.rate * q.scale
    place = q.loc / q.scale
    return product.log() - 1 - place + 1 / product + place.exp() * product / (product + 1)


@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p: Any, q: Any) -> Tensor:
    beta, place = p.rate * q.scale, q.loc / q.scale
    first = (p.concentration - 1) * digamma(p.concentration) - lgamma(p.concentration) - p.concentration
    return first + beta.log() + p.concentration / beta + place.exp() * (1 + 1 / beta) ** (-p.concentration) - place


@register_kl(Normal, Gumbel)
def _normal_gumbel(p: Any, q: Any) -> Tensor:
    mean, width, place = p.loc / q.scale, (p.scale / q.scale) ** 2, q.loc / q.scale
    return -p.entropy() + q.scale.log() + mean - place + (-mean + 0.5 * width + place).exp()


@register_kl(Normal, Laplace)
def _normal_laplace(p: Any, q: Any) -> Tensor:
    away = p.loc - q.loc
    z = away / p.scale
    distance = math.sqrt(2 / math.pi) * p.scale * (-0.5 * z**2).exp() + away * (z / math.sqrt(2)).erf()
    return distance / q.scale + (2 * q.scale / p.scale).log() - 0.5 * (1 + math.log(2 * math.pi))


@register_kl(Pareto, Exponential)
def _pareto_exponential(p: Any, q: Any) -> Tensor:
    product = p.scale * q.rate
    divergence = (p.alpha / product).log() - 1 / p.alpha + p.alpha * product / (p.alpha - 1) - 1
    return where(p.alpha <= 1, _infinite(divergence), divergence)


@register_kl(Pareto, Gamma)
def _pareto_gamma(p: Any, q: Any) -> Tensor:
    logs = p.scale.log() + 1 / p.alpha
    divergence = -p.entropy() + lgamma(q.concentration) - q.concentration * q.rate.log() - (q.concentration - 1) * logs
    divergence = divergence + q.rate * p.alpha * p.scale / (p.alpha - 1)
    return where(p.alpha <= 1, _infinite(divergence), divergence)


@register_kl(Pareto, Normal)
def _pareto_normal(p: Any, q: Any) -> Tensor:
    a = where(p.alpha <= 2, p.alpha.detach() * 0 + 3, p.alpha)
    mean, second = a * p.scale / (a - 1), a * p.scale**2 / (a - 2)
    squares = second - 2 * q.loc * mean + q.loc**2
    divergence = -p.entropy() + q.scale.log() + _HALF_LOG_2PI + squares / (2 * q.scale**2)
    return where(p.alpha <= 2, _infinite(divergence), divergence)


def _width(p: Any) -> Tensor:
    return p.high - p.low


def _x_log_x(x: Tensor) -> Tensor:
    return x.xlogy(x)


@register_kl(Uniform, Beta)
def _uniform_beta(p: Any, q: Any) -> Tensor:
    a, b, width = q.concentration1, q.concentration0, _width(p)
    norm = lgamma(a) + lgamma(b) - lgamma(a + b)
    logs = (_x_log_x(p.high) - _x_log_x(p.low) - width) / width
    rests = (_x_log_x(1 - p.high) - _x_log_x(1 - p.low) + width) / width
    divergence = -width.log() + norm - (a - 1) * logs + (b - 1) * rests
    return where((p.high > 1) | (p.low < 0), _infinite(divergence), divergence)


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_continuous_bernoulli(p: Any, q: Any) -> Tensor:
    divergence = -p.entropy() - p.mean * q.logits - (-q.probs).log1p() - q._log_norm()
    return where((p.high > 1) | (p.low < 0), _infinite(divergence), divergence)


@register_kl(Uniform, Exponential)
def _uniform_exponential(p: Any, q: Any) -> Tensor:
    divergence = q.rate * (p.high + p.low) / 2 - (_width(p) * q.rate).log()
    return where(p.low < 0, _infinite(divergence), divergence)


@register_kl(Uniform, Gamma)
def _uniform_gamma(p: Any, q: Any) -> Tensor:
    width = _width(p)
    logs = (_x_log_x(p.high) - _x_log_x(p.low) - width) / width
    divergence = -width.log() + lgamma(q.concentration) - q.concentration * q.rate.log() - (q.concentration - 1) * logs
    divergence = divergence + q.rate * (p.high + p.low) / 2
    return where(p.low < 0, _infinite(divergence), divergence)


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Any, q: Any) -> Tensor:
    scaled = q.scale / _width(p)
    low, high = (q.loc - p.low) / q.scale, (q.loc - p.high) / q.scale
    return scaled.log() + 0.5 * (low**2 - high**2) * -scaled + scaled * (low.exp() - high.exp())


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Any, q: Any) -> Tensor:
    width = _width(p)
    logs = (_x_log_x(p.high) - _x_log_x(p.low) - width) / width
    divergence = -width.log() - q.alpha.log() - q.alpha * q.scale.log() + (q.alpha + 1) * logs
    return where(p.low < q.scale, _infinite(divergence), divergence)


# --- q has no place for values that p has ----------------------------------------------------------------------------------------


def _never(p: Any, q: Any) -> Tensor:
    return _infinite(p.mean + q.mean)


_OUTSIDE = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gamma: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gumbel: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Laplace: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Normal: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Pareto: (Beta, ContinuousBernoulli, Uniform),
    Poisson: (Bernoulli, Binomial),
}
for _one, _others in _OUTSIDE.items():
    for _other in _others:
        register_kl(_one, _other)(_never)


@register_kl(Beta, Uniform)
@register_kl(ContinuousBernoulli, Uniform)
def _shares_uniform(p: Any, q: Any) -> Tensor:
    divergence = -p.entropy() + (q.high - q.low).log()
    return where((q.high < 1) | (q.low > 0), _infinite(divergence), divergence)
