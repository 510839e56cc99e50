"""Probability distributions under PyTorch's names (`torch.distributions`): sampling, densities, moments and their gradients.

>>> m = dynograd.distributions.Categorical(tensor([0.0, 0.0, 1.0]))
>>> m.sample((2,))
tensor([2, 2])
"""

from dynograd.distributions import constraints, kl, transforms
from dynograd.distributions.bernoulli import Bernoulli, Binomial, Geometric
from dynograd.distributions.categorical import Categorical, OneHotCategorical, OneHotCategoricalStraightThrough
from dynograd.distributions.dirichlet import Beta, Dirichlet
from dynograd.distributions.distribution import Distribution
from dynograd.distributions.exponential import Exponential
from dynograd.distributions.gamma import Chi2, Gamma
from dynograd.distributions.gumbel import Gumbel
from dynograd.distributions.independent import Independent
from dynograd.distributions.kl import kl_divergence, register_kl
from dynograd.distributions.laplace import Laplace
from dynograd.distributions.multivariate_normal import MultivariateNormal
from dynograd.distributions.normal import Normal
from dynograd.distributions.poisson import Poisson
from dynograd.distributions.transformed_distribution import LogNormal, TransformedDistribution
from dynograd.distributions.transforms import *
from dynograd.distributions.transforms import __all__ as _transforms
from dynograd.distributions.uniform import Uniform

__all__ = [
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Chi2",
    "Dirichlet",
    "Distribution",
    "Exponential",
    "Gamma",
    "Geometric",
    "Gumbel",
    "Independent",
    "Laplace",
    "LogNormal",
    "MultivariateNormal",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Poisson",
    "TransformedDistribution",
    "Uniform",
    "kl_divergence",
    "register_kl",
]
__all__ += _transforms
