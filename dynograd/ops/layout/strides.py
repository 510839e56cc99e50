"""Views that step through memory in their own way: `diagonal`, `unfold`, `as_strided`."""

from __future__ import annotations

from math import prod
from typing import Any

from dynograd import arrays
from dynograd.arrays import Array, ndarray
from dynograd.base.shapes import as_shape, check_whole, normalize_dim
from dynograd.errors import ShapeError
from dynograd.kernels import kernel
from dynograd.ops.index.indexing import add_advanced, get_advanced, put_advanced
from dynograd.ops.layout.conversions import laid_out
from dynograd.ops.layout.views import reshaped
from dynograd.ops.op import Gradients, composed, keep, op, shortcut
from dynograd.ops.row import Row

__all__ = ["as_strided", "as_strided_scatter", "diagonal", "diagonal_scatter"]

FAMILY = Row(out=None, ragged="groups")


@op(name="diagonal", linear=True, view=True, saves="input.shape")
def diagonal_view(input: Array, offset: int, dim1: int, dim2: int) -> Array:
    """A view of the diagonal of two dims, which becomes the last dim."""
    return kernel("views", "diagonal", input)(input, offset, *_two_dims("diagonal", dim1, dim2, input.ndim))


@diagonal_view.backward
def diagonal_view_backward(g: Any, saved: Any, offset: Any, dim1: Any, dim2: Any) -> Gradients:
    return (fill_diagonal_of(g, saved.input_shape, offset, dim1, dim2),)


@op(name="diagonal_backward", linear=True, inner=True)
def fill_diagonal_of(g: Array, shape: tuple[int, ...], offset: int, dim1: int, dim2: int) -> Array:
    """Zeros of `shape` that hold `g` on a diagonal."""
    return kernel("views", "diagonal_fill", g)(g, shape, offset, *_two_dims("diagonal", dim1, dim2, len(shape)))


@fill_diagonal_of.backward
def fill_diagonal_of_backward(g: Any, saved: Any, shape: Any, offset: Any, dim1: Any, dim2: Any) -> Gradients:
    return (diagonal_view(g, offset, dim1, dim2),)


def _quick_diagonal(input: Any, offset: Any, dim1: Any, dim2: Any) -> tuple | None:
    out = input.diagonal(offset, dim1, dim2)
    out.setflags(input.base is None or input.flags.writeable)
    return out, (offset, dim1, dim2)


