"""Matrix products: `matmul`, its named special cases, and `linear`."""

from __future__ import annotations

from math import prod
from typing import Any

from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.base.shapes import broadcast_shapes, check_fits
from dynograd.errors import DtypeError, ShapeError, refusal
from dynograd.kernels import KernelOfType, kernel
from dynograd.ops.elementwise.arithmetic import conjugated
from dynograd.ops.layout.broadcasting import convert, sum_to
from dynograd.ops.layout.views import permuted, reshaped
from dynograd.ops.op import Gradients, composed, op, shortcut
from dynograd.ops.reduce.deferred_sums import deferred

__all__ = ["bmm", "linear", "matmul", "mm"]


def _adjoint(input: Any) -> Array:
    """The last two dims exchanged (a view); complex numbers conjugated."""
    rank = len(input.shape)
    return conjugated(permuted(input, (*range(rank - 2), rank - 1, rank - 2)))


def _check_product(who: str, left: Any, right: Any, names: tuple[str, str] = ("input", "other")) -> None:
    if left.dtype.itemsize == 1:
        dtypes.refuse_float8(who, left)
    if left.dtype is not right.dtype and left.dtype != right.dtype:
        first, second = names
        raise DtypeError(
            f"{who}: expected m1 and m2 to have the same dtype, but got: {left.dtype} != {right.dtype} ({first} of shape "
            f"{tuple(left.shape)}, {second} of shape {tuple(right.shape)}). Convert one of them, e.g. {first}.to({second}.dtype)."
        )


@op(method=True, saves="input other", few="matmuls.few_product", cast="lower", uneven=True, work="product")
def matmul(input: Array, other: Array) -> Array:
    """The matrix product; leading dims broadcast, 1-d operands are a row on the left and a column on the right.

    Args:
        input (*, N, M) or (M,): matrices, or a row.
        other (*, M, K) or (M,): matrices, or a column.
    Returns:
        (*, N, K), without the dims that vectors lack; in the promoted dtype.
    Raises:
        ShapeError: the inner sizes differ.

    >>> dynograd.matmul(tensor([[1.0, 2.0]]), tensor([[3.0], [4.0]]))
    tensor([[11.]])
    """
    kind = input.dtype
    if kind is other.dtype and kind.itemsize > 1 and 0 < input.ndim < 3 and 0 < other.ndim < 3:  # the usual case
        if input.shape[-1] == other.shape[0]:
            return kernel("matmuls", "matmul_forward", input)(input, other)
    if input.ndim == 0 or other.ndim == 0:
        raise ShapeError(
            f"matmul: both arguments to matmul need to be at least 1D, but they are {input.ndim}D and {other.ndim}D. "
            f"Multiply by a number with *."
        )
    _check_product("matmul", input, other)
    if input.shape[-1] != other.shape[-2 if other.ndim > 1 else 0]:
        raise ShapeError(
            f"matmul: mat1 and mat2 shapes cannot be multiplied ({_text(input)} and {_text(other)}): input has "
            f"{input.shape[-1]} columns (shape {input.shape}) but other has {other.shape[-2 if other.ndim > 1 else 0]} rows "
            f"(shape {other.shape}). Transpose or reshape one of them."
        )
    try:
        return kernel("matmuls", "matmul_forward", input)(input, other)
    except ValueError:
        failure = refusal(broadcast_shapes, "matmul", input.shape[:-2], other.shape[:-2])
        if failure is None:
            raise
        raise ShapeError(f"{failure} These are the leading dims of {input.shape} and {other.shape}.") from None


def _text(array: Any) -> str:
    return "x".join(map(str, array.shape))


@matmul.backward
def matmul_backward(g: Any, saved: Any) -> Gradients:
    x, y = saved.input, saved.other
    if len(x.shape) == 2 and len(y.shape) == 2:
        return (
            matmul(g, _adjoint(y)) if saved.needs(0) else None,
            matmul(_adjoint(x), g) if saved.needs(1) else None,
        )
    rows = x if len(x.shape) > 1 else reshaped(x, (1, *x.shape))
    columns = y if len(y.shape) > 1 else reshaped(y, (*y.shape, 1))
    shape = tuple(g.shape)
    if len(y.shape) == 1:
        shape = (*shape, 1)
    if len(x.shape) == 1:
        shape = (*shape[:-1], 1, shape[-1])
    g = reshaped(g, shape)
    g_x = g_y = None
    if saved.needs(0):
        g_x = sum_to(matmul(g, _adjoint(columns)), tuple(rows.shape))
        g_x = reshaped(g_x, tuple(x.shape))
    if saved.needs(1):
        if len(columns.shape) == 2 and len(rows.shape) > 2:
            count = prod(rows.shape[:-1])
            flat = reshaped(rows, (count, rows.shape[-1]))
            g_y = matmul(_adjoint(flat), reshaped(g, (count, g.shape[-1])))
        else:
            g_y = sum_to(matmul(_adjoint(rows), g), tuple(columns.shape))
        g_y = reshaped(g_y, tuple(y.shape))
    return g_x, g_y


