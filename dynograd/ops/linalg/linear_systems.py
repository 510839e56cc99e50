"""Inverses and solutions of linear systems, Cholesky factorizations: `dynograd.linalg` and older names.

Functions of `dynograd.linalg` stand here with `linalg_` in front. All take batches of matrices in the last two dims.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.base.shapes import broadcast_shapes
from dynograd.base.shown_names import show_in_lines
from dynograd.errors import DtypeError, LinAlgError, ShapeError
from dynograd.kernels import kernel
from dynograd.ops.layout.broadcasting import stretch
from dynograd.ops.layout.views import permuted, reshaped
from dynograd.ops.linalg.triangles import tril, triu
from dynograd.ops.matmul.matmuls import _adjoint as adjoint_of
from dynograd.ops.matmul.matmuls import matmul
from dynograd.ops.matmul.matrix_products import identity_like
from dynograd.ops.op import Gradients, composed, op, shortcut
from dynograd.ops.row import Row

__all__ = ["adjoint_of", "check_matrices", "check_one_dtype", "exchanged", "with_state"]

FAMILY = Row(ragged="groups")


def check_matrices(who: str, input: Any, square: bool = False, name: str = "A") -> tuple[int, ...]:
    """The shape of a batch of matrices; raises for anything else."""
    shape = tuple(input.shape)
    if len(shape) < 2:
        raise ShapeError(
            f"{who}: The input tensor {name} must have at least 2 dimensions, got shape {shape}. Unsqueeze it."
        )
    kind = input.dtype
    if not (kind.is_floating_point or kind.is_complex):
        raise DtypeError(
            f"{who}: Expected a floating point or complex tensor as input. Got {kind}. Use {name}.float()."
        )
    if kind in (dtypes.float16, dtypes.bfloat16):
        raise DtypeError(f"{who}: Low precision dtypes not supported. Got {kind}. Use {name}.float().")
    if square and shape[-1] != shape[-2]:
        raise ShapeError(
            f"{who}: {name} must be batches of square matrices, but they are {shape[-2]} by {shape[-1]} matrices (shape {shape})."
        )
    return shape


def check_one_dtype(who: str, first: Any, second: Any) -> None:
    if first.dtype != second.dtype:
        raise DtypeError(
            f"{who}: Expected A and B to have the same dtype, but found A of type {first.dtype} and B of type {second.dtype} instead. "
            f"Convert one of them."
        )


def exchanged(input: Any) -> Array:
    """The last two dims exchanged (a view)."""
    rank = len(input.shape)
    return permuted(input, (*range(rank - 2), rank - 1, rank - 2))


def with_state(check: bool, who: str, result: tuple, text: str) -> tuple:
    """`result`, whose last array is info; LinAlgError for the first matrix whose info is not 0. `text` may name the number."""
    if check:
        info = result[-1]
        failure = kernel("linear_algebra", "first_failure", info)(info)
        if failure is not None:
            place, number = failure
            batch = f"(Batch element {place}): " if info.ndim else ""
            raise LinAlgError(f"{who}: {batch}{text.format(number=number)}")
    return result


# --- inverse and solution ------------------------------------------------------------------------------------------------


@op(name="linalg_inv_ex", outputs="inverse info", saves="output")
def inverses(A: Array, check: bool) -> tuple[Array, Array]:
    """(inverses, 0 or where a zero stands on the diagonal of U), which raises if `check`."""
    return with_state(
        check,
        "linalg.inv",
        kernel("linear_algebra", "inverse", A)(A),
        "The diagonal element {number} is zero, the inversion could not be completed because the input matrix is singular.",
    )


@inverses.backward
def inverses_backward(g: Any, saved: Any, check: Any) -> Gradients:
    turned = adjoint_of(saved.output[0])
    return (-matmul(matmul(turned, g[0]), turned),)


@composed(covers="linalg_inv_ex")
def linalg_inv_ex(A: Any, *, check_errors: bool = False) -> tuple[Array, Array]:
    """(inverse, info): `inv` that does not raise for singular matrices; their info is not 0, and their inverse has no meaning.

    Args:
        A (*, N, N): matrices.
        check_errors: raise after all.
    Returns:
        A named tuple: `inverse` (*, N, N), `info` (*) int32.
    Raises:
        LinAlgError: with `check_errors`, a matrix is singular.

    >>> dynograd.linalg.inv_ex(tensor([[2.0]]))
    dynograd.return_types.linalg_inv_ex(
    inverse=tensor([[0.5000]]),
    info=tensor(0, dtype=dynograd.int32))
    """
    check_matrices("linalg.inv", A, True)
    return inverses(A, bool(check_errors))


def _quick_linalg_inv(compute: Any, A: Any) -> object:
    if A.ndim > 1 and A.shape[-1] == A.shape[-2] and A.dtype.char in "fdFD":
        return compute(A)
    return None


@composed()
@shortcut(None, _quick_linalg_inv, compute="linear_algebra.inverse_at_once", beside="A")
def linalg_inv(A: Any) -> Array:
    """The inverse of each matrix.

    Args:
        A (*, N, N): invertible matrices.
    Returns:
        (*, N, N), in the dtype of A.
    Raises:
        LinAlgError: a matrix is singular.

    >>> dynograd.linalg.inv(tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    return linalg_inv_ex(A, check_errors=True)[0]


@composed(method=True)
def inverse(input: Any) -> Array:
    """Another name of `linalg.inv`.

    Args:
        input (*, N, N): invertible matrices.
    Returns:
        (*, N, N), in the dtype of `input`.
    Raises:
        LinAlgError: a matrix is singular.

    >>> dynograd.inverse(tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    return linalg_inv(input)


@op(name="linalg_solve_ex", outputs="result info", saves="A output")
def solutions(A: Array, B: Array, check: bool) -> tuple[Array, Array]:
    """(X with A @ X = B, info as of the inverse), for matrices of one batch."""
    result = kernel("linear_algebra", "solve", A)(A, B)
    return with_state(check, "linalg.solve", result, "The solver failed because the input matrix is singular.")


@solutions.backward
def solutions_backward(g: Any, saved: Any, check: Any) -> Gradients:
    g_b = solutions(adjoint_of(saved.A), g[0], False)[0]
    return -matmul(g_b, adjoint_of(saved.output[0])) if saved.needs(0) else None, g_b


solve_result = namedtuple("linalg_solve_ex", "result info")  # type: ignore[name-match]
show_in_lines(solve_result)


@composed(covers="linalg_solve_ex")
def linalg_solve_ex(A: Any, B: Any, *, left: bool = True, check_errors: bool = False) -> solve_result:
    """(result, info): `solve` that does not raise for singular matrices; their info is not 0.

    Args:
        A (*, N, N): matrices.
        B (*, N, K) or (*, N): right sides.
        left: False for `X @ A = B`.
        check_errors: raise after all.
    Returns:
        A named tuple: `result` in the shape of B, `info` (*) int32.
    Raises:
        LinAlgError: with `check_errors`, a matrix is singular.

    >>> dynograd.linalg.solve_ex(tensor([[2.0]]), tensor([4.0])).result
    tensor([2.])
    """
    shape = check_matrices("linalg.solve", A, True)
    check_one_dtype("linalg.solve", A, B)
    other = tuple(B.shape)
    vector = len(other) == 1 or (len(other) == len(shape) - 1 and other == shape[:-1])
    B = reshaped(B, (*other, 1)) if vector else B
    if not vector and not left:
        A, B = exchanged(A), exchanged(B)
    if len(B.shape) < 2 or B.shape[-2] != shape[-1]:
        raise ShapeError(
            f"linalg.solve: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
            f"({shape[-2]}x{shape[-1]} and {'x'.join(map(str, other[-2:]))}): shapes {shape} and {other}."
        )
    batch = broadcast_shapes("linalg.solve", shape[:-2], tuple(B.shape[:-2]))
    result, info = solutions(_batched(A, batch), _batched(B, batch), bool(check_errors))
    if vector:
        result = reshaped(result, tuple(result.shape[:-1]))
    return solve_result(exchanged(result) if not vector and not left else result, info)


def _batched(input: Any, batch: tuple[int, ...]) -> Array:
    shape = (*batch, *input.shape[-2:])
    return input if tuple(input.shape) == shape else stretch(input, shape)


def _quick_linalg_solve(compute: Any, A: Any, B: Any, left: Any) -> object:
    if (
        left is True
        and A.ndim == B.ndim
        and A.shape[:-1] == B.shape[:-1]
        and A.dtype is B.dtype
        and A.ndim > 1
        and A.shape[-1] == A.shape[-2]
        and A.dtype.char in "fdFD"
    ):
        return compute(A, B)
    return None


@composed()
@shortcut(None, _quick_linalg_solve, compute="linear_algebra.solve_at_once", beside="A B")
def linalg_solve(A: Any, B: Any, *, left: bool = True) -> Array:
    """X with `A @ X = B` (`X @ A = B` unless `left`); batches broadcast.

    Args:
        A (*, N, N): invertible.
        B (*, N, K): or (N,), or (*, N) with the batch of A: vectors.
        left: False for `X @ A = B`.
    Returns:
        X, in the broadcast shape of B.
    Raises:
        LinAlgError: a matrix is singular.

    >>> dynograd.linalg.solve(tensor([[2.0, 0.0], [0.0, 4.0]]), tensor([2.0, 2.0]))
    tensor([1.0000, 0.5000])
    """
    return linalg_solve_ex(A, B, left=left, check_errors=True)[0]


@op(name="linalg_solve_triangular", saves="A output")
def triangular_solutions(A: Array, B: Array, upper: bool, unitriangular: bool) -> Array:
    """X with triangle(A) @ X = B, for matrices of one batch."""
    return kernel("linear_algebra", "solve_triangular", A)(A, B, upper, unitriangular)


@triangular_solutions.backward
def triangular_solutions_backward(g: Any, saved: Any, upper: Any, unitriangular: Any) -> Gradients:
    g_b = triangular_solutions(adjoint_of(saved.A), g, not upper, unitriangular)
    if not saved.needs(0):
        return None, g_b
    g_a = -matmul(g_b, adjoint_of(saved.output))
    off = 1 if unitriangular else 0
    return triu(g_a, off) if upper else tril(g_a, -off), g_b


@composed(covers="linalg_solve_triangular")
def linalg_solve_triangular(A: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Array:
    """X with `A @ X = B` (`X @ A = B` unless `left`), where only one triangle of A counts; batches broadcast.

    A zero on the diagonal gives inf or NaN.

    Args:
        A (*, N, N): triangles.
        B (*, N, K): right sides.
        upper: which triangle counts.
        left: False for `X @ A = B`.
        unitriangular: the diagonal is taken to be 1.
    Returns:
        X, in the broadcast shape of B.

    >>> dynograd.linalg.solve_triangular(tensor([[2.0, 1.0], [0.0, 4.0]]), tensor([[4.0], [8.0]]), upper=True)
    tensor([[1.],
            [2.]])
    """
    who = "linalg.solve_triangular"
    shape = check_matrices(who, A, True)
    other = check_matrices(who, B, name="B")
    check_one_dtype(who, A, B)
    if other[-2 if left else -1] != shape[-1]:
        raise ShapeError(
            f"{who}: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} ({shape[-2]}x{shape[-1]} and "
            f"{other[-2]}x{other[-1]}): shapes {shape} and {other}."
        )
    if not left:
        A, B, upper = exchanged(A), exchanged(B), not upper
    batch = broadcast_shapes(who, shape[:-2], other[:-2])
    result = triangular_solutions(_batched(A, batch), _batched(B, batch), bool(upper), bool(unitriangular))
    return result if left else exchanged(result)


triangular_result = namedtuple("triangular_solve", "solution cloned_coefficient")  # type: ignore[name-match]
show_in_lines(triangular_result)


@composed(method=True)
def triangular_solve(
    input: Any, A: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> triangular_result:
    """(X with `A @ X = input`, A): the older form of `linalg.solve_triangular`; `transpose` solves with the transpose of A.

    Args:
        input (*, N, K): right sides.
        A (*, N, N): triangles.
        upper: which triangle counts.
        transpose: solve with the transpose of A.
        unitriangular: the diagonal is taken to be 1.
    Returns:
        A named tuple: `solution` (*, N, K), `cloned_coefficient` (*, N, N).

    >>> dynograd.triangular_solve(tensor([[4.0]]), tensor([[2.0]])).solution
    tensor([[2.]])
    """
    if transpose:
        result = linalg_solve_triangular(exchanged(A), input, upper=not upper, unitriangular=unitriangular)
    else:
        result = linalg_solve_triangular(A, input, upper=upper, unitriangular=unitriangular)
    return triangular_result(result, A)


# --- Cholesky ------------------------------------------------------------------------------------------------------------


@op(name="linalg_cholesky_ex", outputs="L info", saves="output")
def lower_roots(A: Array, check: bool) -> tuple[Array, Array]:
    """(L with L @ L^H = A, 0 or the order of the first leading minor that is not positive definite)."""
    return with_state(
        check,
        "linalg.cholesky",
        kernel("linear_algebra", "cholesky", A)(A),
        "The factorization could not be completed because the input is not positive-definite (the leading minor of order {number} is "
        "not positive-definite).",
    )


@lower_roots.backward
def lower_roots_backward(g: Any, saved: Any, check: Any) -> Gradients:
    turned = adjoint_of(saved.output[0])
    inner = tril(matmul(turned, g[0]))
    diagonal = inner - tril(inner, -1)  # of a Hermitian matrix: real, and counted once
    inner = inner + adjoint_of(inner) - (diagonal + adjoint_of(diagonal)) * 0.5
    inner = triangular_solutions(turned, inner * 0.5, True, False)
    return (adjoint_of(triangular_solutions(turned, adjoint_of(inner), True, False)),)


@composed(covers="linalg_cholesky_ex")
def linalg_cholesky_ex(A: Any, *, upper: bool = False, check_errors: bool = False) -> tuple[Array, Array]:
    """(L, info): `cholesky` that does not raise; info is the order of the first minor that is not positive definite, or 0.

    Args:
        A (*, N, N): Hermitian matrices.
        upper: give the upper triangle instead.
        check_errors: raise after all.
    Returns:
        A named tuple: `L` (*, N, N), `info` (*) int32.
    Raises:
        LinAlgError: with `check_errors`, a matrix is not positive definite.

    >>> dynograd.linalg.cholesky_ex(tensor([[-1.0]])).info
    tensor(1, dtype=dynograd.int32)
    """
    check_matrices("linalg.cholesky", A, True)
    result = lower_roots(adjoint_of(A) if upper else A, bool(check_errors))
    return type(result)(adjoint_of(result[0]), result[1]) if upper else result


def _quick_linalg_cholesky(compute: Any, A: Any, upper: Any) -> object:
    if upper is False and A.ndim > 1 and A.shape[-1] == A.shape[-2] and A.dtype.char in "fdFD":
        return compute(A)
    return None


@composed()
@shortcut(None, _quick_linalg_cholesky, compute="linear_algebra.factor_at_once", beside="A")
def linalg_cholesky(A: Any, *, upper: bool = False) -> Array:
    """The lower triangle L with `L @ L.mH = A` (or the upper one), of Hermitian positive definite matrices.

    Only one triangle of A is read; its gradient is Hermitian.

    Args:
        A (*, N, N): Hermitian positive definite matrices.
        upper: give the upper triangle instead.
    Returns:
        (*, N, N), in the dtype of A.
    Raises:
        LinAlgError: a matrix is not positive definite.

    >>> dynograd.linalg.cholesky(tensor([[4.0, 2.0], [2.0, 5.0]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    return linalg_cholesky_ex(A, upper=upper, check_errors=True)[0]


@composed(method=True)
def cholesky(input: Any, upper: bool = False) -> Array:
    """The older name of `linalg.cholesky`.

    Args:
        input (*, N, N): Hermitian positive definite matrices.
        upper: give the upper triangle instead.
    Returns:
        (*, N, N), in the dtype of `input`.
    Raises:
        LinAlgError: a matrix is not positive definite.

    >>> dynograd.cholesky(tensor([[4.0, 2.0], [2.0, 5.0]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    return linalg_cholesky(input, upper=upper)


@composed(method=True)
def cholesky_solve(input: Any, input2: Any, upper: bool = False) -> Array:
    """X with `A @ X = input`, where `input2` is the Cholesky factor of A.

    Args:
        input (*, N, K): right sides.
        input2 (*, N, N): Cholesky factor.
        upper: it is the upper one.
    Returns:
        (*, N, K).

    >>> dynograd.cholesky_solve(tensor([[8.0]]), tensor([[2.0]]))
    tensor([[2.]])
    """
    lower = adjoint_of(input2) if upper else input2
    half = linalg_solve_triangular(lower, input, upper=False)
    return linalg_solve_triangular(adjoint_of(lower), half, upper=True)


@composed(method=True)
def cholesky_inverse(input: Any, upper: bool = False) -> Array:
    """The inverse of the matrix whose Cholesky factor is `input`.

    Args:
        input (*, N, N): Cholesky factor.
        upper: it is the upper one.
    Returns:
        (*, N, N).

    >>> dynograd.cholesky_inverse(tensor([[2.0]]))
    tensor([[0.2500]])
    """
    check_matrices("cholesky_inverse", input, True)
    return cholesky_solve(identity_like(input), input, upper)
