"""Distributions of matrices (Wishart, LKJ) and normal vectors whose covariance is of low rank plus a diagonal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dynograd.base import dtypes
from dynograd.base.shapes import broadcast_shapes
from dynograd.base.signatures import without_private
from dynograd.distributions import constraints
from dynograd.distributions.dirichlet import Beta
from dynograd.distributions.distribution import Distribution, ExponentialFamily
from dynograd.distributions.gamma import Chi2
from dynograd.distributions.utils import lazy_property
from dynograd.ops.elementwise.special_functions import digamma, lgamma, mvlgamma
from dynograd.ops.layout.joins import cat
from dynograd.ops.linalg.determinants import linalg_slogdet
from dynograd.ops.linalg.linear_systems import cholesky_inverse, linalg_cholesky, linalg_solve_triangular
from dynograd.tensor.creation import arange, eye
from dynograd.tensor.randomness import randn
from dynograd.tensor.tensor import Tensor

__all__ = ["LKJCholesky", "LowRankMultivariateNormal", "Wishart"]


class LowRankMultivariateNormal(Distribution):
    """Normal vectors of D numbers with the covariance `cov_factor` `cov_factor`^T + diag(`cov_diag`).

    Args:
        loc (..., D): the mean.
        cov_factor (..., D, R): R directions; costs grow with R, not with D (Woodbury's identity).
        cov_diag (..., D): positive.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Raises:
        ValueError: shapes do not fit, or an element of `cov_diag` is not positive.

    >>> m = dynograd.distributions.LowRankMultivariateNormal(dynograd.zeros(2), dynograd.ones(2, 1), dynograd.ones(2))
    >>> m.covariance_matrix
    tensor([[2., 1.],
            [1., 2.]])
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None) -> None:
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
        size = loc.shape[-1]
        if cov_factor.ndim < 2 or cov_factor.shape[-2] != size:
            raise ValueError(
                f"cov_factor must be a batch of matrices with shape {size} x m, got shape {tuple(cov_factor.shape)} for loc of shape "
                f"{tuple(loc.shape)}."
            )
        if cov_diag.ndim < 1 or cov_diag.shape[-1] != size:
            raise ValueError(
                f"cov_diag must be a batch of vectors with shape ({size},), got shape {tuple(cov_diag.shape)}."
            )
        batch = broadcast_shapes(
            "LowRankMultivariateNormal", tuple(loc.shape[:-1]), tuple(cov_factor.shape[:-2]), tuple(cov_diag.shape[:-1])
        )
        self.loc = loc.expand(*batch, size)
        self.cov_factor, self.cov_diag = (
            cov_factor.expand(*batch, *cov_factor.shape[-2:]),
            cov_diag.expand(*batch, size),
        )
        self._factor, self._diag = cov_factor, cov_diag
        self._root = _capacitance_root(cov_factor, cov_diag)
        super().__init__(batch, (size,), validate_args=validate_args)

    @without_private
    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        expanded = self._expanded(batch_shape, _instance)
        expanded.loc = self.loc.expand(*batch_shape, *self._event_shape)
        expanded.cov_factor = self.cov_factor.expand(*batch_shape, *self.cov_factor.shape[-2:])
        expanded.cov_diag = self.cov_diag.expand(*batch_shape, *self._event_shape)
        expanded._factor, expanded._diag, expanded._root = self._factor, self._diag, self._root
        return expanded

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return ((self._factor**2).sum(-1) + self._diag).expand(*self._batch_shape, *self._event_shape)

    def _whole(self, matrix: Tensor) -> Tensor:
        size = self._event_shape[0]
        return matrix.expand(*self._batch_shape, size, size)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        return self._whole(self._factor @ self._factor.mT + self._diag.diag_embed())

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower triangular root of the covariance."""
        return self._whole(linalg_cholesky(self._factor @ self._factor.mT + self._diag.diag_embed()))

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        a = linalg_solve_triangular(self._root, self._factor.mT / self._diag.unsqueeze(-2), upper=False)
        return self._whole(self._diag.reciprocal().diag_embed() - a.mT @ a)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        like = {"dtype": self.loc.dtype, "device": self.loc.device}
        along = randn((*shape[:-1], self.cov_factor.shape[-1]), **like)
        alone = randn(shape, **like)
        return self.loc + (self._factor @ along.unsqueeze(-1)).squeeze(-1) + self._diag.sqrt() * alone

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        distance = _low_rank_distance(self._factor, self._diag, value - self.loc, self._root)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self._log_det() + distance)

    def entropy(self) -> Tensor:
        entropy = 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._log_det())
        return entropy.expand(tuple(self._batch_shape))

    def _log_det(self) -> Tensor:
        return 2 * self._root.diagonal(dim1=-2, dim2=-1).log().sum(-1) + self._diag.log().sum(-1)


def _capacitance_root(factor: Tensor, diag: Tensor) -> Tensor:
    """The lower root of I + W^T D^-1 W."""
    rank = factor.shape[-1]
    inner = (factor.mT / diag.unsqueeze(-2)) @ factor
    return linalg_cholesky(inner + eye(rank, dtype=factor.dtype, device=factor.device))


def _low_rank_distance(factor: Tensor, diag: Tensor, x: Tensor, root: Tensor) -> Tensor:
    """x^T (W W^T + D)^-1 x."""
    inner = ((factor.mT / diag.unsqueeze(-2)) @ x.unsqueeze(-1)).squeeze(-1)
    reduced = linalg_solve_triangular(root, inner.unsqueeze(-1), upper=False)
    return (x**2 / diag).sum(-1) - (reduced**2).sum((-2, -1))


class LKJCholesky(Distribution):
    """Lower roots of (dim, dim) correlation matrices with density proportional to determinant^(concentration - 1).

    Args:
        dim: size of the matrices, at least 2.
        concentration: positive, of any shape; 1 is uniform over correlation matrices, larger values stay near the identity.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Raises:
        ValueError: `dim` is below 2, or `concentration` not positive.
    Source: Lewandowski, Kurowicka, Joe, Generating random correlation matrices, 2009 (the onion method).

    >>> dynograd.distributions.LKJCholesky(3, 0.5).sample().shape
    dynograd.Size([3, 3])
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Tensor | float = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        from dynograd.distributions.utils import broadcast_all

        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args=validate_args)
        like: dict[str, Any] = {"dtype": self.concentration.dtype, "device": self.concentration.device}
        offset = cat([arange(0.0, 1.0, **like), arange(0.0, float(dim - 1), **like)])
        above = 0.5 * offset + 0.5  # PyTorch has `offset + 0.5`, whose samples have another density than its log_prob
        below = (self.concentration + 0.5 * (dim - 2)).unsqueeze(-1) - 0.5 * offset
        self._beta = Beta(above, below, validate_args=False)

    @without_private
    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        expanded = self._expanded(batch_shape, _instance)
        expanded.dim, expanded.concentration = self.dim, self.concentration.expand(batch_shape)
        expanded._beta = self._beta.expand((*batch_shape, self.dim))
        return expanded

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        from dynograd.autograd import no_grad

        with no_grad():
            kind = self.concentration.dtype
            shares = self._beta.sample(sample_shape).unsqueeze(-1)
            noise = randn(self._extended_shape(sample_shape), dtype=kind, device=shares.device).tril(-1)
            length = (noise**2).sum(-1, keepdim=True).sqrt()
            rows = shares.sqrt() * noise / length.clamp(min=float(dtypes.finfo(kind).tiny))
            left = (1 - (rows**2).sum(-1)).clamp(min=float(dtypes.finfo(kind).tiny)).sqrt()
            return rows + left.diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = arange(2.0, self.dim + 1.0, dtype=self.concentration.dtype, device=self.concentration.device)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        weight = (order * diagonal.log()).sum(-1)
        fewer = self.dim - 1
        alpha = self.concentration + 0.5 * fewer
        norm = 0.5 * fewer * math.log(math.pi) + mvlgamma(alpha - 0.5, fewer) - lgamma(alpha) * fewer
        return weight - norm


