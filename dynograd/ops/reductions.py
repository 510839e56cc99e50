"""Sums, means and their like over dims."""

from __future__ import annotations

from typing import Any

from dynograd import dtypes
from dynograd.arrays import Array
from dynograd.kernels import kernel
from dynograd.ops.broadcasting import convert, stretch
from dynograd.ops.op import composed, op
from dynograd.ops.views import reshape
from dynograd.shapes import normalize_dims

__all__ = ["mean", "sum"]


@op(name="sum", linear=True, saves="input.shape")
def sum_dims(input: Array, dim: tuple[int, ...] | None, keepdim: bool) -> Array:
    """The sum over `dim` (counted from the front; None: all)."""
    return kernel("reductions", "sum", input)(input, dim, keepdim)


@sum_dims.backward
def sum_backward(g: Any, saved: Any, dim: Any, keepdim: Any) -> Any:
    return (stretch(_kept(g, saved.input_shape, dim, keepdim), saved.input_shape),)


def _kept(g: Any, shape: tuple[int, ...], dim: Any, keepdim: bool) -> Any:
    """`g` with the reduced dims put back as size 1."""
    if keepdim or dim is None:
        return g
    return reshape(g, tuple([1 if place in dim else size for place, size in enumerate(shape)]))


@composed(covers="sum", method=True)
def sum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, axis: Any = None) -> Any:
    """The sum of all elements, or over `dim` (an int or several). Booleans and integers sum in int64.

    >>> dynograd.sum(tensor([[1.0, 2.0], [3.0, 4.0]]), dim=0)
    tensor([4., 6.])
    """
    if axis is not None:
        dim = axis
    kind = getattr(input, "array", input).dtype
    if dtype is not None:
        input = convert(input, dtypes.as_dtype(dtype))
    elif kind.kind in "iub":
        input = convert(input, dtypes.int64) if kind.num != dtypes.int64.num else input
    if dim is None:
        return sum_dims(input, None, keepdim)
    return sum_dims(input, normalize_dims("sum", dim, len(input.shape)), keepdim)


@composed(method=True)
def mean(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, axis: Any = None) -> Any:
    """The mean of all elements, or over `dim`; NaN where there are none.

    Raises:
        DtypeError: an integer input without `dtype`.

    >>> dynograd.mean(tensor([[1.0, 2.0], [3.0, 4.0]]), dim=1)
    tensor([1.5000, 3.5000])
    """
    if axis is not None:
        dim = axis
    if dtype is not None:
        input = convert(input, dtypes.as_dtype(dtype))
    elif getattr(input, "array", input).dtype.kind in "iub":
        from dynograd.errors import DtypeError

        raise DtypeError(
            f"mean: could not infer output dtype: input dtype must be either a floating point or complex dtype, got "
            f"{getattr(input, 'dtype', None)}. Use input.float() or pass dtype=dynograd.float32."
        )
    dims = None if dim is None else normalize_dims("mean", dim, len(input.shape))
    count = 1
    for place, size in enumerate(input.shape):
        if dims is None or place in dims:
            count *= size
    total = sum_dims(input, dims, keepdim)
    return total / count if count else total * float("nan")