@composed(covers="diagonal", method=True)
@shortcut(diagonal_view, _quick_diagonal, misses=(ValueError,))
def diagonal(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    """A view of the diagonal of two dims, which becomes the last dim.

    Args:
        input: tensor of any shape.
        offset: 0 is the main diagonal, positive ones lie above it, negative ones below.
        dim1, dim2: the two dims, whose coordinates are equal on the main diagonal.
    Returns:
        A view, `input`'s shape without the two dims, with the length of the diagonal last.

    >>> dynograd.diagonal(tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    return diagonal_view(input, offset, dim1, dim2)


def _two_dims(who: str, dim1: int, dim2: int, rank: int) -> tuple[int, int]:
    if rank < 2:
        normalize_dim(who, 1, rank)
        raise ShapeError(f"{who}: expected a tensor of at least 2 dims, got {rank}.")
    if dim1 == 0 and dim2 == 1:
        return 0, 1
    dim, two = normalize_dim(who, dim1, rank), normalize_dim(who, dim2, rank)
    if dim == two:
        raise ShapeError(f"{who}: diagonal dimensions cannot be identical, got dim1={dim1} and dim2={dim2}.")
    return dim, two


@composed(method=True, ragged="places")
def diagonal_scatter(input: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    """A copy of `input` with `src` on a diagonal.

    Args:
        input: tensor of any shape.
        src: the shape of the diagonal.
        offset: 0 is the main diagonal, positive ones lie above it, negative ones below.
        dim1, dim2: the two dims.
    Returns:
        A tensor of the shape and dtype of `input`.

    >>> dynograd.diagonal_scatter(dynograd.zeros(2, 2), dynograd.ones(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    region = tuple(diagonal(arrays.outline(getattr(input, "array", input)), offset, dim1, dim2).shape)
    if tuple(src.shape) != region:
        raise ShapeError(
            f"diagonal_scatter: expected src to have a size equal to the slice of self, {region}, got {tuple(src.shape)}."
        )
    return put_diagonal(input, src, offset, *_two_dims("diagonal_scatter", dim1, dim2, input.ndim))


@op(name="diagonal_put", linear=True, inner=True)
def put_diagonal(input: Array, src: Array | None, offset: int, dim1: int, dim2: int) -> Array:
    """A copy of `input` with `src` (None: zeros) on a diagonal."""
    return kernel("views", "diagonal_put", input)(input, 0 if src is None else src, offset, dim1, dim2)


@put_diagonal.backward
def put_diagonal_backward(g: Any, saved: Any, offset: Any, dim1: Any, dim2: Any) -> Gradients:
    return (
        put_diagonal(g, None, offset, dim1, dim2) if saved.needs(0) else None,
        diagonal_view(g, offset, dim1, dim2) if saved.needs(1) else None,
    )


@op(name="unfold", linear=True, view=True, saves="input.shape")
def windows(input: Array, dimension: int, size: int, step: int) -> Array:
    """A view of the windows of `size` elements along `dimension`, `step` apart; the elements of a window are a new last dim."""
    place = normalize_dim("unfold", dimension, input.ndim)
    extent = input.shape[place] if input.ndim else 1
    check_whole("unfold", size=size, step=step)
    if not 0 <= size <= extent:
        raise ShapeError(f"unfold: maximum size for tensor at dimension {place} is {extent} but size is {size}.")
    if step <= 0:
        raise ShapeError(f"unfold: step is {step} but must be > 0.")
    if not input.ndim:
        return input.reshape((1,))[:size]
    return kernel("views", "unfold_forward", input)(input, place, size, step)


@windows.backward
def windows_backward(g: Any, saved: Any, dimension: Any, size: Any, step: Any) -> Gradients:
    shape = saved.input_shape
    if not shape:
        return (reshaped(g, ()) if size else g * 0,)
    return (sum_windows(g, shape, normalize_dim("unfold", dimension, len(shape)), size, step),)


@op(name="unfold_backward", linear=True, inner=True)
def sum_windows(g: Array, shape: tuple[int, ...], dimension: int, size: int, step: int) -> Array:
    """Zeros of `shape` with the windows `g` added where `unfold` took them."""
    return kernel("views", "unfold_backward", g)(g, shape, dimension, size, step)


@sum_windows.backward
def sum_windows_backward(g: Any, saved: Any, shape: Any, dimension: Any, size: Any, step: Any) -> Gradients:
    return (windows(g, dimension, size, step),)


_WINDOWS: dict[Any, tuple[tuple, tuple[int, ...], tuple[int, ...]]] = {}
"""(shape, dimension, size, step, bytes of an element) -> arguments of the op; shape and strides of a row-major array's view."""


def _quick_unfold(input: Any, dimension: Any, size: Any, step: Any) -> tuple | None:
    if input.flags.c_contiguous:
        statics, shape, strides = _WINDOWS[input.shape, dimension, size, step, input.itemsize]
        return ndarray(shape, input.dtype, input, 0, strides), statics
    return None


@composed(covers="unfold", method=True)
@shortcut(windows, _quick_unfold, misses=(KeyError, TypeError))
def unfold(input: Any, dimension: int, size: int, step: int) -> Array:
    """A view of the windows of `size` elements along `dimension`, `step` apart; the elements of a window are a new last dim.

    Args:
        input: tensor of any shape.
        dimension: which dim; negative counts from the end.
        size: of a window.
        step: from one window to the next.
    Returns:
        A view, `input`'s shape with the number of windows in `dimension`, and `size` last.
    Raises:
        ShapeError: `size` is larger than the dim or negative, or `step` is not positive.

    >>> tensor([1, 2, 3, 4]).unfold(0, 2, 1)
    tensor([[1, 2],
            [2, 3],
            [3, 4]])
    """
    view = windows(input, dimension, size, step)
    source, result = getattr(input, "array", input), getattr(view, "array", view)
    if type(source) is ndarray is type(result) and {*map(type, (dimension, size, step))} == {int}:
        if source.flags.c_contiguous and source.ndim:
            key = source.shape, dimension, size, step, source.itemsize
            keep(_WINDOWS, key, ((dimension, size, step), result.shape, result.strides))
    return view


@op(
    name="as_strided",
    linear=True,
    view=True,
    saves="input.shape input.strides input.dtype",
    inplace_view="function",
    at_once="its result is a place in memory, which rows of a group have not",
)
def strided_view(input: Array, size: tuple[int, ...], stride: tuple[int, ...], offset: int) -> Array:
    """A view of `input`'s memory with any strides (in elements), from `offset` elements after its first one."""
    _check_reach("as_strided", input, size, stride, offset)
    return kernel("views", "as_strided", input)(input, size, stride, offset)


def _check_reach(who: str, input: Array, size: tuple[int, ...], stride: tuple[int, ...], offset: int) -> None:
    reach = offset
    for count, step in zip(size, stride):
        reach += (count - 1) * step
    if type(input) is arrays.ndarray and input.flags.c_contiguous and offset >= 0 and reach < input.size:
        return  # inside what `input` itself shows
    elements = arrays.base_of(input).nbytes // input.dtype.itemsize
    first = arrays.offset_in_elements(input) + offset
    last = first - offset + reach
    if 0 not in size and (first < 0 or last >= elements):
        raise ShapeError(
            f"{who}: sizes {list(size)}, strides {list(stride)}, storage offset {first} reach element {last}, out of bounds for "
            f"storage of {elements} elements."
        )


@strided_view.backward
def strided_view_backward(g: Any, saved: Any, size: Any, stride: Any, offset: Any) -> Gradients:
    item = saved.input_dtype.itemsize
    shape, steps = saved.input_shape, tuple([step // item for step in saved.input_strides])
    raw = getattr(g, "array", g)
    inside, places = kernel("views", "memory_places", raw)(shape, steps, size, stride, offset, raw)
    count = prod(shape)
    kept = get_advanced(reshaped(g, (-1,)), [inside], (0,))
    return (reshaped(add_advanced(kept, [places], (0,), (count,)), shape),)


_STRIDED: dict[int, dict[Any, dict[Any, tuple[tuple, tuple[int, ...], int]]]] = {size: {} for size in (1, 2, 4, 8, 16)}
"""Bytes of an element -> size -> (stride, storage_offset) -> arguments of the op; strides and offset in bytes."""


def _quick_as_strided(input: Any, size: Any, stride: Any, storage_offset: Any) -> tuple | None:
    if input.size and (storage_offset is None or input.base is None):  # NumPy lets views into no bytes be of any size
        statics, strides, start = _STRIDED[input.itemsize][size][stride, storage_offset]
        return ndarray(size, input.dtype, input, start, strides), statics
    return None


@composed(covers="as_strided", method=True)
@shortcut(strided_view, _quick_as_strided, misses=(KeyError, TypeError, ValueError))
def as_strided(input: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Array:
    """A view of `input`'s memory with the given size and strides (both in elements), whatever `input`'s own shape is.

    Elements may appear several times; their gradients add up. Meant for reading.

    Args:
        input: tensor of any shape.
        size, stride: ints, as many of each.
        storage_offset: where the view begins in the memory; where `input` begins by default.
    Returns:
        A view of shape `size`.
    Raises:
        ShapeError: the view would leave the memory.

    >>> dynograd.as_strided(tensor([1, 2, 3, 4]), (3, 2), (1, 1))
    tensor([[1, 2],
            [2, 3],
            [3, 4]])
    """
    placed = _placed("as_strided", input, size, stride, storage_offset)
    view = strided_view(input, *placed)
    array = getattr(view, "array", view)
    if type(array) is ndarray and array.size and {*map(type, (*placed[0], *placed[1]))} == {int}:
        owner = getattr(input, "array", input).base is None
        if type(size) is tuple is type(stride) and (storage_offset is None or (owner and type(storage_offset) is int)):
            of_size = _STRIDED[array.itemsize]
            if size not in of_size:
                keep(of_size, size, {})
            result = placed, array.strides, placed[2] * array.itemsize
            keep(of_size[size], (stride, storage_offset), result, 64)
    return view


def _placed(who: str, input: Any, size: Any, stride: Any, storage_offset: int | None) -> tuple[Any, Any, int]:
    """Checked size and strides, and where the view begins, counted from the first element of `input`."""
    shape, steps = as_shape(who, (tuple(size),)), as_shape(who, (tuple(stride),))
    if len(shape) != len(steps):
        raise ShapeError(f"{who}: mismatch in length of strides and shape: size {shape}, stride {steps}.")
    if min(shape, default=0) < 0 or min(steps, default=0) < 0:
        raise ShapeError(f"{who}: negative sizes and strides are not supported, got size {shape}, stride {steps}.")
    array = getattr(input, "array", input)
    if storage_offset is None:
        return shape, steps, 0
    return shape, steps, storage_offset - arrays.offset_in_elements(array)


@composed(method=True)
def as_strided_scatter(input: Any, src: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Array:
    """A copy of `input` with `src` where `as_strided` of the same arguments would show it.

    Args:
        input: tensor of any shape.
        src: tensor of shape `size`.
        size, stride: ints, as many of each.
        storage_offset: where the view begins in the memory.
    Returns:
        A tensor of the shape and dtype of `input`.
    Raises:
        ShapeError: `src` has another shape than the view.

    >>> dynograd.as_strided_scatter(dynograd.zeros(4), dynograd.ones(2), (2,), (2,), 1)
    tensor([0., 1., 0., 1.])
    """
    who = "as_strided_scatter"
    shape, steps, offset = _placed(who, input, size, stride, storage_offset)
    if tuple(src.shape) != shape:
        raise ShapeError(
            f"{who}: expected src to have a size equal to the slice of self, {shape}, got {tuple(src.shape)}."
        )
    array = getattr(input, "array", input)
    _check_reach(who, array, shape, steps, offset)
    own = tuple([step // array.dtype.itemsize for step in array.strides])
    inside, places = kernel("views", "memory_places", array)(tuple(array.shape), own, shape, steps, offset, array)
    flat = put_advanced(
        reshaped(input, (-1,)), get_advanced(reshaped(src, (-1,)), [inside], (0,)), [places], (0,), False
    )
    return laid_out(reshaped(flat, tuple(input.shape)), input)