_PRODUCT = KernelOfType("matmuls", "matmul_forward")


@matmul.fast_backward
def matmul_fast_backward(g: Any, saved: Any) -> Gradients:
    x, y = saved.input, saved.other
    if x.ndim != 2 or y.ndim != 2 or g.dtype.kind == "c":
        return matmul_backward(g, saved)
    multiply, all_edges = _PRODUCT[type(g)], saved.asked.edges is None
    of_x, of_y = saved.edges
    return (
        multiply(g, y.transpose(1, 0)) if of_x is not None and (all_edges or saved.needs(0)) else None,
        multiply(x.transpose(1, 0), g) if of_y is not None and (all_edges or saved.needs(1)) else None,
    )


@composed(method=True, work="product")
def mm(input: Any, mat2: Any, out_dtype: Any = None) -> Array:
    """The product of two matrices; `out_dtype` float32 keeps what half types are summed in.

    Args:
        input (N, M), mat2 (M, K): matrices of one dtype.
        out_dtype: None, or float32 for half types.
    Returns:
        (N, K).
    Raises:
        ShapeError: the inner sizes differ, or an argument is no matrix.

    >>> dynograd.mm(tensor([[1.0, 2.0]]), tensor([[3.0], [4.0]]))
    tensor([[11.]])
    """
    _check_rank("mm", input, 2)
    _check_rank("mm", mat2, 2)
    if out_dtype is not None:
        input, mat2 = of_out_dtype("mm", out_dtype, input, mat2)
    return matmul(input, mat2)


def _quick_bmm(compute: Any, input: Any, other: Any, out_dtype: Any) -> tuple | None:
    if out_dtype is None:
        return compute(input, other), ()
    return None


@composed(method=True, out="exact", work="product")
@shortcut(matmul, _quick_bmm, compute="matmuls.few_products", misses=(ValueError,), other="mat2")
def bmm(input: Any, mat2: Any, out_dtype: Any = None) -> Array:
    """The products of two batches of matrices, (B, N, M) with (B, M, P); `out_dtype` as in `mm`.

    Args:
        input (B, N, M), mat2 (B, M, P): batches of matrices of one dtype.
        out_dtype: None, or float32 for half types.
    Returns:
        (B, N, P).
    Raises:
        ShapeError: sizes that do not fit.

    >>> dynograd.bmm(tensor([[[2.0]], [[3.0]]]), tensor([[[4.0]], [[5.0]]]))
    tensor([[[ 8.]],
    <BLANKLINE>
            [[15.]]])
    """
    _check_rank("bmm", input, 3)
    _check_rank("bmm", mat2, 3)
    if input.shape[0] != mat2.shape[0]:
        raise ShapeError(
            f"bmm: expected batches of the same size, got {tuple(input.shape)} and {tuple(mat2.shape)}. "
            f"Use matmul to broadcast a batch of size 1."
        )
    if out_dtype is not None:
        input, mat2 = of_out_dtype("bmm", out_dtype, input, mat2)
    return matmul(input, mat2)


def of_out_dtype(who: str, out_dtype: Any, *operands: Any) -> list[Any]:
    """The operands of a product in the dtype that its result is to have: their own, or float32 for half types.

    Raises:
        DtypeError: another dtype.
    """
    kind, own = dtypes.as_dtype(out_dtype), dtypes.of_array(getattr(operands[0], "array", operands[0]))
    if kind is not own and not (kind is dtypes.float32 and own in (dtypes.float16, dtypes.bfloat16)):
        raise DtypeError(
            f"{who}: out_dtype must be the dtype of the input ({own}), or float32 for float16 and bfloat16, got {kind}. Convert the input."
        )
    return [convert(operand, kind) for operand in operands]


