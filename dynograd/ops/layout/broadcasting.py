"""Stretching, its inverse, and dtype conversion: the glue between tensors of different shape and dtype."""

from __future__ import annotations

from typing import Any

from dynograd import arrays
from dynograd.arrays import Array, ndarray
from dynograd.base import dtypes
from dynograd.base.shapes import as_shape, broadcast_error, broadcast_shapes, check_sizes
from dynograd.kernels import kernel
from dynograd.ops.op import Gradients, composed, keep, op, shortcut
from dynograd.ops.row import Row

__all__ = ["broadcast_tensors", "broadcast_to", "expand", "expand_as"]

FAMILY = Row(out=None)


@op(linear=True, inner=True)
def sum_to(input: Array, shape: tuple[int, ...]) -> Array:
    """Sums the dims over which an array of `shape` would be stretched to give `input`'s shape: the transpose of `broadcast_to`."""
    return kernel("reductions", "sum_to", input)(input, shape)


sum_to.op.saves = ("input.shape",)


@sum_to.backward
def sum_to_backward(g: Any, saved: Any, shape: Any) -> Gradients:
    return (stretch(g, saved.input_shape),)


@op(name="expand", linear=True, view=True, saves="input.shape")
def stretch(input: Array, shape: tuple[int, ...]) -> Array:
    """A view of `input` stretched to `shape`."""
    result = arrays.broadcast_to(input, shape)
    return input[...] if result is input and type(input) is ndarray else result


@stretch.backward
def stretch_backward(g: Any, saved: Any, shape: Any) -> Gradients:
    return (sum_to(g, saved.input_shape),)


_LARGE = 1 << 12  # elements whose dtype compiled kernels may change sooner than NumPy


@op(name="to_copy", linear=True, saves="input.dtype", ragged="packed")
def convert(input: Array, dtype: Any) -> Array:
    """`input` in another dtype (a new array)."""
    if type(input) is ndarray and input.size >= _LARGE and dtype.category == dtypes.FLOATING:
        result = kernel("casts", "to_float", input)(input, dtype.numpy)
        if result is not None:
            return result
    return arrays.cast(input, dtype)


@convert.backward
def convert_backward(g: Any, saved: Any, dtype: Any) -> Gradients:
    return (convert(g, dtypes.BY_NUM[saved.input_dtype.num]),)


_STRETCHED: dict[Any, tuple[tuple, tuple[int, ...]]] = {}
"""(shape, sizes, dtype) -> arguments of `stretch`, strides of the view of a row-major array."""


def _quick_expand(input: Any, sizes: Any, size: Any) -> tuple | None:
    if input.flags.c_contiguous and size is None:
        statics, strides = _STRETCHED[input.shape, sizes, (kind := input.dtype)]
        return ndarray(statics[0], kind, input, 0, strides), statics
    return None


@composed(covers="expand", method=True)
@shortcut(stretch, _quick_expand, misses=(KeyError, TypeError))
def expand(input: Any, *sizes: Any, size: Any = None, implicit: bool = False) -> Array:
    """A view of `input` with dims of size 1 stretched to `sizes`; -1 keeps a size, new dims may be added in front.

    Args:
        input: tensor of any shape.
        sizes: the sizes, as numbers; -1 keeps a size.
        size: the same, as a tuple.
        implicit: accepted.
    Returns:
        A view of that shape.
    Raises:
        ShapeError: a dim is neither 1 nor the wanted size.

    >>> tensor([[1], [2]]).expand(2, 3)
    tensor([[1, 1, 1],
            [2, 2, 2]])
    """
    target = as_shape("expand", sizes if size is None else (size,))
    source = getattr(input, "array", input)
    shape = source.shape
    lead = len(target) - len(shape)
    if lead < 0:
        raise (
            broadcast_error("expand", shape, target)
            if shape
            else ValueError(f"expand: cannot drop dims: {shape} to {target}.")
        )
    full = check_sizes("expand", _expanded(shape, target, lead))
    result = stretch(input, full)
    array = getattr(result, "array", result)
    if type(array) is ndarray is type(source) and size is None and source.flags.c_contiguous:
        if {*map(type, sizes[0] if len(sizes) == 1 and isinstance(sizes[0], tuple) else sizes)} <= {int}:
            keep(_STRETCHED, (shape, sizes, source.dtype), ((full,), array.strides))
    return result


