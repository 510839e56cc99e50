"""Exponentials of matrices, Vandermonde matrices, products of reflections, systems of tensors: `dynograd.linalg` and older names."""

from __future__ import annotations

from math import prod
from typing import Any

from dynograd.arrays import Array
from dynograd.errors import ShapeError
from dynograd.kernels import kernel
from dynograd.ops.elementwise.arithmetic import conj
from dynograd.ops.index.indexing import get_basic
from dynograd.ops.layout.joins import cat
from dynograd.ops.layout.rearrangements import flipped
from dynograd.ops.layout.strides import diagonal
from dynograd.ops.layout.views import reshaped
from dynograd.ops.linalg.linear_systems import adjoint_of, check_matrices, linalg_inv, linalg_solve
from dynograd.ops.linalg.triangles import tril, triu
from dynograd.ops.matmul.matmuls import matmul
from dynograd.ops.matmul.matrix_products import chain_matmul, cross, matrix_power
from dynograd.ops.op import Gradients, composed, op
from dynograd.ops.precisions import narrowed, widened
from dynograd.ops.reduce.scans import cumprod
from dynograd.ops.row import Row

FAMILY = Row(ragged="groups")


# --- the exponential -----------------------------------------------------------------------------------------------------


@op(name="matrix_exp", saves="input", out=None)
def exponentials(input: Array) -> Array:
    """The exponential of each square matrix."""
    return kernel("linear_algebra", "exponential", input)(input)


@exponentials.backward
def exponentials_backward(g: Any, saved: Any) -> Gradients:
    # the derivative stands beside the exponential of a matrix of twice the size: Mathias, 1996
    turned = adjoint_of(saved.input)
    size = turned.shape[-1]
    whole = cat([cat([turned, g], -1), cat([g * 0, turned], -1)], -2)
    return (get_basic(exponentials(whole), (Ellipsis, slice(0, size), slice(size, None))),)


@composed(covers="matrix_exp", method=True)
def matrix_exp(input: Any) -> Array:
    """The exponential of each square matrix, `I + A + A @ A / 2 + ...`.

    Args:
        input (*, N, N): matrices.
    Returns:
        (*, N, N), in the dtype of `input`.

    >>> dynograd.matrix_exp(tensor([[0.0, 1.0], [0.0, 0.0]]))
    tensor([[1., 1.],
            [0., 1.]])
    """
    wide = widened(input)
    check_matrices("linalg.matrix_exp", wide, True)
    return narrowed(exponentials(wide), input)


# --- powers of numbers ---------------------------------------------------------------------------------------------------


@composed(out=None)
def linalg_vander(x: Any, *, N: int | None = None) -> Array:
    """The powers 0 to N - 1 (by default as many as there are numbers) of each number of the last dim, in a new one.

    Args:
        x (*, n): numbers.
        N: how many powers.
    Returns:
        (*, n, N).

    >>> dynograd.linalg.vander(tensor([2, 3]), N=3)
    tensor([[1, 2, 4],
            [1, 3, 9]])
    """
    shape = tuple(x.shape)
    if N is None:
        N = shape[-1] if shape else 1
    if N <= 1:
        raise ShapeError(f"linalg.vander: N must be greater than 1, got N={N} for input of shape {shape}.")
    return _powers(x if shape else reshaped(x, (1,)), N)


def _powers(x: Any, count: int) -> Array:
    column = reshaped(x, (*x.shape, 1))
    ones = column * 0 + 1
    return cumprod(cat([ones] + [column] * (count - 1), -1), -1) if count else get_basic(ones, (Ellipsis, slice(0, 0)))


@composed(out=None, ragged="each")
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Array:
    """The powers of each number of a vector as a row: N - 1 down to 0, or up when `increasing`.

    Args:
        x (n,): numbers.
        N: how many powers; n by default.
        increasing: from the power 0 up.
    Returns:
        (n, N).

    >>> dynograd.vander(tensor([2, 3]), N=3)
    tensor([[4, 2, 1],
            [9, 3, 1]])
    """
    if len(x.shape) != 1:
        raise ShapeError(f"vander: x must be a one-dimensional tensor, got shape {tuple(x.shape)}.")
    if N is not None and N < 0:
        raise ShapeError(f"vander: N must be non-negative, got {N}.")
    powers = _powers(x, x.shape[0] if N is None else N)
    return powers if increasing else flipped(powers, (1,))


# --- products ------------------------------------------------------------------------------------------------------------