@composed(method=True, work="product")
def mv(input: Any, vec: Any) -> Array:
    """The product of a matrix and a vector.

    Args:
        input (N, M): matrix.
        vec (M,): vector.
    Returns:
        (N,).
    Raises:
        ShapeError: sizes that do not fit.

    >>> dynograd.mv(tensor([[1.0, 2.0]]), tensor([3.0, 4.0]))
    tensor([11.])
    """
    _check_rank("mv", input, 2)
    _check_rank("mv", vec, 1)
    return matmul(input, vec)


@composed(method=True, out="exact", ragged="each", work="product")
def dot(input: Any, tensor: Any) -> Array:
    """The inner product of two vectors.

    Args:
        input (N,), tensor (N,): vectors of one dtype.
    Returns:
        A tensor without dims.
    Raises:
        ShapeError: sizes differ, or an argument is no vector.

    >>> dynograd.dot(tensor([1.0, 2.0]), tensor([3.0, 4.0]))
    tensor(11.)
    """
    _check_rank("dot", input, 1)
    _check_rank("dot", tensor, 1)
    return matmul(input, tensor)


def _check_rank(who: str, input: Any, rank: int) -> None:
    if len(input.shape) != rank:
        raise ShapeError(
            f"{who}: expected a {rank}-D tensor, got shape {tuple(input.shape)}. Use matmul for other ranks."
        )


@op(saves="input weight bias.shape", functional=True, cast="lower", uneven=True, work="product")
def linear(input: Array, weight: Array, bias: Array | None = None) -> Array:
    """`input @ weight.T + bias`.

    Args:
        input (*, in_features): any leading dims.
        weight (out_features, in_features): or (in_features,).
        bias (out_features,): added to every row.
    Returns:
        (*, out_features), dtype of `input`.
    Raises:
        ShapeError: the last size of `input` is not `in_features`, or `bias` does not broadcast to the result.

    >>> dynograd.nn.functional.linear(tensor([[1.0, 2.0]]), tensor([[3.0, 4.0]]), tensor([1.0]))
    tensor([[12.]])
    """
    if input.ndim == 0 or input.shape[-1] != weight.shape[-1]:
        features = input.shape[-1] if input.ndim else "no"
        raise ShapeError(
            f"linear: input has {features} features (shape {input.shape}) but weight wants {weight.shape[-1]} "
            f"(shape {weight.shape}); mat1 and mat2 shapes cannot be multiplied. Transpose or reshape input, or build "
            f"Linear({features}, {weight.shape[0]})."
        )
    _check_product("linear", input, weight, ("input", "weight"))
    if bias is not None and bias.dtype != input.dtype:
        _check_product("linear", input, bias, ("input", "bias"))
    if bias is not None and bias.shape != weight.shape[:-1]:
        check_fits("linear", "bias", bias, (*input.shape[:-1], *weight.shape[:-1]))
    return kernel("matmuls", "linear_forward", input)(input, weight, bias)


_OF_LINEAR = "linear"


def _outer(g: Any, x: Any) -> Array:
    return matmul(permuted(g, (1, 0)), conjugated(x))


@linear.backward
def linear_backward(g: Any, saved: Any) -> Gradients:
    x, w, whole = saved.input, saved.weight, g
    if len(w.shape) == 1:
        g = reshaped(g, (*g.shape, 1))
        w = reshaped(w, (1, *w.shape))
    g_x = matmul(g, conjugated(w)) if saved.needs(0) else None
    g_w = g_b = None
    if saved.needs(1) or saved.needs(2):
        count = prod(g.shape[:-1])
        rows = reshaped(g, (count, g.shape[-1])) if len(g.shape) != 2 else g
        if saved.needs(1):
            flat = x if len(x.shape) == 2 else reshaped(x, (count, x.shape[-1]))
            g_w = deferred(saved, 1, rows, flat, prod(saved.weight.shape), _OF_LINEAR, _outer) if count else None
            if g_w is None:
                g_w = matmul(permuted(rows, (1, 0)), conjugated(flat))
            if len(saved.weight.shape) == 1:
                g_w = reshaped(g_w, tuple(saved.weight.shape))
        if saved.needs(2):
            shape = saved.bias_shape
            g_b = sum_to(rows if shape == rows.shape[-1:] else whole, shape)
    return g_x, g_w, g_b
