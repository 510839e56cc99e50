"""Pseudoinverse, rank and least squares, whose answers depend on which singular values count as zero: those not above a tolerance.

The tolerance is max(atol, rtol * the largest one). By default rtol is the precision of the dtype times the larger size of the matrix
(0 when an atol is given).
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from dynograd import arrays
from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.base.shapes import broadcast_shapes
from dynograd.base.shown_names import show_in_lines
from dynograd.errors import ShapeError
from dynograd.kernels import kernel
from dynograd.ops.elementwise.arithmetic import conj
from dynograd.ops.layout.broadcasting import stretch
from dynograd.ops.layout.views import reshaped
from dynograd.ops.linalg.factorizations import linalg_svdvals
from dynograd.ops.linalg.linear_systems import adjoint_of, check_matrices, check_one_dtype
from dynograd.ops.matmul.matmuls import matmul
from dynograd.ops.op import Gradients, composed, op
from dynograd.ops.reduce.reductions import sum
from dynograd.ops.row import Row

FAMILY = Row(ragged="groups")


def _plain(value: Any) -> Any:
    """A tolerance, a number or a tensor, as the kernel takes it."""
    if isinstance(value, str):
        raise TypeError(f"linalg: a tolerance (atol, rtol) must be a number or a Tensor, not str ({value!r}).")
    return getattr(value, "array", value)


@op(name="linalg_pinv", saves="input output")
def pseudoinverse(input: Array, atol: Any, rtol: Any, hermitian: bool) -> Array:
    """The inverse of what lies above the tolerance."""
    return kernel("linear_algebra", "pseudoinverse", input)(input, atol, rtol, hermitian)


@pseudoinverse.backward
def pseudoinverse_backward(g: Any, saved: Any, atol: Any, rtol: Any, hermitian: Any) -> Gradients:
    # Golub and Pereyra, The differentiation of pseudo-inverses, 1973
    a, p = saved.input, saved.output
    ph, gh = adjoint_of(p), adjoint_of(g)
    if a.shape[-2] <= a.shape[-1]:
        k = matmul(gh, p)
        kp = matmul(k, ph)
        return (kp - adjoint_of(matmul(p, k)) - matmul(matmul(a, p), kp) + matmul(matmul(ph, p), gh - matmul(k, a)),)
    k = matmul(p, gh)
    pk = matmul(ph, k)
    return (pk - adjoint_of(matmul(k, p)) + matmul(matmul(gh - matmul(a, k), p), ph) - matmul(matmul(pk, p), a),)


@composed(covers="linalg_pinv")
def linalg_pinv(A: Any, rcond: Any = None, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Array:
    """The pseudoinverse of each matrix: the inverse on its range, 0 beside it.

    Args:
        A (*, M, N): matrices.
        rcond: an older name of rtol.
        atol, rtol: singular values not above max(atol, rtol * largest) count as 0; `rcond` is an older name of rtol.
        hermitian: the matrices are Hermitian, which is faster.
    Returns:
        (*, N, M), in the dtype of A.

    >>> dynograd.linalg.pinv(tensor([[2.0, 0.0], [0.0, 0.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.0000]])
    """
    check_matrices("linalg.pinv", A, hermitian)
    return pseudoinverse(A, _plain(atol), _plain(rcond if rtol is None else rtol), bool(hermitian))


@composed(method=True, out=None)
def pinverse(input: Any, rcond: float = 1e-15) -> Array:
    """The older form of `linalg.pinv`.

    Args:
        input (*, M, N): matrices.
        rcond: singular values not above `rcond` times the largest count as 0.
    Returns:
        (*, N, M), in the dtype of `input`.

    >>> dynograd.pinverse(tensor([[2.0, 0.0], [0.0, 0.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.0000]])
    """
    return linalg_pinv(input, rcond)


@op(name="linalg_matrix_rank", differentiable=False)
def ranks(input: Array, atol: Any, rtol: Any, hermitian: bool) -> Array:
    """How many singular values lie above the tolerance."""
    return kernel("linear_algebra", "rank", input)(input, atol, rtol, hermitian)


@composed(covers="linalg_matrix_rank")
def linalg_matrix_rank(
    A: Any, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Array:
    """The number of singular values of each matrix above the tolerance (`tol` is an absolute one).

    Args:
        A (*, M, N): matrices.
        tol: absolute tolerance.
        hermitian: the matrices are Hermitian, which is faster.
        atol, rtol: singular values not above max(atol, rtol * largest) count as 0.
    Returns:
        (*), int64.

    >>> dynograd.linalg.matrix_rank(tensor([[1.0, 2.0], [2.0, 4.0]]))
    tensor(1)
    """
    check_matrices("linalg.matrix_rank", A, hermitian, "input")
    if tol is not None:
        atol, rtol = tol, 0.0
    return ranks(A, _plain(atol), _plain(rtol), bool(hermitian))


@op(name="linalg_lstsq")
def least_squares(A: Array, B: Array, rcond: Any) -> Array:
    """The smallest X with the least |A @ X - B|."""
    return kernel("linear_algebra", "least_squares", A)(A, B, rcond)


@least_squares.decomposition
def least_squares_by_inverse(A: Any, B: Any, rcond: Any) -> Array:
    return matmul(linalg_pinv(A, rcond), B)


lstsq_result = namedtuple("linalg_lstsq", "solution residuals rank singular_values")  # type: ignore[name-match]
show_in_lines(lstsq_result)
_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


@composed(covers="linalg_lstsq")
def linalg_lstsq(A: Any, B: Any, rcond: float | None = None, *, driver: str | None = None) -> lstsq_result:
    """X with the least `|A @ X - B|` (the smallest of them), as (solution, residuals, rank, singular_values).

    Args:
        A (*, M, N): any matrices.
        B (*, M, K): or (M,), or (*, M): vectors.
        rcond: singular values not above rcond * largest count as 0; the precision times max(M, N) by default.
        driver: "gels", "gelsy" (default), "gelsd" or "gelss": which of rank and singular values are given. The solution is the same.
    Returns:
        solution; residuals, the squared distances, when M > N and the rank is full, else empty; rank, empty for "gels";
        singular_values, empty but for "gelsd" and "gelss".

    >>> dynograd.linalg.lstsq(tensor([[1.0], [1.0]]), tensor([[1.0], [3.0]])).solution
    tensor([[2.]])
    """
    who = "linalg.lstsq"
    shape = check_matrices(who, A, name="A")
    check_one_dtype(who, A, B)
    if driver is not None and driver not in _DRIVERS:
        raise RuntimeError(f"{who}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss), got {driver!r}.")
    other = tuple(B.shape)
    if not 0 <= len(shape) - len(other) <= 1:
        raise ShapeError(
            f"{who}: input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) <= 1, got shapes {shape} and {other}."
        )
    vector = len(other) == 1 or (len(other) == len(shape) - 1 and other == shape[:-1])
    right = reshaped(B, (*other, 1)) if vector else B
    if len(right.shape) < 2 or right.shape[-2] != shape[-2]:
        raise ShapeError(
            f"{who}: input.size(-2) should match other.size(-2), got shapes {shape} and {other}: each row of A has its row of B."
        )
    batch = broadcast_shapes(who, shape[:-2], tuple(right.shape[:-2]))
    wide = _batched(A, batch)
    right = _batched(right, batch)
    result = least_squares(wide, right, rcond)
    rank = linalg_matrix_rank(A, rtol=rcond)
    nothing = reshaped(A, (-1,))[:0].abs()
    residuals = values = nothing
    if shape[-2] > shape[-1] and bool((arrays.all_values(_plain(rank)) == shape[-1]).all()):
        apart = matmul(wide, result) - right
        residuals = sum(conj(apart) * apart, -2)
        residuals = residuals.real if apart.dtype.is_complex else residuals
    if driver in ("gelsd", "gelss"):
        values = linalg_svdvals(A)
    if driver == "gels":
        rank = nothing.to(dtypes.int64)
    solution = reshaped(result, tuple(result.shape[:-1])) if vector else result
    return lstsq_result(solution, residuals, rank, values)


def _batched(input: Any, batch: tuple[int, ...]) -> Array:
    shape = (*batch, *input.shape[-2:])
    return input if tuple(input.shape) == shape else stretch(input, shape)