@composed(ragged="each")
def linalg_multi_dot(tensors: Any) -> Array:
    """The product of two or more matrices in the cheapest order; the first and the last may be vectors.

    Args:
        tensors: a sequence of two or more, whose sizes fit.
    Returns:
        The product.

    >>> dynograd.linalg.multi_dot([tensor([1.0, 2.0]), tensor([[3.0], [4.0]])])
    tensor([11.])
    """
    tensors = list(tensors)
    if len(tensors) < 2:
        raise RuntimeError(f"linalg.multi_dot: expected at least 2 tensors but got {len(tensors)}.")
    row, column = len(tensors[0].shape) == 1, len(tensors[-1].shape) == 1
    if row:
        tensors[0] = reshaped(tensors[0], (1, *tensors[0].shape))
    if column:
        tensors[-1] = reshaped(tensors[-1], (*tensors[-1].shape, 1))
    result = chain_matmul(*tensors)
    shape = tuple(result.shape)
    return reshaped(result, shape[1 if row else 0 : -1 if column else None]) if row or column else result


@composed()
def linalg_householder_product(input: Any, tau: Any) -> Array:
    """The first columns of the product of reflections `I - tau_i v_i v_i^H`, as `geqrf` gives them: v_i is 1 at i and `input` below.

    Args:
        input (*, M, N), tau (*, K): of `geqrf`, with M >= N >= K.
    Returns:
        (*, M, N).

    >>> dynograd.linalg.householder_product(tensor([[1.0], [1.0]]), tensor([1.0]))
    tensor([[ 0.],
            [-1.]])
    """
    who = "linalg.householder_product"
    rows, columns = check_matrices(who, input, name="input")[-2:]
    if rows < columns:
        raise ShapeError(
            f"{who}: input.shape[-2] must be greater than or equal to input.shape[-1], got shape {tuple(input.shape)}."
        )
    _check_tau(who, input, tau)
    count = tau.shape[-1]
    if count > columns:
        raise ShapeError(
            f"{who}: input.shape[-1] must be greater than or equal to tau.shape[-1], got {columns} and {count}."
        )
    unit_lower = tril(triu((input.detach() if count else input) * 0 + 1))
    return _reflected(tril(input, -1) + unit_lower, tau, unit_lower, False)


def _check_tau(who: str, input: Any, tau: Any) -> None:
    """One factor for each reflection of each matrix."""
    shape, operands = tuple(input.shape), tuple(tau.shape)
    if operands[:-1] != shape[:-2] or not operands:
        raise ShapeError(
            f"{who}: Expected tau to have one dimension less than input and batch dimensions equal to input.shape[:-2] ({shape[:-2]}), but "
            f"got tau of shape {operands} and input of shape {shape}."
        )


def _reflected(vectors: Any, tau: Any, result: Any, adjoint: bool) -> Array:
    """The product of the reflections `I - tau_i v_i v_i^H` (or its adjoint) times `result`."""
    count = tau.shape[-1]
    for place in range(count) if adjoint else range(count - 1, -1, -1):
        vector = get_basic(vectors, (Ellipsis, slice(place, place + 1)))
        factor = reshaped(get_basic(tau, (Ellipsis, slice(place, place + 1))), (*tau.shape[:-1], 1, 1))
        factor = conj(factor) if adjoint else factor
        result = result - matmul(vector * factor, matmul(adjoint_of(vector), result))
    return result


@composed(method=True, aliases={"tau": "input2", "other": "input3"})
def ormqr(input: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False) -> Array:
    """`Q @ other` for the product Q of all reflections that `geqrf` gave, without making Q.

    Args:
        input (*, m, k), tau (*, k): of `geqrf`.
        other (*, m, n): matrices; (*, n, m) unless `left`.
        left: False multiplies from the right, `other @ Q`.
        transpose: takes the adjoint of Q.
        input2, input3: PyTorch's other names of `tau` and `other`.
    Returns:
        (*, m, n), or (*, n, m) unless `left`.
    Raises:
        ShapeError: shapes that do not fit.

    >>> A = tensor([[3.0, 1.0], [4.0, 2.0]])
    >>> dynograd.ormqr(*dynograd.geqrf(A), A, transpose=True).abs()[0, 0]
    tensor(5.)
    """
    shape, wide = check_matrices("ormqr", input, name="input"), check_matrices("ormqr", other, name="other")
    size = wide[-2 if left else -1]
    if shape[-2] != size:
        raise ShapeError(
            f"ormqr: other.shape[{-2 if left else -1}] must be equal to input.shape[-2], got other of shape {wide} and input of shape {shape}."
        )
    if not tau.shape or tau.shape[-1] != min(size, shape[-1]):
        raise ShapeError(
            f"ormqr: tau.shape[-1] must be equal to min(other.shape[{-2 if left else -1}], input.shape[-1]), got {tuple(tau.shape)} for "
            f"{size} and {shape[-1]}."
        )
    _check_tau("ormqr", input, tau)
    if wide[:-2] != shape[:-2]:
        raise ShapeError(
            f"ormqr: Expected batch dimensions of other to be equal to input.shape[:-2], but got {wide[:-2]} and {shape[:-2]}."
        )
    if not left:
        return adjoint_of(ormqr(input, tau, adjoint_of(other), True, not transpose))
    vectors = tril(input, -1) + tril(triu(input.detach() * 0 + 1))
    return _reflected(vectors, tau, other, bool(transpose))