def _expanded(shape: tuple[int, ...], target: tuple[int, ...], lead: int) -> tuple[int, ...]:
    """`target`, which has `lead` dims more than `shape`, with the sizes that are kept in place of -1."""
    for size_now, size in zip(shape, target[lead:]):
        if size != size_now and (size_now != 1 or size < 0):
            break
    else:
        return target
    full = []
    for position, size in enumerate(target):
        own = shape[position - lead] if position >= lead else None
        if size == -1:
            if own is None:
                raise _expand_error(shape, target, position)
            full.append(own)
        elif own in (None, 1, size):
            full.append(size)
        else:
            raise _expand_error(shape, target, position)
    return tuple(full)


def _expand_error(shape: Any, target: Any, position: int) -> Exception:
    from dynograd.errors import ShapeError

    return ShapeError(
        f"expand: the expanded size of the tensor ({target[position]}) must match the existing size at dimension {position}: "
        f"input has shape {shape}, target sizes are {target}. Only dims of size 1 stretch; -1 keeps a size."
    )


def _quick_expand_as(input: Any, other: Any) -> tuple | None:
    if input.flags.c_contiguous:
        statics, strides = _STRETCHED[input.shape, (other.array.shape,), (kind := input.dtype)]
        return ndarray(statics[0], kind, input, 0, strides), statics
    return None


@composed(method=True)
@shortcut(stretch, _quick_expand_as, misses=(KeyError, TypeError))
def expand_as(input: Any, other: Any) -> Array:
    """`input` expanded to the shape of `other`.

    Args:
        input: tensor of any shape.
        other: tensor of the wanted shape.
    Returns:
        A view of that shape.

    >>> tensor([1, 2]).expand_as(dynograd.zeros(2, 2))
    tensor([[1, 2],
            [1, 2]])
    """
    return expand(input, tuple(other.shape))


def _quick_broadcast_to(input: Any, size: Any) -> tuple | None:
    if input.flags.c_contiguous:
        statics, strides = _STRETCHED[input.shape, (size,), (kind := input.dtype)]
        return ndarray(statics[0], kind, input, 0, strides), statics
    return None


@composed()
@shortcut(stretch, _quick_broadcast_to, misses=(KeyError, TypeError))
def broadcast_to(input: Any, size: Any) -> Array:
    """A view of `input` stretched to the sizes `size`, as `expand` makes it; the method is `expand` itself, and takes several numbers too.

    Args:
        input: tensor of any shape.
        size: the sizes; -1 keeps the size of a dim.
    Returns:
        A view of that shape.

    >>> dynograd.broadcast_to(tensor([1, 2]), (2, 2))
    tensor([[1, 2],
            [1, 2]])
    """
    return expand(input, size)


@composed()
def broadcast_tensors(*tensors: Any) -> tuple[Array, ...]:
    """Views of all `tensors`, stretched to their common shape.

    Args:
        tensors: tensors whose shapes broadcast.
    Returns:
        A tuple of views of the common shape.

    >>> [x.shape for x in dynograd.broadcast_tensors(dynograd.zeros(2, 1), dynograd.zeros(3))]
    [dynograd.Size([2, 3]), dynograd.Size([2, 3])]
    """
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    shape = broadcast_shapes("broadcast_tensors", *[tuple(tensor.shape) for tensor in tensors])
    return tuple(stretch(tensor, shape) for tensor in tensors)