class Wishart(ExponentialFamily):
    """Sums of `df` outer products of normal vectors with a covariance: random positive definite (p, p) matrices.

    Samples by Bartlett's decomposition.

    Args:
        df (...): degrees of freedom, above p - 1.
        covariance_matrix, precision_matrix, scale_tril (..., p, p): one of them; the covariance, its inverse or its lower root.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Raises:
        ValueError: not exactly one matrix is given, or a parameter is out of range.

    >>> dynograd.distributions.Wishart(tensor(3.0), covariance_matrix=dynograd.eye(2)).mean
    tensor([[3., 0.],
            [0., 3.]])
    """

    support = constraints.positive_definite
    has_rsample = True

    @property
    def arg_constraints(self) -> Any:
        """What each parameter must satisfy."""
        return {
            "df": constraints.greater_than(self._event_shape[-1] - 1),
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
        }

    def __init__(
        self,
        df: Tensor | float,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        matrices = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        chosen = [(name, matrix) for name, matrix in matrices.items() if matrix is not None]
        if len(chosen) != 1:
            raise ValueError(
                "Expected exactly one of covariance_matrix or precision_matrix or scale_tril to be specified."
            )
        name, matrix = chosen[0]
        if matrix.ndim < 2:
            raise ValueError(f"{name} must be at least two-dimensional, with optional leading batch dimensions")
        size = matrix.shape[-1]
        degrees: Any = df if isinstance(df, Tensor) else matrix.new_full((), df)
        batch = broadcast_shapes("Wishart", tuple(degrees.shape), tuple(matrix.shape[:-2]))
        if not bool((degrees > size - 1).all()):
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {size - 1}.")
        self.df = degrees.expand(batch)
        setattr(self, name, matrix.expand(*batch, size, size))
        self._event_shape = matrix.shape[-2:]
        super().__init__(batch, (size, size), validate_args=validate_args)
        if name == "scale_tril":
            self._root = matrix
        elif name == "covariance_matrix":
            self._root = linalg_cholesky(matrix)
        else:
            self._root = linalg_cholesky(cholesky_inverse(linalg_cholesky(matrix)))

    @without_private
    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        expanded = self._expanded(batch_shape, _instance)
        size = self._event_shape[-1]
        expanded.df, expanded._root = self.df.expand(batch_shape), self._root
        for name in ("covariance_matrix", "scale_tril", "precision_matrix"):
            if name in self.__dict__:
                setattr(expanded, name, getattr(self, name).expand(*batch_shape, size, size))
        return expanded

    def _batched(self, matrix: Tensor) -> Tensor:
        return matrix.expand(*self._batch_shape, *self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower triangular root of the covariance."""
        return self._batched(self._root)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance of the normal vectors."""
        return self._batched(self._root @ self._root.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        return self._batched(cholesky_inverse(self._root))

    @property
    def _degrees(self) -> Tensor:
        return self.df[..., None, None]

    @property
    def mean(self) -> Tensor:
        return self._degrees * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self._degrees - self._event_shape[-1] - 1
        return factor.masked_fill(factor <= 0, float("nan")) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        v = self.covariance_matrix
        diagonal = v.diagonal(dim1=-2, dim2=-1)
        return self._degrees * (v**2 + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def rsample(self, sample_shape: Sequence[int] = (), max_try_correction: int | None = None) -> Tensor:
        """Random positive definite matrices.

        Args:
            sample_shape: shape of the sample; () is one matrix of each variable.
            max_try_correction: kept for compatibility; the factors' diagonals are kept from 0 in the first place.
        Returns:
            (*sample_shape, *batch_shape, p, p).
        """
        return self._bartlett_sampling(sample_shape)

    def _bartlett_sampling(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """The draws, by Bartlett's decomposition; under PyTorch's name, which packages call (PEFT's MonteCLoRA)."""
        size = self._event_shape[-1]
        like: dict[str, Any] = {"dtype": self._root.dtype, "device": self._root.device}
        shape = self._extended_shape(sample_shape)
        squares = Chi2(self.df.unsqueeze(-1) - arange(float(size), **like), validate_args=False).rsample(sample_shape)
        noise = (
            randn(shape, **like).tril(-1)
            + squares.clamp(min=float(dtypes.finfo(like["dtype"]).tiny)).sqrt().diag_embed()
        )
        root = self._root @ noise
        return root @ root.mT

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        nu, size = self.df, self._event_shape[-1]
        root = linalg_cholesky(value)
        inner = linalg_solve_triangular(self._root, root, upper=False)
        logdet = 2 * root.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return (
            -nu * (size * math.log(2.0) / 2 + self._half_log_det())
            - mvlgamma(nu / 2, size)
            + (nu - size - 1) / 2 * logdet
            - (inner**2).sum((-2, -1)) / 2
        )

    _mean_carrier_measure = 0.0

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        size = self._event_shape[-1]
        half = y + (size + 1) / 2
        return half * (size * math.log(2.0) - linalg_slogdet(-2 * x)[1]) + mvlgamma(half, size)

    def entropy(self) -> Tensor:
        nu, size = self.df, self._event_shape[-1]
        places = arange(float(size), dtype=nu.dtype, device=nu.device)
        slope = digamma(nu.unsqueeze(-1) / 2 - places / 2).sum(-1)
        norm = (size + 1) * (size * math.log(2.0) / 2 + self._half_log_det())
        return norm + mvlgamma(nu / 2, size) - (nu - size - 1) / 2 * slope + nu * size / 2

    def _half_log_det(self) -> Tensor:
        return self._root.diagonal(dim1=-2, dim2=-1).log().sum(-1)
