"""Stretching, its inverse, and dtype conversion: the glue between tensors of different shape and dtype."""

from __future__ import annotations

from typing import Any

from dynograd import arrays, dtypes
from dynograd.arrays import Array, ndarray
from dynograd.kernels import kernel
from dynograd.ops.op import composed, keep, op, shortcut
from dynograd.shapes import as_shape, broadcast_error, broadcast_shapes, check_sizes

__all__ = ["broadcast_tensors", "broadcast_to", "expand", "expand_as"]


@op(linear=True)
def sum_to(input: Array, shape: tuple[int, ...]) -> Array:
    """Sums the dims over which an array of `shape` would be stretched to give `input`'s shape: the transpose of `broadcast_to`."""
    return kernel("reductions", "sum_to", input)(input, shape)


sum_to.op.saves = ("input.shape",)


@sum_to.backward
def sum_to_backward(g: Any, saved: Any, shape: Any) -> Any:
    return (stretch(g, saved.input_shape),)


@op(name="expand", linear=True, view=True, saves="input.shape")
def stretch(input: Array, shape: tuple[int, ...]) -> Array:
    """A view of `input` stretched to `shape`."""
    return arrays.broadcast_to(input, shape)


@stretch.backward
def stretch_backward(g: Any, saved: Any, shape: Any) -> Any:
    return (sum_to(g, saved.input_shape),)


@op(name="to_copy", linear=True, saves="input.dtype")
def convert(input: Array, dtype: Any) -> Array:
    """`input` in another dtype (a new array)."""
    return arrays.cast(input, dtype)


@convert.backward
def convert_backward(g: Any, saved: Any, dtype: Any) -> Any:
    return (convert(g, dtypes.BY_NUM[saved.input_dtype.num]),)


def fit(value: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """A gradient, brought to the shape and dtype of the operand that it belongs to."""
    conjugate = getattr(value, "array", value).dtype.kind == "c"
    if conjugate:
        from dynograd.ops.arithmetic import conj

        value = conj(value)
    if value.shape != shape:
        value = sum_to(value, shape) if len(value.shape) >= len(shape) else stretch(value, shape)
        if value.shape != shape:
            value = stretch(value, shape)
    if dtype is not None and getattr(value, "array", value).dtype != dtype:
        value = convert(value, dtypes.BY_NUM[dtype.num])
    return value


_STRETCHED: dict[Any, tuple[tuple, tuple[int, ...]]] = {}
"""(shape, sizes, bytes of an element) -> arguments of `stretch`, strides of the view of a row-major array."""


@composed(covers="expand", method=True)
@shortcut(
    stretch,
    """
    statics, strides = _STRETCHED[input.shape, sizes, input.itemsize]
    out = ndarray(statics[0], input.dtype, input, 0, strides)
    """,
    when="input.flags.c_contiguous and size is None",
)
def expand(input: Any, *sizes: Any, size: Any = None, implicit: bool = False) -> Any:
    """A view of `input` with dims of size 1 stretched to `sizes`; -1 keeps a size, new dims may be added in front.

    Raises:
        ShapeError: a dim is neither 1 nor the wanted size.

    >>> tensor([[1], [2]]).expand(2, 3)
    tensor([[1, 1, 1],
            [2, 2, 2]])
    """
    wanted = as_shape("expand", sizes if size is None else (size,))
    shape = getattr(input, "array", input).shape
    if len(wanted) == len(shape):  # the usual case: dims of size 1 grow
        for own, size in zip(shape, wanted):
            if size != own and (own != 1 or size < 0 or size >= _LARGE):
                break
        else:
            made = stretch(input, wanted)
            array, stretched = getattr(input, "array", input), getattr(made, "array", made)
            if type(stretched) is ndarray is type(array) and {*map(type, wanted)} <= {int} and stretched is not array:
                if array.flags.c_contiguous:
                    keep(_STRETCHED, (shape, sizes, array.itemsize), ((wanted,), stretched.strides))
            return made
    lead = len(wanted) - len(shape)
    if lead < 0:
        raise (
            broadcast_error("expand", shape, wanted)
            if shape
            else ValueError(f"expand: cannot drop dims: {shape} to {wanted}.")
        )
    for own, size in zip(shape, wanted[lead:] if lead else wanted, strict=True):
        if size != own and (own != 1 or size < 0):
            break
    else:
        return stretch(input, check_sizes("expand", wanted))
    full = []
    for position, size in enumerate(wanted):
        own = shape[position - lead] if position >= lead else None
        if size == -1:
            if own is None:
                raise _expand_error(shape, wanted, position)
            full.append(own)
        elif own in (None, 1, size):
            full.append(size)
        else:
            raise _expand_error(shape, wanted, position)
    return stretch(input, check_sizes("expand", tuple(full)))


_LARGE = 1 << 20  # sizes below it, of up to a row of dims, cannot make more elements than there are addresses


def _expand_error(shape: Any, wanted: Any, position: int) -> Exception:
    from dynograd.errors import ShapeError

    return ShapeError(
        f"expand: the expanded size of the tensor ({wanted[position]}) must match the existing size at dimension {position}: "
        f"input has shape {shape}, target sizes are {wanted}. Only dims of size 1 stretch; -1 keeps a size."
    )


@composed(method=True)
@shortcut(
    stretch,
    """
    statics, strides = _STRETCHED[input.shape, (other.array.shape,), input.itemsize]
    out = ndarray(statics[0], input.dtype, input, 0, strides)
    """,
    when="input.flags.c_contiguous",
)
def expand_as(input: Any, other: Any) -> Any:
    """`input` expanded to the shape of `other`."""
    return expand(input, tuple(other.shape))


@composed(method=True)
@shortcut(
    stretch,
    """
    statics, strides = _STRETCHED[input.shape, (size,), input.itemsize]
    out = ndarray(statics[0], input.dtype, input, 0, strides)
    """,
    when="input.flags.c_contiguous",
)
def broadcast_to(input: Any, size: Any) -> Any:
    """A view of `input` stretched to `size`.

    >>> dynograd.broadcast_to(tensor([1, 2]), (2, 2))
    tensor([[1, 2],
            [1, 2]])
    """
    return expand(input, tuple(size))


@composed()
def broadcast_tensors(*tensors: Any) -> Any:
    """Views of all `tensors`, stretched to their common shape."""
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    shape = broadcast_shapes("broadcast_tensors", *[tuple(one.shape) for one in tensors])
    return tuple(stretch(one, shape) for one in tensors)
