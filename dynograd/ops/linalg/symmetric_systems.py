"""Factors of symmetric and Hermitian matrices that need not be positive definite: functions of `dynograd.linalg`, with `linalg_` in front."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.base.shown_names import show_in_lines
from dynograd.errors import DtypeError, LinAlgError, ShapeError
from dynograd.kernels import kernel
from dynograd.ops.linalg.linear_systems import check_matrices, check_one_dtype
from dynograd.ops.op import composed, op
from dynograd.ops.row import Row

FAMILY = Row(ragged="groups")


@op(name="linalg_ldl_factor_ex", outputs="LD pivots info", differentiable=False)
def ldl_factors(A: Array, hermitian: bool, check: bool) -> tuple[Array, Array, Array]:
    """(L below D in one matrix, exchanges, 0 or where a zero stands on the diagonal of D)."""
    result = kernel("symmetric_factors", "bunch_kaufman", A)(A, hermitian)
    if check:
        failed = kernel("linear_algebra", "first_failure", result[2])(result[2])
        if failed is not None:
            place, number = failed
            batch = f" (Batch element {place})" if result[2].ndim else ""
            raise LinAlgError(
                f"linalg.ldl_factor:{batch} D[{number},{number}] is zero, so ldl_solve would divide by zero. "
                f"ldl_factor_ex gives the factors anyway."
            )
    return result


@composed(covers="linalg_ldl_factor_ex")
def linalg_ldl_factor_ex(A: Any, *, hermitian: bool = False, check_errors: bool = False) -> tuple[Array, Array, Array]:
    """(LD, pivots, info): `ldl_factor` with info, the place of a zero on the diagonal of D, or 0.

    Args:
        A (*, n, n): symmetric matrices.
        hermitian: complex ones are Hermitian instead.
        check_errors: raise where info is not 0.
    Returns:
        A named tuple: `LD` (*, n, n), `pivots` (*, n) int32, `info` (*) int32.

    >>> dynograd.linalg.ldl_factor_ex(dynograd.zeros(2, 2)).info.item()
    1
    """
    check_matrices("linalg.ldl_factor_ex", A, True)
    return ldl_factors(A, bool(hermitian), bool(check_errors))


ldl_result = namedtuple("linalg_ldl_factor", "LD pivots")  # type: ignore[name-match]
show_in_lines(ldl_result)


@composed()
def linalg_ldl_factor(A: Any, *, hermitian: bool = False) -> ldl_result:
    """(L and D in one matrix, row exchanges) of `A = L @ D @ L.mT`, for `ldl_solve`; there is no gradient, as in PyTorch.

    D has blocks of one or two rows on its diagonal; the exchanges of blocks of two are negative. Only the lower triangle of A is read.

    Args:
        A (*, n, n): symmetric matrices.
        hermitian: complex ones are Hermitian instead.
    Returns:
        A named tuple: `LD` (*, n, n), `pivots` (*, n) int32.
    Raises:
        LinAlgError: D has a zero on its diagonal.
    Source: Bunch, Kaufman, Some stable methods for calculating inertia and solving symmetric linear systems, 1977.

    >>> dynograd.linalg.ldl_factor(tensor([[4.0, 2.0], [2.0, 3.0]])).LD
    tensor([[4.0000, 0.0000],
            [0.5000, 2.0000]])
    """
    check_matrices("linalg.ldl_factor", A, True)
    return ldl_result(*ldl_factors(A, bool(hermitian), True)[:2])


@op(name="linalg_ldl_solve", differentiable=False, partly_at_once="pivots are checked by value")
def ldl_solutions(LD: Array, pivots: Array, B: Array, hermitian: bool) -> Array:
    """X with A @ X = B, of the factors of A."""
    return kernel("symmetric_factors", "bunch_kaufman_solution", LD)(LD, pivots, B, hermitian)


@composed(covers="linalg_ldl_solve")
def linalg_ldl_solve(LD: Any, pivots: Any, B: Any, *, hermitian: bool = False) -> Array:
    """X with `A @ X = B`, for what `ldl_factor(A)` gave; there is no gradient, as in PyTorch.

    Args:
        LD (*, n, n), pivots (*, n): of `ldl_factor`.
        B (*, n, k): right sides; leading dims broadcast.
        hermitian: as it was for `ldl_factor`.
    Returns:
        (*, n, k).

    >>> dynograd.linalg.ldl_solve(*dynograd.linalg.ldl_factor(tensor([[4.0, 2.0], [2.0, 3.0]])), tensor([[8.0], [8.0]]))
    tensor([[1.],
            [2.]])
    """
    who = "linalg.ldl_solve"
    shape, other = check_matrices(who, LD, True, "LD"), check_matrices(who, B, name="B")
    check_one_dtype(who, LD, B)
    if other[-2] != shape[-1]:
        raise ShapeError(f"{who}: Incompatible shapes of LD and B: {shape} and {other}. B must have {shape[-1]} rows.")
    if tuple(pivots.shape) != shape[:-1]:
        raise ShapeError(
            f"{who}: expected pivots of shape {shape[:-1]} for LD of shape {shape}, got {tuple(pivots.shape)}."
        )
    if pivots.dtype.is_floating_point or pivots.dtype.is_complex or pivots.dtype is dtypes.bool:
        raise DtypeError(f"{who}: Expected pivots to be integers, got {pivots.dtype}. Pass those of ldl_factor.")
    return ldl_solutions(LD, pivots, B, bool(hermitian))
