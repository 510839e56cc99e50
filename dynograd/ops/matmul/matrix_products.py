"""Products of matrices added to a tensor (`addmm` and its like), chains and powers of matrices, `cross` and `trace`."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.base.shapes import broadcast_shapes, normalize_dim
from dynograd.errors import DimError, DtypeError, ShapeError
from dynograd.kernels import kernel
from dynograd.ops.elementwise.arithmetic import abs, conj, mul, plus
from dynograd.ops.elementwise.choices import choose
from dynograd.ops.layout.broadcasting import stretch
from dynograd.ops.layout.strides import diagonal
from dynograd.ops.layout.views import permuted, reshaped
from dynograd.ops.matmul.matmuls import bmm, matmul, mm, mv, of_out_dtype
from dynograd.ops.op import Gradients, composed, op, registry
from dynograd.ops.reduce.reductions import sum

__all__ = ["addbmm", "addmm", "addmv", "addr", "baddbmm", "chain_matmul", "cross", "matrix_power", "trace"]


# --- beta * input + alpha * product --------------------------------------------------------------------------------------


def _check_dtypes(who: str, **arrays: Any) -> None:
    """Raises where the operands are not of one dtype."""
    first, *others = arrays.values()
    if all(operand.dtype is first.dtype for operand in others):
        return
    kinds = {name: dtypes.of_array(getattr(operand, "array", operand)) for name, operand in arrays.items()}
    if len(set(kinds.values())) > 1:
        shown = ", ".join([f"{name} {kind}" for name, kind in kinds.items()])
        raise DtypeError(
            f"{who}: operands must have the same dtype, but got {shown}. Convert one, e.g. {next(iter(kinds))}.to(...)."
        )


def _check_factors(who: str, kind: Any, **factors: Any) -> None:
    """Raises for a fraction where the result is of integers, and for a bool where it is not of bools."""
    for name, factor in factors.items():
        if type(factor) is bool and kind != dtypes.bool:
            raise RuntimeError(
                f"{who}: Boolean {name} only supported for Boolean results, but the result is {kind}. Use {name}={factor:d}."
            )
        if type(factor) in (float, complex) and not (kind.is_floating_point or kind.is_complex):
            raise RuntimeError(
                f"{who}: For integral input tensors, argument {name} must not be a floating point number, but it is {factor} and the result "
                f"{kind}. Convert the tensors to a floating dtype."
            )


def _added(who: str, input: Any, product: Any, beta: float, alpha: float) -> Array:
    shape = tuple(product.shape)
    own = tuple(input.shape)
    lead = len(shape) - len(own)
    if own != shape and (
        lead < 0 or [extent for extent, size in zip(own, shape[lead:], strict=True) if extent not in (1, size)]
    ):
        raise ShapeError(
            f"{who}: The expanded size of the tensor must match: input has shape {own}, which does not expand to the shape {shape} of "
            f"the product."
        )
    product = product if alpha == 1 else scaled(product, alpha)
    if beta == 0:
        return product
    return plus(input if beta == 1 else scaled(input, beta), product)


@op(linear=True, ragged="packed")
def scaled(input: Array, factor: float) -> Array:
    """`factor * input` in the dtype of `input`, which backward does not need (`mul` would keep it)."""
    return kernel("matrix_products", "scaled", input)(input, factor)


@scaled.backward
def scaled_backward(g: Any, saved: Any, factor: Any) -> Gradients:
    return (scaled(g, factor.conjugate()),)


@composed(method=True, inplace=True, out="exact", cast="lower", ragged="each", work="product")
def addmm(input: Any, mat1: Any, mat2: Any, out_dtype: Any = None, *, beta: float = 1, alpha: float = 1) -> Array:
    """`beta * input + alpha * (mat1 @ mat2)`; with beta 0, NaN and inf in `input` do not matter.

    Args:
        input: tensor, broadcast to (N, K).
        mat1 (N, M), mat2 (M, K): matrices.
        out_dtype: None, or float32 for half types.
        beta, alpha: numbers.
    Returns:
        (N, K).
    Raises:
        ShapeError: `input` does not broadcast to the product.

    >>> dynograd.addmm(tensor([1.0]), tensor([[1.0, 2.0]]), tensor([[3.0], [4.0]]), alpha=2)
    tensor([[23.]])
    """
    if out_dtype is not None:
        input, mat1, mat2 = of_out_dtype("addmm", out_dtype, input, mat1, mat2)
    _check_dtypes("addmm", input=input, mat1=mat1, mat2=mat2)
    return _added("addmm", input, mm(mat1, mat2), beta, alpha)


@composed(method=True, inplace="function", out="exact", cast="lower", ragged="each")
def addmv(input: Any, mat: Any, vec: Any, *, beta: float = 1, alpha: float = 1) -> Array:
    """`beta * input + alpha * (mat @ vec)`.

    Args:
        input: tensor, broadcast to (N,).
        mat (N, M): matrix.
        vec (M,): vector.
        beta, alpha: numbers.
    Returns:
        (N,).
    Raises:
        ShapeError: sizes that do not fit.

    >>> dynograd.addmv(tensor([1.0]), tensor([[1.0, 2.0]]), tensor([3.0, 4.0]))
    tensor([12.])
    """
    _check_dtypes("addmv", input=input, mat=mat, vec=vec)
    return _added("addmv", input, mv(mat, vec), beta, alpha)


@composed(method=True, inplace=True, cast="lower", ragged="each")
def addr(input: Any, vec1: Any, vec2: Any, *, beta: float = 1, alpha: float = 1) -> Array:
    """`beta * input + alpha * outer(vec1, vec2)`.

    Args:
        input: tensor, broadcast to (N, M).
        vec1 (N,), vec2 (M,): vectors.
        beta, alpha: numbers.
    Returns:
        (N, M).
    Raises:
        ShapeError: sizes that do not fit.

    >>> dynograd.addr(dynograd.zeros(2, 2), tensor([1.0, 2.0]), tensor([3.0, 4.0]))
    tensor([[3., 4.],
            [6., 8.]])
    """
    if len(vec1.shape) != 1 or len(vec2.shape) != 1:
        raise ShapeError(
            f"addr: expected 1-D argument vec1 and vec2, got shapes {tuple(vec1.shape)} and {tuple(vec2.shape)}. Use ravel()."
        )
    product = mul(reshaped(vec1, (vec1.shape[0], 1)), vec2)
    if not type(beta) is type(alpha) is int:
        _check_factors(
            "addr",
            dtypes.result_dtype(getattr(input, "array", input), getattr(product, "array", product)),
            beta=beta,
            alpha=alpha,
        )
    return _added("addr", input, product, beta, alpha)


@composed(method=True, inplace=True, out="exact", cast="lower", work="product")
def baddbmm(input: Any, batch1: Any, batch2: Any, out_dtype: Any = None, *, beta: float = 1, alpha: float = 1) -> Array:
    """`beta * input + alpha * (batch1 @ batch2)` for batches of matrices.

    Args:
        input: tensor, broadcast to (B, N, K).
        batch1 (B, N, M), batch2 (B, M, K): batches of matrices.
        out_dtype: None, or float32 for half types.
        beta, alpha: numbers.
    Returns:
        (B, N, K).
    Raises:
        ShapeError: sizes that do not fit.

    >>> dynograd.baddbmm(tensor([1.0]), tensor([[[2.0]]]), tensor([[[3.0]]]))
    tensor([[[7.]]])
    """
    if out_dtype is not None:
        input, batch1, batch2 = of_out_dtype("baddbmm", out_dtype, input, batch1, batch2)
    _check_dtypes("baddbmm", input=input, batch1=batch1, batch2=batch2)
    return _added("baddbmm", input, bmm(batch1, batch2), beta, alpha)


@composed(method=True, inplace=True, out="exact", cast="lower")
def addbmm(input: Any, batch1: Any, batch2: Any, *, beta: float = 1, alpha: float = 1) -> Array:
    """`beta * input + alpha * (batch1 @ batch2).sum(0)`: the products of a batch added up.

    Args:
        input: tensor, broadcast to (N, K).
        batch1 (B, N, M), batch2 (B, M, K): batches of matrices.
        beta, alpha: numbers.
    Returns:
        (N, K).
    Raises:
        ShapeError: sizes that do not fit.

    >>> dynograd.addbmm(tensor([1.0]), tensor([[[2.0]], [[4.0]]]), tensor([[[3.0]], [[5.0]]]))
    tensor([[27.]])
    """
    _check_dtypes("addbmm", input=input, batch1=batch1, batch2=batch2)
    first, second = tuple(batch1.shape), tuple(batch2.shape)
    if len(first) != 3 or len(second) != 3 or first[0] != second[0] or first[2] != second[1]:
        raise ShapeError(
            f"addbmm: expected batches of matrices (B, N, M) and (B, M, P), got shapes {first} and {second}."
        )
    left = reshaped(permuted(batch1, (1, 0, 2)), (first[1], first[0] * first[2]))
    return _added("addbmm", input, matmul(left, reshaped(batch2, (second[0] * second[1], second[2]))), beta, alpha)


# --- chains and powers ---------------------------------------------------------------------------------------------------


@composed(ragged="each")
def chain_matmul(*matrices: Any) -> Array:
    """The product of several matrices, in the order of multiplications that costs least.

    Args:
        matrices: two or more, whose sizes fit.
    Returns:
        The product.

    >>> dynograd.chain_matmul(tensor([[1.0, 2.0]]), tensor([[3.0], [4.0]]), tensor([[2.0]]))
    tensor([[22.]])
    """
    if len(matrices) == 1 and isinstance(matrices[0], (tuple, list)):
        matrices = tuple(matrices[0])
    if not matrices:
        raise RuntimeError("chain_matmul: Expected one or more matrices, got none.")
    for place, (first, second) in enumerate(pairwise(matrices)):
        if len(first.shape) != 2 or len(second.shape) != 2 or first.shape[1] != second.shape[0]:
            raise ShapeError(
                f"chain_matmul: tensors {place} and {place + 1} cannot be multiplied: shapes {tuple(first.shape)} and {tuple(second.shape)}, "
                f"expected matrices (N, M) and (M, P)."
            )
    return _chain(
        list(matrices),
        _splits([matrix.shape[0] for matrix in matrices] + [matrices[-1].shape[-1]]),
        0,
        len(matrices) - 1,
    )


def _chain(matrices: list[Any], splits: dict[tuple[int, int], int], first: int, last: int) -> Array:
    if first == last:
        return matrices[first]
    middle = splits[first, last]
    return matmul(_chain(matrices, splits, first, middle), _chain(matrices, splits, middle + 1, last))


def _splits(sizes: list[int]) -> dict[tuple[int, int], int]:
    """For each stretch of the chain, after which matrix to split it for the fewest multiplications."""
    count = len(sizes) - 1
    costs = {(place, place): 0 for place in range(count)}
    splits = {}
    for length in range(1, count):
        for first in range(count - length):
            last = first + length
            costs_of_splits = [
                (
                    costs[first, middle] + costs[middle + 1, last] + sizes[first] * sizes[middle + 1] * sizes[last + 1],
                    middle,
                )
                for middle in range(first, last)
            ]
            costs[first, last], splits[first, last] = min(costs_of_splits)
    return splits


@op(differentiable=False, at_once="it computes nothing")
def identity_like(input: Array) -> Array:
    """Identity matrices in the shape and dtype of a batch of square ones."""
    return kernel("matrix_products", "identity_like", input)(input)


@composed(method=True)
def matrix_power(input: Any, n: int) -> Array:
    """The n-th power of a square matrix, or of each of a batch; n = 0 gives identity matrices, n < 0 powers of the inverse.

    Args:
        input (*, N, N): matrices.
        n: an int; below 0, the matrices are invertible.
    Returns:
        (*, N, N).
    Raises:
        ShapeError: the matrices are not square.

    >>> dynograd.matrix_power(tensor([[1.0, 1.0], [0.0, 1.0]]), 3)
    tensor([[1., 3.],
            [0., 1.]])
    """
    shape = tuple(input.shape)
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ShapeError(f"matrix_power: input must be batches of square matrices, but they have shape {shape}.")
    if n < 0:
        if "inverse" not in registry:
            raise RuntimeError(
                f"matrix_power: a negative power (n={n}) needs the inverse, which is not available. Invert input and use n={-n}."
            )
        input, n = registry["inverse"].function(input), -n
    if n == 0:
        return choose(abs(input) < 0, input, identity_like(input))  # a gradient of 0
    product: Any = None  # of the powers that n has had so far
    while True:
        if n & 1:
            product = input if product is None else matmul(product, input)
        n >>= 1
        if not n:
            return product if product is not input else input * 1
        input = matmul(input, input)


@composed(method=True, out=None, cast={"cpu": "wide"}, ragged="each")
def trace(input: Any) -> Array:
    """The sum of the diagonal of a matrix.

    Args:
        input (N, M): matrix.
    Returns:
        A tensor without dims.

    >>> dynograd.trace(tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor(5.)
    """
    if len(input.shape) != 2:
        raise ShapeError(
            f"trace: expected a matrix, but got tensor with dim {len(input.shape)} (shape {tuple(input.shape)})."
        )
    return sum(diagonal(input))


# --- cross product -------------------------------------------------------------------------------------------------------


@op(name="cross", saves="input other", out="exact apart", cast={"cuda": "widest"})
def cross_along(input: Array, other: Array, dim: int) -> Array:
    """The cross product along `dim` of two tensors of one shape."""
    return kernel("matrix_products", "cross", input)(input, other, dim)


@cross_along.backward
def cross_backward(g: Any, saved: Any, dim: Any) -> Gradients:
    x, y = saved.input, saved.other
    if getattr(x, "array", x).dtype.kind == "c":
        x, y = conj(x), conj(y)
    return cross_along(y, g, dim) if saved.needs(0) else None, cross_along(g, x, dim) if saved.needs(1) else None


@composed(covers="cross", method=True)
def cross(input: Any, other: Any, dim: int | None = None) -> Array:
    """The cross product of vectors of size 3 along `dim` (the first dim of size 3 unless given); other dims broadcast.

    Args:
        input, other: tensors with as many dims.
        dim: which dim; negative counts from the end.
    Returns:
        The broadcast shape.
    Raises:
        ShapeError: `dim` does not have size 3, or ranks differ.

    >>> dynograd.cross(tensor([1.0, 0.0, 0.0]), tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    _check_dtypes("cross", input=input, other=other)
    first, second = tuple(input.shape), tuple(other.shape)
    if len(first) != len(second):
        raise ShapeError(f"cross: inputs must have the same number of dimensions, got shapes {first} and {second}.")
    if dim is None:
        if 3 not in first:
            raise DimError(f"cross: no dimension of size 3 in input, got shape {first}. Vectors need three elements.")
        place = first.index(3)
    else:
        place = normalize_dim("cross", dim, len(first))
    if not first or first[place] != 3 or second[place] != 3:
        raise ShapeError(f"cross: inputs dimension {dim} must have length 3. Got shapes {first} and {second}.")
    shape = broadcast_shapes("cross", first, second)
    return cross_along(stretch(input, shape), stretch(other, shape), place)
