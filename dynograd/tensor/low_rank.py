"""The leading singular vectors of large matrices, from products with random ones: `svd_lowrank`, `pca_lowrank`."""

from __future__ import annotations

from typing import Any

from dynograd.base.shapes import check_tensor
from dynograd.errors import DtypeError, ShapeError
from dynograd.ops.linalg.factorizations import linalg_qr, linalg_svd
from dynograd.ops.linalg.linear_systems import adjoint_of
from dynograd.ops.matmul.matmuls import matmul
from dynograd.ops.reduce.reductions import mean
from dynograd.tensor.randomness import randn
from dynograd.tensor.tensor import Tensor

__all__ = ["pca_lowrank", "svd_lowrank"]


def svd_lowrank(A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None) -> tuple:
    """(U, S, V) with `U @ diag(S) @ V.mH` near the matrices `A - M`, by the largest `q` singular values (a little below the true ones).

    Args:
        A (*, m, n): matrices whose singular values beyond the q-th are small.
        q: how many; a little more than the rank that is wanted.
        niter: how often a random basis is improved by products with A and its adjoint.
        M: what is taken from A first; broadcasts with it.
    Returns:
        U (*, m, q), S (*, q), V (*, n, q).
    Source: Halko, Martinsson and Tropp, Finding structure with randomness, 2009 (arXiv:0909.4061), algorithms 4.4 and 5.1.

    >>> U, S, V = dynograd.svd_lowrank(dynograd.ones(4, 3), q=1)
    >>> f"{S.item():.3f}"
    '3.464'
    """
    q, niter = 6 if q is None else q, 2 if niter is None else niter
    if M is not None:
        check_tensor("svd_lowrank", "M", M)
    matrix = A if M is None else A - M
    wide = matrix.shape[-2] < matrix.shape[-1]
    if wide:
        matrix = adjoint_of(matrix)
    basis = _range(matrix, q, niter)
    inner, values, right = linalg_svd(matmul(adjoint_of(basis), matrix), False)
    left, right = matmul(basis, inner), adjoint_of(right)
    return (right, values, left) if wide else (left, values, right)


def _range(A: Any, q: int, niter: int) -> Tensor:
    """An orthonormal basis of `q` vectors near the range of `A`."""
    back = adjoint_of(A)
    basis = linalg_qr(matmul(A, randn(*A.shape[:-2], A.shape[-1], q, dtype=A.dtype, device=A.device)))[0]
    for _ in range(niter):
        basis = linalg_qr(matmul(A, linalg_qr(matmul(back, basis))[0]))[0]
    return basis


def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> tuple:
    """(U, S, V) of `svd_lowrank` for data of samples (rows) and features (columns): V holds the principal directions.

    Args:
        A (*, m, n): samples in rows.
        q: how many; min(6, m, n) by default.
        center: whether the columns' means are taken away first.
        niter: how many rounds of refinement.
    Returns:
        U (*, m, q), S (*, q), V (*, n, q).
    Raises:
        ShapeError: q is negative or larger than the smaller size.

    >>> U, S, V = dynograd.pca_lowrank(tensor([[1.0, 0.0], [3.0, 0.0]]), q=1)
    >>> f"{S.item():.3f}"
    '1.414'
    """
    if not (A.dtype.is_floating_point or A.dtype.is_complex):
        raise DtypeError(f"pca_lowrank: expected a floating point or complex tensor, got {A.dtype}. Use A.float().")
    rows, columns = A.shape[-2:]
    q = min(6, rows, columns) if q is None else q
    if not 0 <= q <= min(rows, columns):
        raise ShapeError(
            f"pca_lowrank: q(={q}) must be non-negative integer and not greater than min(m, n)={min(rows, columns)}."
        )
    if niter < 0:
        raise ShapeError(f"pca_lowrank: niter(={niter}) must be non-negative integer.")
    return svd_lowrank(A - mean(A, -2, True) if center else A, q, niter)
