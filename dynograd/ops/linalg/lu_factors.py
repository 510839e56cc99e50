"""LU factorizations with rows exchanged, and systems solved by them."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from dynograd import arrays
from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.base.shown_names import show_in_lines
from dynograd.errors import DtypeError, IndexRangeError, ShapeError
from dynograd.kernels import kernel
from dynograd.ops.index.indexing import get_basic
from dynograd.ops.layout.joins import cat
from dynograd.ops.layout.views import reshaped
from dynograd.ops.linalg.linear_systems import (
    check_matrices,
    check_one_dtype,
    exchanged,
    linalg_solve_triangular,
    triangular_solutions,
    with_state,
)
from dynograd.ops.linalg.triangles import tril, triu
from dynograd.ops.matmul.matmuls import _adjoint as adjoint_of
from dynograd.ops.matmul.matmuls import matmul
from dynograd.ops.matmul.matrix_products import identity_like
from dynograd.ops.op import Gradients, composed, op
from dynograd.ops.row import Row

__all__ = ["lu_factors"]

FAMILY = Row(ragged="groups")


@op(name="linalg_lu_factor_ex", outputs="LU pivots info", saves="output")
def lu_factors(A: Array, check: bool) -> tuple[Array, Array, Array]:
    """(L below and U on and above the diagonal, pivots, 0 or where a zero stands on the diagonal of U)."""
    return with_state(
        check,
        "linalg.lu_factor",
        kernel("linear_algebra", "lu", A)(A),
        "U[{number},{number}] is zero and using it on lu_solve would divide by zero.",
    )


@lu_factors.backward
def lu_factors_backward(g: Any, saved: Any, check: Any) -> Gradients:
    packed, pivots, _ = saved.output
    rows, columns = packed.shape[-2:]
    count = min(rows, columns)
    grad = g[0]
    square, g_square = _block(packed, 0, count, 0, count), _block(grad, 0, count, 0, count)
    identity = identity_like(square)
    lower, upper = tril(square, -1) + identity, triu(square)
    left, right = matmul(adjoint_of(lower), tril(g_square, -1)), matmul(triu(g_square), adjoint_of(upper))
    beside = below = None
    if columns > rows:
        beside = _block(grad, 0, rows, rows, columns)
        left = left - matmul(beside, adjoint_of(_block(packed, 0, rows, rows, columns)))
    if rows > columns:
        below = _block(grad, columns, rows, 0, columns)
        right = right - matmul(adjoint_of(_block(packed, columns, rows, 0, columns)), below)
    inner = triangular_solutions(adjoint_of(lower), tril(left, -1) + triu(right), True, True)
    adjoint = adjoint_of(triangular_solutions(upper, adjoint_of(inner), True, False))
    if beside is not None:
        adjoint = cat([adjoint, triangular_solutions(adjoint_of(lower), beside, True, True)], -1)
    if below is not None:
        adjoint = cat([adjoint, adjoint_of(triangular_solutions(upper, adjoint_of(below), True, False))], -2)
    return (matmul(permutation_of(pivots, rows, packed.dtype), adjoint),)


def _block(input: Any, top: int, bottom: int, left: int, right: int) -> Array:
    return get_basic(input, (Ellipsis, slice(top, bottom), slice(left, right)))


@op(name="lu_permutation", differentiable=False, inner=True)
def permutation_of(pivots: Array, rows: int, dtype: Any) -> Array:
    """The matrices P of the row exchanges `pivots`, so that A = P @ L @ U."""
    return kernel("linear_algebra", "permutation", pivots)(pivots, rows, getattr(dtype, "numpy", dtype))


@composed(covers="linalg_lu_factor_ex")
def linalg_lu_factor_ex(A: Any, *, pivot: bool = True, check_errors: bool = False) -> tuple[Array, Array, Array]:
    """(LU, pivots, info): `lu_factor` with info, the place of a zero on the diagonal of U, or 0.

    Args:
        A (*, M, N): matrices.
        pivot: exchange rows; the only way here.
        check_errors: raise where info is not 0.
    Returns:
        A named tuple: `LU` (*, M, N), `pivots` (*, min(M, N)) int32, `info` (*) int32.

    >>> dynograd.linalg.lu_factor_ex(tensor([[4.0, 2.0], [2.0, 5.0]])).info
    tensor(0, dtype=dynograd.int32)
    """
    check_matrices("linalg.lu_factor", A)
    if not pivot:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU. Leave pivot=True.")
    return lu_factors(A, bool(check_errors))


lu_factor_result = namedtuple("linalg_lu_factor", "LU pivots")  # type: ignore[name-match]
show_in_lines(lu_factor_result)


@composed()
def linalg_lu_factor(A: Any, *, pivot: bool = True) -> lu_factor_result:
    """(L and U in one matrix, row exchanges counted from 1), for `lu_solve`.

    Args:
        A (*, M, N): matrices.
        pivot: exchange rows; the only way here.
    Returns:
        A named tuple: `LU` (*, M, N), `pivots` (*, min(M, N)) int32.

    >>> dynograd.linalg.lu_factor(tensor([[1.0, 2.0], [2.0, 2.0]])).LU
    tensor([[2.0000, 2.0000],
            [0.5000, 1.0000]])
    """
    return lu_factor_result(*linalg_lu_factor_ex(A, pivot=pivot)[:2])


lu_result = namedtuple("linalg_lu", "P L U")  # type: ignore[name-match]
show_in_lines(lu_result)
lu_unpack_result = namedtuple("lu_unpack", "P L U")  # type: ignore[name-match]
show_in_lines(lu_unpack_result)


@composed()
def linalg_lu(A: Any, *, pivot: bool = True) -> lu_result:
    """(P, L, U) with `A = P @ L @ U`: a permutation, a lower triangle with ones on its diagonal, an upper triangle.

    Args:
        A (*, M, N): matrices.
        pivot: exchange rows; the only way here.
    Returns:
        A named tuple: `P` (*, M, M), `L` (*, M, K), `U` (*, K, N), with K = min(M, N).

    >>> dynograd.linalg.lu(tensor([[1.0, 2.0], [2.0, 2.0]])).U
    tensor([[2., 2.],
            [0., 1.]])
    """
    return lu_result(*lu_unpack(*linalg_lu_factor(A, pivot=pivot)))


@composed()
def lu_unpack(LU_data: Any, LU_pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True) -> lu_unpack_result:
    """(P, L, U) of what `linalg.lu_factor` gave; empty tensors for what is not wanted.

    Args:
        LU_data (*, M, N), LU_pivots (*, min(M, N)): of `linalg.lu_factor`.
        unpack_data: give L and U.
        unpack_pivots: give P.
    Returns:
        A named tuple: `P` (*, M, M), `L` (*, M, K), `U` (*, K, N), with K = min(M, N).

    >>> dynograd.lu_unpack(*dynograd.linalg.lu_factor(tensor([[1.0, 2.0], [2.0, 2.0]]))).L
    tensor([[1.0000, 0.0000],
            [0.5000, 1.0000]])
    """
    rows, columns = check_matrices("lu_unpack", LU_data, name="LU_data")[-2:]
    count = min(rows, columns)
    nothing = get_basic(reshaped(LU_data.detach(), (-1,)), (slice(0, 0),))
    left = right = turned = nothing
    if unpack_data:
        left = tril(_block(LU_data, 0, rows, 0, count), -1)
        left = left + _wide_identity(left)
        right = triu(_block(LU_data, 0, count, 0, columns))
    if unpack_pivots:
        _check_pivots("lu_unpack", LU_pivots, rows)
        if tuple(LU_pivots.shape) != (*LU_data.shape[:-2], count):
            raise ShapeError(
                f"lu_unpack: expected one pivot for each row or column, shape {(*LU_data.shape[:-2], count)} for LU_data of shape "
                f"{tuple(LU_data.shape)}, got {tuple(LU_pivots.shape)}. Pass what lu_factor gave."
            )
        turned = permutation_of(LU_pivots, rows, LU_data.dtype)
    return lu_unpack_result(turned, left, right)


def _check_pivots(who: str, pivots: Any, rows: int) -> None:
    """Row exchanges as `lu_factor` counts them: from 1 to the number of rows."""
    array = getattr(pivots, "array", pivots)
    if pivots.dtype != dtypes.int32:
        raise DtypeError(f"{who}: pivots should be a Tensor of dtype int32, got {pivots.dtype}. Convert with .int().")
    if type(array) is arrays.ndarray and array.size and not (array.min() >= 1 and array.max() <= rows):
        raise IndexRangeError(
            f"{who}: pivots must be between 1 and LU.size(-2) = {rows} inclusive, got {array.min()} to {array.max()}. Pass what lu_factor gave."
        )


def _wide_identity(input: Any) -> Array:
    """Ones on the main diagonal, for matrices of any shape, as a constant."""
    raw = getattr(input, "array", input)
    return tril(triu(arrays.ones_like(raw)))


@composed()
def linalg_lu_solve(LU: Any, pivots: Any, B: Any, *, left: bool = True, adjoint: bool = False) -> Array:
    """X with `A @ X = B` for what `lu_factor(A)` gave (`X @ A = B` unless `left`; with A's adjoint if `adjoint`).

    Args:
        LU (*, N, N), pivots (*, N): of `lu_factor`.
        B (*, N, K): right sides; leading dims broadcast.
        left: False for `X @ A = B`.
        adjoint: solve with the adjoint of A.
    Returns:
        X, in the broadcast shape of B.

    >>> dynograd.linalg.lu_solve(*dynograd.linalg.lu_factor(tensor([[2.0]])), tensor([[4.0]]))
    tensor([[2.]])
    """
    shape = check_matrices("linalg.lu_solve", LU, True, "LU")
    other = check_matrices("linalg.lu_solve", B, name="B")
    check_one_dtype("linalg.lu_solve", LU, B)
    if other[-2 if left else -1] != shape[-1]:
        raise ShapeError(
            f"linalg.lu_solve: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
            f"({shape[-2]}x{shape[-1]} and {other[-2]}x{other[-1]}): shapes {shape} and {other}."
        )
    if tuple(pivots.shape) != shape[:-1]:
        raise ShapeError(
            f"linalg.lu_solve: Expected LU.shape[:-1] and pivots.shape to be the same, but got pivots of shape {tuple(pivots.shape)} "
            f"for LU of shape {shape}."
        )
    _check_pivots("linalg.lu_solve", pivots, shape[-1])
    if not left:
        return adjoint_of(linalg_lu_solve(LU, pivots, adjoint_of(B), adjoint=not adjoint))
    turned = permutation_of(pivots, shape[-1], LU.dtype)
    if adjoint:
        half = linalg_solve_triangular(adjoint_of(LU), B, upper=False)
        return matmul(turned, linalg_solve_triangular(adjoint_of(LU), half, upper=True, unitriangular=True))
    half = linalg_solve_triangular(LU, matmul(exchanged(turned), B), upper=False, unitriangular=True)
    return linalg_solve_triangular(LU, half, upper=True)


@composed(method=True)
def lu_solve(input: Any, LU_data: Any, LU_pivots: Any) -> Array:
    """The older form of `linalg.lu_solve`, with its arguments in another order.

    Args:
        input (*, N, K): right sides; leading dims broadcast.
        LU_data (*, N, N), LU_pivots (*, N): of `linalg.lu_factor`.
    Returns:
        X, in the broadcast shape of `input`.

    >>> dynograd.lu_solve(tensor([[6.0], [7.0]]), *dynograd.linalg.lu_factor(tensor([[4.0, 2.0], [2.0, 5.0]])))
    tensor([[1.],
            [1.]])
    """
    return linalg_lu_solve(LU_data, LU_pivots, input)


@composed(method=True)
def lu(input: Any, pivot: bool = True, get_infos: bool = False) -> tuple[Array, ...]:
    """(LU, pivots), and infos if wanted: the older form of `linalg.lu_factor`.

    Args:
        input (*, M, N): matrices.
        pivot: exchange rows; the only way here.
        get_infos: also give infos.
    Returns:
        LU (*, M, N), pivots (*, min(M, N)) int32, and with `get_infos` infos (*) int32.

    >>> dynograd.lu(tensor([[4.0, 2.0], [2.0, 5.0]]))[0]
    tensor([[4.0000, 2.0000],
            [0.5000, 4.0000]])
    """
    result = linalg_lu_factor_ex(input, pivot=pivot)
    return tuple(result) if get_infos else tuple(result[:2])
