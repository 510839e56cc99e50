"""QR, singular values, eigenvalues of batches of matrices: functions of `dynograd.linalg`, with `linalg_` in front, and older names.

Signs (and phases) of singular vectors and eigenvectors are LAPACK's choice: only what does not depend on them has a meaningful
gradient, and vectors of equal values have none.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from dynograd.arrays import Array
from dynograd.base.shown_names import show_in_lines
from dynograd.errors import LinAlgError
from dynograd.kernels import kernel
from dynograd.ops.elementwise.arithmetic import conj
from dynograd.ops.elementwise.complexes import imag, is_complex_array, real
from dynograd.ops.index.indexing import get_basic
from dynograd.ops.layout.joins import cat
from dynograd.ops.layout.strides import diagonal
from dynograd.ops.layout.views import reshaped
from dynograd.ops.linalg.linear_systems import adjoint_of, check_matrices, solutions, triangular_solutions
from dynograd.ops.linalg.triangles import tril
from dynograd.ops.matmul.matmuls import matmul
from dynograd.ops.matmul.matrix_products import identity_like
from dynograd.ops.op import Gradients, composed, op, shortcut
from dynograd.ops.row import Row

FAMILY = Row(ragged="groups")


def _columns(input: Any, start: int | None, stop: int | None) -> Array:
    return get_basic(input, (Ellipsis, slice(start, stop)))


def _rows(input: Any, start: int | None, stop: int | None) -> Array:
    return get_basic(input, (Ellipsis, slice(start, stop), slice(None)))


def _as_row(values: Any) -> Array:
    return reshaped(values, (*values.shape[:-1], 1, values.shape[-1]))


def _as_column(values: Any) -> Array:
    return reshaped(values, (*values.shape, 1))


def _diagonal(input: Any) -> Array:
    return diagonal(input, 0, -2, -1)


def _batch(shape: tuple[int, ...], place: int) -> str:
    return f"(Batch element {place}): " if len(shape) > 2 else ""


# --- QR ------------------------------------------------------------------------------------------------------------------


@op(name="linalg_qr", outputs="Q R", saves="input output")
def orthogonal_factors(input: Array, complete: bool) -> tuple[Array, Array]:
    """(Q, R): orthonormal columns, and an upper triangle."""
    return kernel("linear_algebra", "qr", input)(input, complete)


@orthogonal_factors.backward
def orthogonal_factors_backward(g: Any, saved: Any, complete: Any) -> Gradients:
    q, r = saved.output
    g_q, g_r = g
    rows, columns = r.shape[-2:]
    if complete and q.shape[-1] > columns:
        raise RuntimeError(
            "linalg.qr: The QR decomposition is not differentiable when mode='complete' and nrows > ncols. Use mode='reduced'."
        )
    if columns <= rows:
        return (_square_qr_backward(q, r, g_q, g_r),)
    beside = _columns(saved.input, rows, None)
    g_beside = _columns(g_r, rows, None)
    g_q = g_q + matmul(beside, adjoint_of(g_beside))
    first = _square_qr_backward(q, _columns(r, 0, rows), g_q, _columns(g_r, 0, rows))
    return (cat([first, matmul(q, g_beside)], -1),)


def _square_qr_backward(q: Any, r: Any, g_q: Any, g_r: Any) -> Array:
    both = matmul(r, adjoint_of(g_r)) - matmul(adjoint_of(g_q), q)
    lower = tril(both, -1)
    middle = tril(both) - lower
    both = lower + adjoint_of(lower) + (middle + adjoint_of(middle)) * 0.5  # the diagonal of R is real
    inner = g_q + matmul(q, both)
    return adjoint_of(triangular_solutions(r, adjoint_of(inner), True, False))


def _quick_linalg_qr(compute: Any, input: Any, mode: Any) -> tuple | None:
    if (mode == "reduced" or mode == "complete") and input.ndim > 1 and input.dtype.char in "fdFD":
        statics = (mode == "complete",)
        return compute(input, *statics), statics
    return None


@composed(covers="linalg_qr")
@shortcut(orthogonal_factors, _quick_linalg_qr, compute="linear_algebra.qr", input="A")
def linalg_qr(A: Any, mode: str = "reduced") -> tuple[Array, Array]:
    """(Q, R) with `A = Q @ R`: orthonormal columns and an upper triangle.

    Args:
        A (*, M, N): matrices.
        mode: "reduced" (Q has as many columns as the smaller size), "complete" (Q is square), or "r" (Q is empty).
    Returns:
        A named tuple: `Q` (*, M, K) and `R` (*, K, N), with K = min(M, N), or M when complete.
    Raises:
        RuntimeError: another mode; in backward, mode "r", or "complete" with more rows than columns.

    >>> dynograd.linalg.qr(tensor([[3.0, 1.0], [4.0, 2.0]])).R.abs().round(decimals=4)
    tensor([[5.0000, 2.2000],
            [0.0000, 0.4000]])
    """
    check_matrices("linalg.qr", A)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"linalg.qr: qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'."
        )
    result = orthogonal_factors(A, mode == "complete")
    if mode != "r":
        return result
    nothing = get_basic(reshaped(result[0], (-1,)), (slice(0, 0),))
    return type(result)(getattr(nothing, "detach", lambda: nothing)(), result[1])


qr_result = namedtuple("qr", "Q R")  # type: ignore[name-match]
show_in_lines(qr_result)


@composed(method=True)
def qr(input: Any, some: bool = True) -> qr_result:
    """(Q, R): the older form of `linalg.qr`; complete unless `some`.

    Args:
        input (*, M, N): matrices.
        some: Q has as many columns as the smaller size; otherwise it is square.
    Returns:
        A named tuple: `Q` (*, M, K) and `R` (*, K, N).

    >>> dynograd.qr(tensor([[3.0, 0.0], [4.0, 5.0]])).R
    tensor([[-5., -4.],
            [ 0.,  3.]])
    """
    return qr_result(*linalg_qr(input, "reduced" if some else "complete"))


@op(name="geqrf", outputs="a tau", differentiable=False)
def reflectors(input: Array) -> tuple[Array, Array]:
    """(R and the vectors of reflections, their factors)."""
    return kernel("linear_algebra", "reflectors", input)(input)


@composed(covers="geqrf", method=True)
def geqrf(input: Any) -> tuple[Array, Array]:
    """(a, tau): R on and above the diagonal of `a` and reflections below, of which `orgqr(a, tau)` makes Q. Not differentiable.

    Args:
        input (*, M, N): matrices.
    Returns:
        A named tuple: `a` (*, M, N) and `tau` (*, min(M, N)).

    >>> a, tau = dynograd.geqrf(tensor([[3.0], [4.0]]))
    >>> dynograd.orgqr(a, tau) @ a[:1]
    tensor([[3.],
            [4.]])
    """
    check_matrices("geqrf", input)
    return reflectors(input)


# --- singular values -----------------------------------------------------------------------------------------------------


def _values_or_raise(who: str, input: Any, result: Any) -> Array | tuple[Array, ...]:
    if isinstance(result, int):
        raise LinAlgError(
            f"{who}: {_batch(input.shape, result)}The algorithm failed to converge because the input matrix is ill-conditioned or has "
            f"too many repeated singular values, or contained non-finite values."
        )
    return result


@op(name="linalg_svd", outputs="U S Vh", saves="output")
def singular_triples(input: Array, full: bool) -> tuple[Array, Array, Array]:
    """(U, S, V^H)."""
    return _values_or_raise("linalg.svd", input, kernel("linear_algebra", "svd", input)(input, full))


@singular_triples.backward
def singular_triples_backward(g: Any, saved: Any, full: Any) -> Gradients:
    u, s, vh = saved.output
    g_u, g_s, g_vh = g
    count = s.shape[-1]
    rows, columns = u.shape[-2], vh.shape[-1]
    if full:
        u, g_u, vh, g_vh = _columns(u, 0, count), _columns(g_u, 0, count), _rows(vh, 0, count), _rows(g_vh, 0, count)
    row, column = _as_row(s), _as_column(s)
    identity = identity_like(row * column)
    apart = row * row - column * column + identity
    turned_u, turned_v = matmul(adjoint_of(u), g_u), matmul(vh, adjoint_of(g_vh))
    skew_u, skew_v = turned_u - adjoint_of(turned_u), turned_v - adjoint_of(turned_v)
    off = 1 - identity
    inner = (skew_u * off / apart) * row + column * (skew_v * off / apart) + identity * _as_row(g_s)
    if is_complex_array(u):
        inner = inner + identity * _as_row(imag(_diagonal(turned_u)) / s) * 1j
    result = matmul(matmul(u, inner), vh)
    if rows > count:
        rest = g_u / row
        result = result + matmul(rest - matmul(u, matmul(adjoint_of(u), rest)), vh)
    if columns > count:
        rest = g_vh / column
        result = result + matmul(u, rest - matmul(matmul(rest, adjoint_of(vh)), vh))
    return (result,)


def _quick_linalg_svd(compute: Any, input: Any, full_matrices: Any) -> tuple | None:
    if type(full_matrices) is bool and input.ndim > 1 and input.dtype.char in "fdFD":
        statics = (full_matrices,)
        out = compute(input, full_matrices)
        return out if type(out) is tuple else None, statics
    return None


@composed(covers="linalg_svd")
@shortcut(singular_triples, _quick_linalg_svd, compute="linear_algebra.svd", input="A")
def linalg_svd(A: Any, full_matrices: bool = True, *, driver: Any = None) -> tuple[Array, Array, Array]:
    """(U, S, Vh) with `A = U @ diag(S) @ Vh`: orthonormal columns, singular values in descending order, orthonormal rows.

    Args:
        A (*, M, N): matrices.
        full_matrices: U and Vh are square; otherwise they have as many columns and rows as there are singular values. The vectors
            beyond these have no gradient.
        driver: accepted; which of cuSOLVER's methods PyTorch takes.
    Returns:
        A named tuple: `U` (*, M, M), `S` (*, min(M, N)) real, `Vh` (*, N, N); unless `full_matrices` `U` (*, M, K), `Vh` (*, K, N).
    Raises:
        LinAlgError: NaN or inf in a matrix.

    >>> dynograd.linalg.svd(tensor([[3.0, 0.0], [0.0, 2.0]])).S
    tensor([3., 2.])
    """
    check_matrices("linalg.svd", A)
    return singular_triples(A, bool(full_matrices))


@op(name="linalg_svdvals", saves="A")
def singular_values(A: Array) -> Array:
    """The singular values in descending order."""
    return _values_or_raise("linalg.svd", A, kernel("linear_algebra", "singular_values", A)(A))


@singular_values.backward
def singular_values_backward(g: Any, saved: Any) -> Gradients:
    u, _, vh = singular_triples(saved.A, False)
    return (matmul(u * _as_row(g), vh),)


@composed(covers="linalg_svdvals")
def linalg_svdvals(A: Any, *, driver: Any = None) -> Array:
    """The singular values of each matrix, in descending order.

    Args:
        A (*, M, N): matrices.
        driver: accepted; which of cuSOLVER's methods PyTorch takes.
    Returns:
        (*, min(M, N)), real.

    >>> dynograd.linalg.svdvals(tensor([[0.0, 2.0], [3.0, 0.0]]))
    tensor([3., 2.])
    """
    check_matrices("linalg.svd", A)
    return singular_values(A)


svd_result = namedtuple("svd", "U S V")  # type: ignore[name-match]
show_in_lines(svd_result)


@composed(method=True)
def svd(input: Any, some: bool = True, compute_uv: bool = True) -> svd_result:
    """(U, S, V) with `input = U @ diag(S) @ V.mH`: the older form of `linalg.svd`; without `compute_uv`, U and V are zeros.

    Args:
        input (*, M, N): matrices.
        some: U and V have only as many columns as there are singular values.
        compute_uv: compute the vectors, too.
    Returns:
        A named tuple: `U` (*, M, K), `S` (*, K) real, `V` (*, N, K), with K = min(M, N).

    >>> dynograd.svd(tensor([[3.0, 0.0], [0.0, 2.0]])).S
    tensor([3., 2.])
    """
    check_matrices("svd", input)
    if compute_uv:
        result = linalg_svd(input, not some)
        return svd_result(result[0], result[1], adjoint_of(result[2]))
    left, right = matmul(input, adjoint_of(input)), matmul(adjoint_of(input), input)
    return svd_result(identity_like(left.detach()) * 0, linalg_svdvals(input), identity_like(right.detach()) * 0)


# --- eigenvalues ---------------------------------------------------------------------------------------------------------


@op(name="linalg_eigh", outputs="eigenvalues eigenvectors", saves="output")
def hermitian_pairs(input: Array, upper: bool) -> tuple[Array, Array]:
    """(eigenvalues in ascending order, eigenvectors) of Hermitian matrices."""
    return kernel("linear_algebra", "eigh", input)(input, upper)


@hermitian_pairs.backward
def hermitian_pairs_backward(g: Any, saved: Any, upper: Any) -> Gradients:
    values, vectors = saved.output
    row, column = _as_row(values), _as_column(values)
    identity = identity_like(row * column)
    turned = matmul(adjoint_of(vectors), g[1])
    skew = (turned - adjoint_of(turned)) * 0.5  # changes of the vectors that keep them orthonormal
    inner = skew * (1 - identity) / (row - column + identity) + identity * _as_row(g[0])
    return (matmul(matmul(vectors, inner), adjoint_of(vectors)),)


def _upper(UPLO: str) -> bool:
    if UPLO not in ("L", "U", "l", "u"):
        raise RuntimeError(f"linalg.eigh: Expected UPLO argument to be 'L' or 'U', but got {UPLO}.")
    return UPLO in "Uu"


def _quick_linalg_eigh(compute: Any, input: Any, UPLO: Any) -> tuple | None:
    if (
        (UPLO == "L" or UPLO == "U")
        and input.ndim > 1
        and input.dtype.char in "fdFD"
        and input.shape[-1] == input.shape[-2]
    ):
        statics = (UPLO == "U",)
        return compute(input, *statics), statics
    return None


@composed(covers="linalg_eigh")
@shortcut(hermitian_pairs, _quick_linalg_eigh, compute="linear_algebra.eigh", input="A")
def linalg_eigh(A: Any, UPLO: str = "L") -> tuple[Array, Array]:
    """(eigenvalues in ascending order, eigenvectors) of Hermitian matrices, of which one triangle is read.

    Args:
        A (*, N, N): Hermitian matrices.
        UPLO: "L" or "U", the triangle that is read.
    Returns:
        A named tuple: `eigenvalues` (*, N) real, `eigenvectors` (*, N, N), in columns.

    >>> dynograd.linalg.eigh(tensor([[2.0, 1.0], [1.0, 2.0]])).eigenvalues
    tensor([1., 3.])
    """
    check_matrices("linalg.eigh", A, True)
    return hermitian_pairs(A, _upper(UPLO))


@composed()
def linalg_eigvalsh(A: Any, UPLO: str = "L") -> Array:
    """The eigenvalues of Hermitian matrices, in ascending order.

    Args:
        A (*, N, N): Hermitian matrices.
        UPLO: "L" or "U", the triangle that is read.
    Returns:
        (*, N), real.

    >>> dynograd.linalg.eigvalsh(tensor([[2.0, 1.0], [1.0, 2.0]]))
    tensor([1., 3.])
    """
    return linalg_eigh(A, UPLO)[0]


@op(name="linalg_eig", outputs="eigenvalues eigenvectors", saves="input.dtype output")
def pairs(input: Array) -> tuple[Array, Array]:
    """(eigenvalues, eigenvectors), complex."""
    result = kernel("linear_algebra", "eig", input)(input)
    if result is None:
        raise RuntimeError("linalg.eig: input tensor should not contain infs or NaNs.")
    return result


@pairs.backward
def pairs_backward(g: Any, saved: Any) -> Gradients:
    values, vectors = saved.output
    turned = adjoint_of(vectors)
    row, column = _as_row(values), _as_column(values)
    identity = identity_like(row * column)
    inner = matmul(turned, g[1])
    inner = inner - matmul(turned, vectors) * _as_row(real(_diagonal(inner)))
    inner = inner * (1 - identity) / (conj(row - column) + identity) + identity * _as_row(g[0])
    solution = solutions(turned, matmul(inner, turned), False)[0]
    return (solution if saved.input_dtype.kind == "c" else real(solution),)


@composed(covers="linalg_eig")
def linalg_eig(A: Any) -> tuple[Array, Array]:
    """(eigenvalues, eigenvectors) of each matrix, complex, in no order.

    Args:
        A (*, N, N): matrices.
    Returns:
        A named tuple: `eigenvalues` (*, N), `eigenvectors` (*, N, N), in columns; both complex.

    >>> dynograd.linalg.eig(tensor([[2.0, 0.0], [0.0, 3.0]])).eigenvalues
    tensor([2.+0.j, 3.+0.j])
    """
    check_matrices("linalg.eig", A, True)
    return pairs(A)


@composed()
def linalg_eigvals(A: Any) -> Array:
    """The eigenvalues of each matrix, complex, in no order.

    Args:
        A (*, N, N): matrices.
    Returns:
        (*, N), complex.

    >>> dynograd.linalg.eigvals(tensor([[0.0, 1.0], [-1.0, 0.0]]))
    tensor([0.+1.j, 0.-1.j])
    """
    return linalg_eig(A)[0]
