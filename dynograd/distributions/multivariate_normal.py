"""The normal distribution of vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dynograd.base.shapes import broadcast_shapes
from dynograd.base.signatures import without_private
from dynograd.distributions import constraints
from dynograd.distributions.distribution import Distribution
from dynograd.distributions.utils import lazy_property
from dynograd.ops.linalg.linear_systems import cholesky_inverse, linalg_cholesky, linalg_solve_triangular
from dynograd.tensor.creation import eye
from dynograd.tensor.randomness import randn
from dynograd.tensor.tensor import Tensor

__all__ = ["MultivariateNormal"]


class MultivariateNormal(Distribution):
    """Normal vectors of mean `loc`, given one of the covariance, its inverse (`precision_matrix`) or its lower root (`scale_tril`).

    Args:
        loc (..., D): the mean.
        covariance_matrix, precision_matrix, scale_tril (..., D, D): exactly one of them; the last is lower triangular with a positive
            diagonal, and spares a factorization.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Raises:
        ValueError: not exactly one matrix is given, shapes do not fit, or a matrix is not positive definite.

    >>> m = dynograd.distributions.MultivariateNormal(dynograd.zeros(2), dynograd.eye(2))
    >>> m.log_prob(dynograd.zeros(2))
    tensor(-1.8379)
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
        matrices = {
            "covariance_matrix": covariance_matrix,
            "scale_tril": scale_tril,
            "precision_matrix": precision_matrix,
        }
        passed = {name: matrix for name, matrix in matrices.items() if matrix is not None}
        if len(passed) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        ((name, matrix),) = passed.items()
        if matrix.ndim < 2:
            raise ValueError(f"{name} matrix must be at least two-dimensional, with optional leading batch dimensions")
        size = loc.shape[-1]
        batch = broadcast_shapes("MultivariateNormal", tuple(matrix.shape[:-2]), tuple(loc.shape[:-1]))
        setattr(self, name, matrix.expand(*batch, *matrix.shape[-2:]))
        self.loc = loc.expand(*batch, size)
        super().__init__(batch, (size,), validate_args=validate_args)
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = linalg_cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(matrix)

    @without_private
    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        size = self._event_shape[0]
        expanded = self._expanded(batch_shape, _instance)
        expanded.loc = self.loc.expand(*batch_shape, size)
        expanded._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        for name in ("covariance_matrix", "scale_tril", "precision_matrix"):
            if name in self.__dict__:
                setattr(expanded, name, getattr(self, name).expand(*batch_shape, size, size))
        return expanded

    def _batched(self, matrix: Tensor) -> Tensor:
        size = self._event_shape[0]
        return matrix.expand(*self._batch_shape, size, size)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower triangular root of the covariance."""
        return self._batched(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        return self._batched(self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        return self._batched(cholesky_inverse(self._unbroadcasted_scale_tril))

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return (self._unbroadcasted_scale_tril**2).sum(-1).expand(*self._batch_shape, *self._event_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        noise = randn(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, noise)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        distance = _batch_mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - self._half_log_det()

    def entropy(self) -> Tensor:
        entropy = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._half_log_det()
        return entropy.expand(tuple(self._batch_shape))

    def _half_log_det(self) -> Tensor:
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)


# --- by PyTorch's names, which packages import ---------------------------------------------------------------------------------


def _batch_mv(bmat: Tensor, bvec: Tensor) -> Tensor:
    """Products of matrices (..., n, n) and vectors (..., n)."""
    return (bmat @ bvec.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(bL: Tensor, bx: Tensor) -> Tensor:
    """Squared Mahalanobis distances of vectors (..., n), given lower roots (..., n, n) of covariances."""
    return (linalg_solve_triangular(bL, bx.unsqueeze(-1), upper=False) ** 2).sum((-2, -1))


def _precision_to_scale_tril(P: Tensor) -> Tensor:
    """The lower root of the inverse of P (..., n, n)."""
    # P = L L^T, mirrored: the inverse's lower root is the inverse of the mirrored one's transpose.
    mirrored = linalg_cholesky(P.flip((-2, -1)))
    upper = mirrored.flip((-2, -1)).mT
    identity = eye(P.shape[-1], dtype=P.dtype, device=P.device)
    return linalg_solve_triangular(upper, identity, upper=False)
