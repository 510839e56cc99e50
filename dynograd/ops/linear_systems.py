"""Inverses and solutions of linear systems, LU and Cholesky factorizations, determinants: `dynograd.linalg` and older names.

Functions of `dynograd.linalg` stand here with `linalg_` in front. All take batches of matrices in the last two dims.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from dynograd import arrays, dtypes
from dynograd.arrays import Array
from dynograd.errors import DtypeError, LinAlgError, ShapeError
from dynograd.kernels import kernel
from dynograd.ops.arithmetic import conj
from dynograd.ops.broadcasting import stretch
from dynograd.ops.choices import where
from dynograd.ops.complexes import imag, is_complex_array
from dynograd.ops.indexing import get_basic
from dynograd.ops.joins import cat
from dynograd.ops.matmuls import _adjoint as adjoint_of
from dynograd.ops.matmuls import matmul
from dynograd.ops.matrix_products import identity_like
from dynograd.ops.op import composed, op
from dynograd.ops.triangles import tril, triu
from dynograd.ops.views import permuted, reshaped
from dynograd.shapes import broadcast_shapes

__all__ = ["adjoint_of", "check_matrices", "exchanged"]


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


def check_one_dtype(who: str, one: Any, two: Any) -> None:
    if one.dtype != two.dtype:
        raise DtypeError(
            f"{who}: Expected A and B to have the same dtype, but found A of type {one.dtype} and B of type {two.dtype} instead. "
            f"Convert one of them."
        )


def exchanged(input: Any) -> Any:
    """The last two dims exchanged (a view)."""
    rank = len(input.shape)
    return permuted(input, (*range(rank - 2), rank - 1, rank - 2))


def _checked(check: bool, who: str, made: tuple, text: str) -> tuple:
    """`made`, whose last array is info; LinAlgError for the first matrix whose info is not 0. `text` may name the number."""
    if check:
        info = made[-1]
        found = kernel("linear_algebra", "first_failure", info)(info)
        if found is not None:
            place, number = found
            batch = f"(Batch element {place}): " if info.ndim else ""
            raise LinAlgError(f"{who}: {batch}{text.format(number=number)}")
    return made


# --- inverse and solution ------------------------------------------------------------------------------------------------


@op(name="linalg_inv_ex", outputs="inverse info", saves="output")
def inverses(A: Array, check: bool) -> Any:
    """(inverses, 0 or where a zero stands on the diagonal of U), which raises if `check`."""
    return _checked(
        check,
        "linalg.inv",
        kernel("linear_algebra", "inverse", A)(A),
        "The diagonal element {number} is zero, the inversion could not be completed because the input matrix is singular.",
    )


@inverses.backward
def inverses_backward(g: Any, saved: Any, check: Any) -> Any:
    turned = adjoint_of(saved.output[0])
    return (-matmul(matmul(turned, g[0]), turned),)


@composed(covers="linalg_inv_ex")
def linalg_inv_ex(A: Any, *, check_errors: bool = False) -> Any:
    """(inverse, info): `inv` that does not raise for singular matrices; their info is not 0, and their inverse has no meaning.

    >>> dynograd.linalg.inv_ex(tensor([[2.0]]))
    linalg_inv_ex(inverse=tensor([[0.5000]]), info=tensor(0, dtype=dynograd.int32))
    """
    check_matrices("linalg.inv", A, True)
    return inverses(A, bool(check_errors))


@composed()
def linalg_inv(A: Any) -> Any:
    """The inverse of each matrix.

    Raises:
        LinAlgError: a matrix is singular.

    >>> dynograd.linalg.inv(tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    return linalg_inv_ex(A, check_errors=True)[0]


@composed(method=True)
def inverse(input: Any) -> Any:
    """Another name of `linalg.inv`."""
    return linalg_inv(input)


@op(name="linalg_solve_ex", outputs="result info", saves="A output")
def solutions(A: Array, B: Array, check: bool) -> Any:
    """(X with A @ X = B, info as of the inverse), for matrices of one batch."""
    made = kernel("linear_algebra", "solve", A)(A, B)
    return _checked(check, "linalg.solve", made, "The solver failed because the input matrix is singular.")


@solutions.backward
def solutions_backward(g: Any, saved: Any, check: Any) -> Any:
    g_b = solutions(adjoint_of(saved.A), g[0], False)[0]
    return -matmul(g_b, adjoint_of(saved.output[0])) if saved.needs(0) else None, g_b


solve_result = namedtuple("linalg_solve_ex", "result info")  # type: ignore[name-match]


@composed(covers="linalg_solve_ex")
def linalg_solve_ex(A: Any, B: Any, *, left: bool = True, check_errors: bool = False) -> Any:
    """(result, info): `solve` that does not raise for singular matrices; their info is not 0.

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
    found, info = solutions(_batched(A, batch), _batched(B, batch), bool(check_errors))
    if vector:
        found = reshaped(found, tuple(found.shape[:-1]))
    return solve_result(exchanged(found) if not vector and not left else found, info)


def _batched(input: Any, batch: tuple[int, ...]) -> Any:
    shape = (*batch, *input.shape[-2:])
    return input if tuple(input.shape) == shape else stretch(input, shape)


@composed()
def linalg_solve(A: Any, B: Any, *, left: bool = True) -> Any:
    """X with `A @ X = B` (`X @ A = B` unless `left`); batches broadcast.

    Args:
        A (*, N, N): invertible.
        B (*, N, K): or (N,), or (*, N) with the batch of A: vectors.
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
def triangular_solutions_backward(g: Any, saved: Any, upper: Any, unitriangular: Any) -> Any:
    g_b = triangular_solutions(adjoint_of(saved.A), g, not upper, unitriangular)
    if not saved.needs(0):
        return None, g_b
    g_a = -matmul(g_b, adjoint_of(saved.output))
    off = 1 if unitriangular else 0
    return triu(g_a, off) if upper else tril(g_a, -off), g_b


@composed(covers="linalg_solve_triangular")
def linalg_solve_triangular(A: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    """X with `A @ X = B` (`X @ A = B` unless `left`), where only one triangle of A counts; batches broadcast.

    A zero on the diagonal gives inf or NaN.

    Args:
        unitriangular: the diagonal is taken to be 1.

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
    found = triangular_solutions(_batched(A, batch), _batched(B, batch), bool(upper), bool(unitriangular))
    return found if left else exchanged(found)


triangular_result = namedtuple("triangular_solve", "solution cloned_coefficient")  # type: ignore[name-match]


@composed(method=True)
def triangular_solve(
    input: Any, A: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:
    """(X with `A @ X = input`, A): the older form of `linalg.solve_triangular`; `transpose` solves with the transpose of A.

    >>> dynograd.triangular_solve(tensor([[4.0]]), tensor([[2.0]])).solution
    tensor([[2.]])
    """
    if transpose:
        found = linalg_solve_triangular(exchanged(A), input, upper=not upper, unitriangular=unitriangular)
    else:
        found = linalg_solve_triangular(A, input, upper=upper, unitriangular=unitriangular)
    return triangular_result(found, A)


# --- Cholesky ------------------------------------------------------------------------------------------------------------


@op(name="linalg_cholesky_ex", outputs="L info", saves="output")
def lower_roots(A: Array, check: bool) -> Any:
    """(L with L @ L^H = A, 0 or the order of the first leading minor that is not positive definite)."""
    return _checked(
        check,
        "linalg.cholesky",
        kernel("linear_algebra", "cholesky", A)(A),
        "The factorization could not be completed because the input is not positive-definite (the leading minor of order {number} is "
        "not positive-definite).",
    )


@lower_roots.backward
def lower_roots_backward(g: Any, saved: Any, check: Any) -> Any:
    turned = adjoint_of(saved.output[0])
    inner = tril(matmul(turned, g[0]))
    diagonal = inner - tril(inner, -1)  # of a Hermitian matrix: real, and counted once
    inner = inner + adjoint_of(inner) - (diagonal + adjoint_of(diagonal)) * 0.5
    inner = triangular_solutions(turned, inner * 0.5, True, False)
    return (adjoint_of(triangular_solutions(turned, adjoint_of(inner), True, False)),)


@composed(covers="linalg_cholesky_ex")
def linalg_cholesky_ex(A: Any, *, upper: bool = False, check_errors: bool = False) -> Any:
    """(L, info): `cholesky` that does not raise; info is the order of the first minor that is not positive definite, or 0.

    >>> dynograd.linalg.cholesky_ex(tensor([[-1.0]])).info
    tensor(1, dtype=dynograd.int32)
    """
    check_matrices("linalg.cholesky", A, True)
    found = lower_roots(adjoint_of(A) if upper else A, bool(check_errors))
    return type(found)(adjoint_of(found[0]), found[1]) if upper else found


@composed()
def linalg_cholesky(A: Any, *, upper: bool = False) -> Any:
    """The lower triangle L with `L @ L.mH = A` (or the upper one), of Hermitian positive definite matrices.

    Only one triangle of A is read; its gradient is Hermitian.

    Raises:
        LinAlgError: a matrix is not positive definite.

    >>> dynograd.linalg.cholesky(tensor([[4.0, 2.0], [2.0, 5.0]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    return linalg_cholesky_ex(A, upper=upper, check_errors=True)[0]


@composed(method=True)
def cholesky(input: Any, upper: bool = False) -> Any:
    """The older name of `linalg.cholesky`."""
    return linalg_cholesky(input, upper=upper)


@composed(method=True)
def cholesky_solve(input: Any, input2: Any, upper: bool = False) -> Any:
    """X with `A @ X = input`, where `input2` is the Cholesky factor of A.

    >>> dynograd.cholesky_solve(tensor([[8.0]]), tensor([[2.0]]))
    tensor([[2.]])
    """
    lower = adjoint_of(input2) if upper else input2
    half = linalg_solve_triangular(lower, input, upper=False)
    return linalg_solve_triangular(adjoint_of(lower), half, upper=True)


@composed(method=True)
def cholesky_inverse(input: Any, upper: bool = False) -> Any:
    """The inverse of the matrix whose Cholesky factor is `input`.

    >>> dynograd.cholesky_inverse(tensor([[2.0]]))
    tensor([[0.2500]])
    """
    check_matrices("cholesky_inverse", input, True)
    return cholesky_solve(identity_like(input), input, upper)


# --- LU ------------------------------------------------------------------------------------------------------------------


@op(name="linalg_lu_factor_ex", outputs="LU pivots info", saves="output")
def lu_factors(A: Array, check: bool) -> Any:
    """(L below and U on and above the diagonal, pivots, 0 or where a zero stands on the diagonal of U)."""
    return _checked(
        check,
        "linalg.lu_factor",
        kernel("linear_algebra", "lu", A)(A),
        "U[{number},{number}] is zero and using it on lu_solve would divide by zero.",
    )


@lu_factors.backward
def lu_factors_backward(g: Any, saved: Any, check: Any) -> Any:
    packed, pivots, _ = saved.output
    rows, columns = packed.shape[-2:]
    count = min(rows, columns)
    grad = g[0]
    square, g_square = _block(packed, 0, count, 0, count), _block(grad, 0, count, 0, count)
    one = identity_like(square)
    lower, upper = tril(square, -1) + one, triu(square)
    left, right = matmul(adjoint_of(lower), tril(g_square, -1)), matmul(triu(g_square), adjoint_of(upper))
    beside = below = None
    if columns > rows:
        beside = _block(grad, 0, rows, rows, columns)
        left = left - matmul(beside, adjoint_of(_block(packed, 0, rows, rows, columns)))
    if rows > columns:
        below = _block(grad, columns, rows, 0, columns)
        right = right - matmul(adjoint_of(_block(packed, columns, rows, 0, columns)), below)
    inner = triangular_solutions(adjoint_of(lower), tril(left, -1) + triu(right), True, True)
    found = adjoint_of(triangular_solutions(upper, adjoint_of(inner), True, False))
    if beside is not None:
        found = cat([found, triangular_solutions(adjoint_of(lower), beside, True, True)], -1)
    if below is not None:
        found = cat([found, adjoint_of(triangular_solutions(upper, adjoint_of(below), True, False))], -2)
    return (matmul(permutation_of(pivots, rows, packed.dtype), found),)


def _block(input: Any, top: int, bottom: int, left: int, right: int) -> Any:
    return get_basic(input, (Ellipsis, slice(top, bottom), slice(left, right)))


@op(name="lu_permutation", differentiable=False)
def permutation_of(pivots: Array, rows: int, dtype: Any) -> Array:
    """The matrices P of the row exchanges `pivots`, so that A = P @ L @ U."""
    return kernel("linear_algebra", "permutation", pivots)(pivots, rows, getattr(dtype, "numpy", dtype))


@composed(covers="linalg_lu_factor_ex")
def linalg_lu_factor_ex(A: Any, *, pivot: bool = True, check_errors: bool = False) -> Any:
    """(LU, pivots, info): `lu_factor` with info, the place of a zero on the diagonal of U, or 0."""
    check_matrices("linalg.lu_factor", A)
    if not pivot:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU. Leave pivot=True.")
    return lu_factors(A, bool(check_errors))


lu_factor_result = namedtuple("linalg_lu_factor", "LU pivots")  # type: ignore[name-match]


@composed()
def linalg_lu_factor(A: Any, *, pivot: bool = True) -> Any:
    """(L and U in one matrix, row exchanges counted from 1), for `lu_solve`.

    >>> dynograd.linalg.lu_factor(tensor([[1.0, 2.0], [2.0, 2.0]])).LU
    tensor([[2.0000, 2.0000],
            [0.5000, 1.0000]])
    """
    return lu_factor_result(*linalg_lu_factor_ex(A, pivot=pivot)[:2])


lu_result = namedtuple("linalg_lu", "P L U")  # type: ignore[name-match]
lu_unpack_result = namedtuple("lu_unpack", "P L U")  # type: ignore[name-match]


@composed()
def linalg_lu(A: Any, *, pivot: bool = True) -> Any:
    """(P, L, U) with `A = P @ L @ U`: a permutation, a lower triangle with ones on its diagonal, an upper triangle.

    >>> dynograd.linalg.lu(tensor([[1.0, 2.0], [2.0, 2.0]])).U
    tensor([[2., 2.],
            [0., 1.]])
    """
    return lu_result(*lu_unpack(*linalg_lu_factor(A, pivot=pivot)))


@composed()
def lu_unpack(LU_data: Any, LU_pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    """(P, L, U) of what `linalg.lu_factor` gave; empty tensors for what is not wanted.

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
        turned = permutation_of(LU_pivots, rows, LU_data.dtype)
    return lu_unpack_result(turned, left, right)


def _wide_identity(input: Any) -> Any:
    """Ones on the main diagonal, for matrices of any shape, as a constant."""
    raw = getattr(input, "array", input)
    return tril(triu(arrays.ones_like(raw)))


@composed()
def linalg_lu_solve(LU: Any, pivots: Any, B: Any, *, left: bool = True, adjoint: bool = False) -> Any:
    """X with `A @ X = B` for what `lu_factor(A)` gave (`X @ A = B` unless `left`; with A's adjoint if `adjoint`).

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
    if not left:
        return adjoint_of(linalg_lu_solve(LU, pivots, adjoint_of(B), adjoint=not adjoint))
    turned = permutation_of(pivots, shape[-1], LU.dtype)
    if adjoint:
        half = linalg_solve_triangular(adjoint_of(LU), B, upper=False)
        return matmul(turned, linalg_solve_triangular(adjoint_of(LU), half, upper=True, unitriangular=True))
    half = linalg_solve_triangular(LU, matmul(exchanged(turned), B), upper=False, unitriangular=True)
    return linalg_solve_triangular(LU, half, upper=True)


@composed(method=True)
def lu_solve(input: Any, LU_data: Any, LU_pivots: Any) -> Any:
    """The older form of `linalg.lu_solve`, with its arguments in another order."""
    return linalg_lu_solve(LU_data, LU_pivots, input)


@composed(method=True)
def lu(input: Any, pivot: bool = True, get_infos: bool = False) -> Any:
    """(LU, pivots), and infos if wanted: the older form of `linalg.lu_factor`."""
    found = linalg_lu_factor_ex(input, pivot=pivot)
    return tuple(found) if get_infos else tuple(found[:2])


# --- determinants --------------------------------------------------------------------------------------------------------


@op(name="linalg_det", saves="A output")
def determinants(A: Array) -> Array:
    """The determinant of each matrix."""
    return kernel("linear_algebra", "determinant", A)(A)


@determinants.backward
def determinants_backward(g: Any, saved: Any) -> Any:
    raw = getattr(saved.output, "array", saved.output)
    if arrays.is_array(raw) and (raw == 0).any():
        return (_weighted(g, adjoint_of(_adjugate(saved.A))),)
    turned = adjoint_of(inverses(saved.A, False)[0])
    return (_weighted(g * conj(saved.output), turned),)


def _weighted(number: Any, matrices: Any) -> Any:
    return reshaped(number, (*number.shape, 1, 1)) * matrices


def _adjugate(A: Any) -> Any:
    """det(A) times the inverse of A, also of singular matrices: minors, one after the other."""
    size = A.shape[-1]
    rows = []
    for row in range(size):
        line = []
        for column in range(size):
            minor = _without(_without(A, row, -2), column, -1)
            value = determinants(minor) if size > 1 else get_basic(A, (Ellipsis, 0, 0)) * 0 + 1
            line.append(reshaped(-value if (row + column) % 2 else value, (*value.shape, 1, 1)))
        rows.append(cat(line, -2))
    return cat(rows, -1)


def _without(A: Any, place: int, dim: int) -> Any:
    before: tuple = (Ellipsis, slice(0, place)) if dim == -1 else (Ellipsis, slice(0, place), slice(None))
    after: tuple = (Ellipsis, slice(place + 1, None)) if dim == -1 else (Ellipsis, slice(place + 1, None), slice(None))
    return cat([get_basic(A, before), get_basic(A, after)], dim)


@composed(covers="linalg_det")
def linalg_det(A: Any) -> Any:
    """The determinant of each matrix; singular ones have their gradient, too.

    >>> dynograd.linalg.det(tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor(-2.)
    """
    check_matrices("linalg.det", A, True)
    return determinants(A)


@composed(method=True)
def det(input: Any) -> Any:
    """Another name of `linalg.det`."""
    return linalg_det(input)


@op(name="linalg_slogdet", outputs="sign logabsdet", saves="A output")
def signs_and_logarithms(A: Array) -> Any:
    """The sign and the logarithm of the size of the determinant of each matrix."""
    return kernel("linear_algebra", "sign_and_logarithm", A)(A)


@signs_and_logarithms.backward
def signs_and_logarithms_backward(g: Any, saved: Any) -> Any:
    weight = g[1]
    if is_complex_array(saved.A):
        weight = weight - imag(conj(g[0]) * saved.output[0]) * 1j
    return (_weighted(weight, adjoint_of(inverses(saved.A, False)[0])),)


@composed(covers="linalg_slogdet")
def linalg_slogdet(A: Any) -> Any:
    """(sign, log |det|) of each matrix; 0 and -inf for singular ones.

    >>> dynograd.linalg.slogdet(tensor([[-1.0]]))
    linalg_slogdet(sign=tensor(-1.), logabsdet=tensor(0.))
    """
    check_matrices("linalg.slogdet", A, True)
    return signs_and_logarithms(A)


@composed(method=True)
def slogdet(input: Any) -> Any:
    """Another name of `linalg.slogdet`."""
    return linalg_slogdet(input)


@composed(method=True)
def logdet(input: Any) -> Any:
    """The logarithm of the determinant of each matrix: -inf where it is 0, NaN where it is negative.

    >>> dynograd.logdet(tensor([[1.0, 0.0], [0.0, 1.0]]))
    tensor(0.)
    """
    check_matrices("logdet", input, True)
    sign, logarithm = signs_and_logarithms(input)
    if is_complex_array(input):
        return logarithm + sign.angle() * 1j
    return where(sign < 0, float("nan"), logarithm)