@composed(method=True)
def orgqr(input: Any, input2: Any) -> Array:
    """Another name of `linalg.householder_product`.

    Args:
        input (*, M, N), input2 (*, K): the two results of `geqrf`.
    Returns:
        (*, M, N).

    >>> dynograd.orgqr(*dynograd.geqrf(tensor([[3.0], [4.0]])))
    tensor([[-0.6000],
            [-0.8000]])
    """
    return linalg_householder_product(input, input2)


@composed()
def linalg_matrix_power(A: Any, n: int) -> Array:
    """The n-th power of each square matrix; see `matrix_power`.

    Args:
        A (*, N, N): matrices.
        n: an int; below 0, the matrices are invertible.
    Returns:
        (*, N, N).

    >>> dynograd.linalg.matrix_power(tensor([[1.0, 1.0], [0.0, 1.0]]), 3)
    tensor([[1., 3.],
            [0., 1.]])
    """
    return matrix_power(A, n)


@composed(out="apart")
def linalg_cross(input: Any, other: Any, *, dim: int = -1) -> Array:
    """The cross product of vectors of size 3 along `dim`.

    Args:
        input, other (..., 3, ...): tensors; other dims broadcast.
        dim: which dim; negative counts from the end.
    Returns:
        The broadcast shape.

    >>> dynograd.linalg.cross(tensor([1.0, 0.0, 0.0]), tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    return cross(input, other, dim)


@composed(out=None)
def linalg_diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Array:
    """A view of the diagonal of each matrix.

    Args:
        A: tensor of at least two dims.
        offset: 0 is the main diagonal, positive ones lie above it, negative ones below.
        dim1, dim2: the two dims of the matrices.
    Returns:
        A view, A's shape without the two dims, with the length of the diagonal last.

    >>> dynograd.linalg.diagonal(tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    return diagonal(A, offset, dim1, dim2)


@composed()
def linalg_matmul(input: Any, other: Any) -> Array:
    """Another name of `matmul`.

    Args:
        input (*, N, M), other (*, M, K): matrices, or vectors.
    Returns:
        (*, N, K).

    >>> dynograd.linalg.matmul(tensor([[1.0, 2.0]]), tensor([[3.0], [4.0]]))
    tensor([[11.]])
    """
    return matmul(input, other)


# --- systems of tensors --------------------------------------------------------------------------------------------------


@composed(ragged="each")
def linalg_tensorinv(A: Any, ind: int = 2) -> Array:
    """The inverse with respect to `tensordot` over the first `ind` dims.

    Args:
        A: the product of its first `ind` sizes is that of the others.
        ind: at least 1.
    Returns:
        A's shape with the first `ind` dims moved to the end.

    >>> dynograd.linalg.tensorinv(tensor([[2.0]]), ind=1)
    tensor([[0.5000]])
    """
    shape = tuple(A.shape)
    if ind <= 0:
        raise RuntimeError(f"linalg.tensorinv: Expected a strictly positive integer for 'ind', got {ind}.")
    first, last = shape[:ind], shape[ind:]
    if prod(first) != prod(last):
        raise ShapeError(
            f"linalg.tensorinv: Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), got "
            f"{prod(last)} != {prod(first)} (shape {shape}, ind {ind})."
        )
    return reshaped(linalg_inv(reshaped(A, (prod(first), prod(last)))), (*last, *first))


@composed(ragged="each")
def linalg_tensorsolve(A: Any, B: Any, dims: Any = None) -> Array:
    """X with `tensordot(A, X, X.ndim) = B`; the dims `dims` of A are moved to its end first.

    Args:
        A: its first sizes are those of B, and the product of the others is that of these.
        B: right side.
        dims: which dims of A are moved to its end.
    Returns:
        X, in the shape of A's last dims.

    >>> dynograd.linalg.tensorsolve(tensor([[2.0]]), tensor([4.0]))
    tensor([2.])
    """
    if dims is not None:
        A = A.movedim(tuple(dims), tuple(range(-len(dims), 0)))
    rank = len(B.shape)
    first, last = tuple(A.shape[:rank]), tuple(A.shape[rank:])
    if prod(first) != prod(last) or prod(B.shape) != prod(first):
        raise ShapeError(
            f"linalg.tensorsolve: Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]), got {prod(last)} != {prod(first)} (shapes {tuple(A.shape)} and {tuple(B.shape)})."
        )
    return reshaped(linalg_solve(reshaped(A, (prod(first), prod(last))), reshaped(B, (prod(first),))), last)
