"""Probability distributions under PyTorch's names (`torch.distributions`): sampling, densities, moments and their gradients.

>>> m = dynograd.distributions.Categorical(tensor([0.0, 0.0, 1.0]))
>>> m.sample((2,))
tensor([2, 2])
"""

from dynograd.base.listing import lists
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.distributions import constraints, kl, kl_of_families, transforms
from dynograd.distributions.bernoulli import Bernoulli, Binomial, Geometric
from dynograd.distributions.categorical import Categorical, OneHotCategorical, OneHotCategoricalStraightThrough
from dynograd.distributions.constraint_registry import biject_to, transform_to
from dynograd.distributions.counts import Multinomial, NegativeBinomial
from dynograd.distributions.dirichlet import Beta, Dirichlet
from dynograd.distributions.distribution import Distribution, ExponentialFamily
from dynograd.distributions.exponential import Exponential
from dynograd.distributions.gamma import Chi2, Gamma
from dynograd.distributions.gumbel import Gumbel
from dynograd.distributions.heavy_tailed import (
    Cauchy,
    FisherSnedecor,
    GeneralizedPareto,
    HalfCauchy,
    Pareto,
    StudentT,
)
from dynograd.distributions.independent import Independent
from dynograd.distributions.kl import kl_divergence, register_kl
from dynograd.distributions.laplace import Laplace
from dynograd.distributions.matrices import LKJCholesky, LowRankMultivariateNormal, Wishart
from dynograd.distributions.mixtures import MixtureSameFamily
from dynograd.distributions.multivariate_normal import MultivariateNormal
from dynograd.distributions.normal import Normal
from dynograd.distributions.poisson import Poisson
from dynograd.distributions.relaxed import ContinuousBernoulli, RelaxedBernoulli, RelaxedOneHotCategorical
from dynograd.distributions.transformed_distribution import LogNormal, TransformedDistribution
from dynograd.distributions.transformed_families import HalfNormal, InverseGamma, Kumaraswamy, LogisticNormal, Weibull
from dynograd.distributions.transforms import *
from dynograd.distributions.transforms import __all__ as _transforms
from dynograd.distributions.uniform import Uniform
from dynograd.distributions.von_mises import VonMises

__all__ = [
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ContinuousBernoulli",
    "Dirichlet",
    "Distribution",
    "Exponential",
    "ExponentialFamily",
    "FisherSnedecor",
    "Gamma",
    "GeneralizedPareto",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "InverseGamma",
    "Kumaraswamy",
    "LKJCholesky",
    "Laplace",
    "LogNormal",
    "LogisticNormal",
    "LowRankMultivariateNormal",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "StudentT",
    "TransformedDistribution",
    "Uniform",
    "VonMises",
    "Weibull",
    "Wishart",
    "biject_to",
    "kl_divergence",
    "register_kl",
    "transform_to",
]
__all__ += _transforms
__dir__ = lists(__name__, __all__)

_show_plainly(globals())
