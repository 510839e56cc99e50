"""Views: the same elements under another shape or order of dims. Nothing is copied unless `reshape` has to."""

from __future__ import annotations

import operator
from math import prod
from typing import Any

from dynograd import arrays
from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.base.shapes import as_shape, infer_size, normalize_dim, normalize_dims
from dynograd.errors import ShapeError, refusal
from dynograd.kernels import kernel
from dynograd.ops.layout.conversions import contiguous
from dynograd.ops.op import Gradients, composed, keep, op, shortcut
from dynograd.ops.row import Row

__all__ = ["flatten", "permute", "reshape", "squeeze", "transpose", "unflatten", "unsqueeze", "view"]

FAMILY = Row(out=None)

_DTYPE = dtypes.dtype
_LARGE = 1 << 15  # bytes


@op(
    name="view",
    linear=True,
    view="input.reshape(shape) if type(input) is ndarray and input.flags.c_contiguous else forward(input, shape)",
    saves="input.shape",
)
def reshaped(input: Array, shape: tuple[int, ...]) -> Array:
    """`input` under `shape`, of which one size may be -1 (a view where memory allows, else a copy)."""
    if type(input) is arrays.ndarray and input.nbytes >= _LARGE and not input.flags.c_contiguous:
        result = kernel("views", "reshaped_view", input)(input, shape)
        if result is None:  # NumPy's copy of a transpose takes ten times as long as ours
            return kernel("views", "reshaped_copy", input)(input, infer_size("reshape", shape, input.size))
        return result
    out = input.reshape(shape)
    base = out.base
    if base is not input and base is not input.base and type(out) is arrays.ndarray:
        # NumPy's copy comes as a view of a hidden array; whoever owns memory must look like it
        return kernel("views", "reshaped_copy", input)(input, out.shape)
    return out


@reshaped.backward
def reshaped_backward(g: Any, saved: Any, shape: Any) -> Gradients:
    return (reshaped(g, saved.input_shape),)


@op(
    differentiable=False,
    view=True,
    ragged="packed",
    at_once="its result is a place in memory, which rows of a group have not",
)
def view_as_dtype(input: Array, dtype: Any) -> Array:
    """The bytes of `input` read as another dtype."""
    return kernel("views", "view_as_dtype", input)(input, dtype.numpy)


def _quick_reshape(input: Any, sizes: Any, shape: Any) -> tuple | None:
    if shape is None and (input.size < 8192 or input.flags.c_contiguous):
        out = input.reshape(*sizes)
        shape_of_out = out.shape
        if shape_of_out != sizes and -1 not in sizes and shape_of_out != sizes[0] and -1 not in sizes[0]:
            raise ValueError
        return out, (shape_of_out,)
    return None


@composed(method=True)
@shortcut(reshaped, _quick_reshape, misses=(TypeError, ValueError))
def reshape(input: Any, *sizes: Any, shape: Any = None) -> Array:
    """The same elements in row-major order under another shape; one size may be -1. A view where memory allows.

    Args:
        input: tensor of any shape.
        sizes: the new sizes, as numbers; one may be -1.
        shape: the same, as a tuple.
    Returns:
        A tensor of that shape.
    Raises:
        ShapeError: the number of elements differs.

    >>> dynograd.reshape(tensor([[1, 2], [3, 4]]), (-1,))
    tensor([1, 2, 3, 4])
    """
    target = sizes if shape is None else tuple(shape)
    try:
        return reshaped(input, _sizes(target))
    except (TypeError, ValueError) as error:
        raise refusal(_check_reshape, "reshape", input, target) or error from None


def _quick_view_by_reshaped(input: Any, sizes: Any, size: Any, dtype: Any) -> tuple | None:
    if dtype is None and size is None and type(sizes[0]) is not _DTYPE:
        out = input.reshape(*sizes)
        shape_of_out = out.shape
        if shape_of_out != sizes and -1 not in sizes and shape_of_out != sizes[0] and -1 not in sizes[0]:
            raise ValueError
        return out, (shape_of_out,)
    return None


def _quick_view_by_view_as_dtype(input: Any, sizes: Any, size: Any, dtype: Any) -> tuple | None:
    if size is None and dtype is None and input.itemsize == (kind := sizes[0]).itemsize:
        return input.getfield(kind.numpy), (kind,)  # quicker than NumPy's `view`
    return None


@composed(covers="view", method=True)
@shortcut(reshaped, _quick_view_by_reshaped, misses=(AttributeError, IndexError, TypeError, ValueError))
@shortcut(view_as_dtype, _quick_view_by_view_as_dtype, misses=(AttributeError, IndexError, TypeError, ValueError))
def view(input: Any, *sizes: Any, size: Any = None, dtype: Any = None) -> Array:
    """The same memory under another shape; one size may be -1. `view(dtype)` reads the same bytes as another dtype.

    Args:
        input: tensor of any shape.
        sizes: the new sizes, as numbers; one may be -1.
        size: the same, as a tuple.
        dtype: read the bytes as this dtype instead.
    Returns:
        A view of `input`.
    Raises:
        ShapeError: the number of elements differs, or the strides of `input` do not allow it without a copy (use `reshape`).

    >>> dynograd.arange(6).view(2, -1)
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    if dtype is not None:
        return _viewed_as(input, dtypes.as_dtype(dtype))
    target = sizes if size is None else tuple(size)
    try:
        out = reshaped(input, _sizes(target))
    except (TypeError, ValueError) as error:
        if len(sizes) != 1 or not isinstance(sizes[0], (dtypes.dtype, type)):
            raise refusal(_check_reshape, "view", input, target) or error from None
        out = None
    if out is None:
        return _viewed_as(input, dtypes.as_dtype(sizes[0]))
    if getattr(out, "_meta", None) is not None:  # known as a view
        return out
    array = getattr(out, "array", out)
    source = getattr(input, "array", input)
    copied = arrays.owns_memory(array) if type(array) is arrays.ndarray else not arrays.is_view_of(array, source)
    if copied and array.size:
        array = source
        raise ShapeError(
            f"view: view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
            f"contiguous subspaces): shape {tuple(array.shape)} with strides {arrays.strides_in_elements(array)} cannot become "
            f"{tuple(out.shape)} without a copy. Use .reshape(...) instead, or .contiguous().view(...)."
        )
    return out


def _sizes(sizes: tuple) -> tuple[int, ...]:
    """Sizes given as `f(2, 3)`, `f((2, 3))` or `f(Size)`; -2 and below, which NumPy would take for -1, are refused."""
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        sizes = tuple(sizes[0])
    for size in sizes:
        if type(size) is not int or size < -1:
            break
    else:
        return sizes
    shape = tuple(map(operator.index, sizes))
    if shape and min(shape) < -1:
        raise ValueError
    return shape


def _check_reshape(who: str, input: Any, sizes: tuple) -> None:
    """Raises the message for sizes that do not fit `input`; nothing when they do."""
    infer_size(who, as_shape(who, sizes), prod(input.shape))


def _may_be_read_as(array: Any, itemsize: int) -> bool:
    """Whether the last dim lies in one piece, and all others, like the array, begin where such an item may."""
    *steps, last = arrays.strides_in_elements(array)
    old = array.dtype.itemsize
    if last != 1 and array.shape[-1] != 1:
        return False
    return itemsize < old or not any([step * old % itemsize for step in (*steps, arrays.offset_in_elements(array))])


def _viewed_as(input: Any, dtype: dtypes.dtype) -> Array:
    array = getattr(input, "array", input)
    old, new = array.dtype.itemsize, dtype.numpy.itemsize
    if old != new:
        if not array.ndim:
            raise ShapeError(
                f"view: self.dim() cannot be 0 to view {input.dtype} as {dtype} (different element sizes). Unsqueeze first."
            )
        last = array.shape[-1]
        if (last * old) % new or not _may_be_read_as(array, new):
            raise ShapeError(
                f"view: self.size(-1) must be divisible by {new // old} and the last dimension contiguous to view {input.dtype} as "
                f"{dtype} (different element sizes), got shape {tuple(array.shape)}. Use contiguous() or slice first."
            )
    return view_as_dtype(input, dtype)


def _quick_view_as(input: Any, other: Any) -> tuple | None:
    out = input.reshape(other.array.shape)
    return out, (out.shape,)


@composed(method=True)
@shortcut(reshaped, _quick_view_as, misses=(AttributeError, ValueError))
def view_as(input: Any, other: Any) -> Array:
    """`input.view` of the shape of `other`.

    Args:
        input: tensor of any shape.
        other: tensor with as many elements.
    Returns:
        A view of `input`.

    >>> dynograd.arange(4).view_as(dynograd.zeros(2, 2))
    tensor([[0, 1],
            [2, 3]])
    """
    return view(input, tuple(other.shape))


def _quick_reshape_as(input: Any, other: Any) -> tuple | None:
    if input.size < 8192 or input.flags.c_contiguous:
        out = input.reshape(other.array.shape)
        return out, (out.shape,)
    return None


@composed(method=True)
@shortcut(reshaped, _quick_reshape_as, misses=(AttributeError, ValueError))
def reshape_as(input: Any, other: Any) -> Array:
    """`input` reshaped to the shape of `other`.

    Args:
        input: tensor of any shape.
        other: tensor with as many elements.
    Returns:
        A tensor of the shape of `other`.

    >>> dynograd.arange(4).reshape_as(dynograd.zeros(2, 2))
    tensor([[0, 1],
            [2, 3]])
    """
    return reshape(input, tuple(other.shape))


_FLATTENED: dict[Any, tuple] = {}  # (shape, start_dim, end_dim) -> the arguments of `reshaped`


def _quick_flatten(input: Any, start_dim: Any, end_dim: Any) -> tuple | None:
    if (statics := _FLATTENED.get((input.shape, start_dim, end_dim))) and (
        input.size < 8192 or input.flags.c_contiguous
    ):
        return input.reshape(*statics), statics
    return None


@composed(method=True)
@shortcut(reshaped, _quick_flatten, misses=(TypeError,))
def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Array:
    """Joins the dims from `start_dim` to `end_dim` into one; a 0-d tensor gets one dim.

    Args:
        input: tensor of any shape.
        start_dim, end_dim: the first and the last of the dims that are joined.
    Returns:
        A tensor of fewer dims; a view where memory allows.
    Raises:
        ShapeError: `start_dim` comes after `end_dim`.

    >>> dynograd.flatten(dynograd.zeros(2, 3, 4), start_dim=1).shape
    dynograd.Size([2, 12])
    """
    shape = getattr(input, "array", input).shape
    if type(start_dim) is int and 0 <= start_dim == len(shape) - 1 and end_dim == -1:
        return input
    start, end = normalize_dim("flatten", start_dim, len(shape)), normalize_dim("flatten", end_dim, len(shape))
    if not shape:
        return reshaped(input, (1,))
    if start > end:
        raise ShapeError(
            f"flatten: flatten() has invalid args: start_dim {start_dim} cannot come after end_dim {end_dim}."
        )
    if start == end:
        return input
    result = (*shape[:start], prod(shape[start : end + 1]), *shape[end + 1 :])
    if type(start_dim) is int is type(end_dim):
        keep(_FLATTENED, (shape, start_dim, end_dim), (result,))
    return reshaped(input, result)


def _quick_ravel(input: Any) -> tuple | None:
    if input.flags.c_contiguous:
        out = input.reshape(-1)
        return out, (out.shape,)
    return None


@composed(method=True)
@shortcut(reshaped, _quick_ravel)
def ravel(input: Any) -> Array:
    """All elements in row-major order, as one dim.

    Args:
        input: tensor of any shape.
    Returns:
        (number of elements,), contiguous; a view where memory allows.

    >>> dynograd.ravel(tensor([[1, 2], [3, 4]]))
    tensor([1, 2, 3, 4])
    """
    return reshaped(contiguous(input), (prod(getattr(input, "array", input).shape),))


_UNFLATTENED: dict[Any, tuple] = {}  # (shape, dim, sizes) -> the arguments of `reshaped`


def _quick_unflatten(input: Any, dim: Any, sizes: Any) -> tuple | None:
    statics = _UNFLATTENED[input.shape, dim, sizes]
    return input.reshape(*statics), statics


@composed(method=True)
@shortcut(reshaped, _quick_unflatten, misses=(KeyError, TypeError))
def unflatten(input: Any, dim: int, sizes: Any) -> Array:
    """Splits one dim into several; one of `sizes` may be -1.

    Args:
        input: tensor of any shape.
        dim: which dim; negative counts from the end.
        sizes: ints.
    Returns:
        A view of `input`.
    Raises:
        ShapeError: `sizes` do not multiply up to the size of `dim`.

    >>> dynograd.unflatten(dynograd.zeros(2, 6), 1, (3, -1)).shape
    dynograd.Size([2, 3, 2])
    """
    shape = tuple(input.shape)
    place = normalize_dim("unflatten", dim, len(shape))
    if not shape:
        raise IndexError("unflatten: Dimension specified but the tensor has no dimensions. Use reshape.")
    inner_sizes = as_shape("unflatten", (sizes,))
    if not inner_sizes:
        raise ShapeError("unflatten: sizes must be non-empty.")
    try:
        inner = infer_size("unflatten", inner_sizes, shape[place])
    except ShapeError:
        raise ShapeError(
            f"unflatten: Provided sizes {list(inner_sizes)} don't multiply up to the size of dim {dim} ({shape[place]}) in the input "
            f"tensor of shape {shape}."
        ) from None
    result = (*shape[:place], *inner, *shape[place + 1 :])
    if type(dim) is int and type(sizes) is tuple:
        keep(_UNFLATTENED, (shape, dim, sizes), (result,))
    return reshaped(input, result)


def _quick_squeeze(input: Any, dim: Any, dims: Any, axis: Any) -> tuple | None:
    if axis is None and not dims and (dim is None or type(dim) is int or (type(dim) is tuple and dim)):
        if dim is None:
            out = input.squeeze()
        elif type(dim) is tuple:
            out = input.squeeze(tuple([place for place in dim if input.shape[place] == 1]))
        else:
            out = input.squeeze(dim) if input.shape[dim] == 1 else input
        if out is input:
            out = input[...]
        return out, (out.shape,)
    return None


@composed(method=True, inplace_view=True)
@shortcut(reshaped, _quick_squeeze, misses=(IndexError, TypeError, ValueError))
def squeeze(input: Any, dim: Any = None, *dims: Any, axis: Any = None) -> Array:
    """A view without the dims of size 1: all of them, or those among `dim` (others stay as they are).

    Args:
        input: tensor of any shape.
        dim: an int or several; None: all.
        dims: further ones, as numbers: `x.squeeze(0, 1)` is `x.squeeze((0, 1))`.
    Returns:
        A view of `input`.

    >>> dynograd.zeros(1, 3, 1).squeeze().shape
    dynograd.Size([3])
    """
    shape = getattr(input, "array", input).shape
    if dims:
        dim = (dim, *dims)
    if dim is None:
        if axis is not None:
            return squeeze(input, axis)
        return reshaped(input, tuple([size for size in shape if size != 1]))
    if type(dim) is int and -len(shape) <= dim < len(shape):
        if shape[dim] != 1:
            return reshaped(input, shape)
        return reshaped(input, shape[:dim] + shape[dim:][1:])
    named = () if dim == () else normalize_dims("squeeze", dim, len(shape))
    return reshaped(input, tuple([size for place, size in enumerate(shape) if size != 1 or place not in named]))


_NEW_DIM = {
    **{dim: (*(slice(None),) * dim, None) for dim in range(8)},
    **{-1 - dim: (..., None, *(slice(None),) * dim) for dim in range(8)},
}


def _quick_unsqueeze(input: Any, dim: Any) -> tuple | None:
    if type(dim) is int:
        out = input[_NEW_DIM[dim]]
        return out, (out.shape,)
    return None


@composed(method=True, inplace_view=True)
@shortcut(reshaped, _quick_unsqueeze, misses=(LookupError,))
def unsqueeze(input: Any, dim: Any = None, *, axis: Any = None) -> Array:
    """A view with a new dim of size 1 at `dim`.

    Args:
        input: tensor of any shape.
        dim: where the new dim stands, from -ndim - 1 to ndim.
    Returns:
        A view of `input`.

    >>> dynograd.unsqueeze(tensor([1, 2]), 1).shape
    dynograd.Size([2, 1])
    """
    shape = getattr(input, "array", input).shape
    if type(dim) is int and 0 <= dim <= len(shape):
        return reshaped(input, (*shape[:dim], 1, *shape[dim:]))
    if dim is None and axis is None:
        raise TypeError("unsqueeze() missing 1 required argument: 'dim'")
    place = normalize_dim("unsqueeze", axis if dim is None else dim, len(shape) + 1)
    return reshaped(input, (*shape[:place], 1, *shape[place:]))


@op(name="permute", linear=True, view="input.transpose(dims)")
def permuted(input: Array, dims: tuple[int, ...]) -> Array:
    """`input` with its dims in the order `dims` (all, counted from the front)."""
    return input.transpose(dims)


@permuted.backward
def permuted_backward(g: Any, saved: Any, dims: Any) -> Gradients:
    back = [0] * len(dims)
    for place, dim in enumerate(dims):
        back[dim] = place
    return (permuted(g, tuple(back)),)


_ORDERS: dict[Any, tuple[int, ...]] = {}  # (rank, the order as it was given) -> the order, counted from the front
_EXCHANGES: dict[Any, tuple] = {}  # (rank, dim0, dim1) -> the arguments of `permuted`


def _quick_permute(input: Any, order: Any, dims: Any) -> tuple | None:
    statics = (_ORDERS[input.ndim, order if dims is None else dims],)
    return input.transpose(*statics), statics


@composed(covers="permute", method=True, ragged="levels")
@shortcut(permuted, _quick_permute, misses=(KeyError, TypeError))
def permute(input: Any, *order: Any, dims: Any = None) -> Array:
    """A view with the dims in another order; every dim is named once.

    Args:
        input: tensor of any shape.
        order: the dims, as numbers.
        dims: the same, as a tuple.
    Returns:
        A view of `input`.
    Raises:
        ShapeError: a dim is missing or appears twice.

    >>> dynograd.permute(dynograd.zeros(2, 3, 5), (2, 0, 1)).shape
    dynograd.Size([5, 2, 3])
    """
    rank = getattr(input, "array", input).ndim
    order_given = as_shape("permute", order if dims is None else (tuple(dims),))
    if len(order_given) != rank:
        raise ShapeError(
            f"permute: number of dimensions in the tensor input does not match the length of the desired ordering of dimensions: "
            f"input has {rank} (shape {tuple(input.shape)}), dims is {order_given}. Name every dim once."
        )
    places = tuple([normalize_dim("permute", dim, rank) for dim in order_given])
    if len(set(places)) != rank:
        raise ShapeError(f"permute: duplicate dims are not allowed, got dims={order_given}. Name every dim once.")
    operands = order if dims is None else dims
    if {*map(type, operands[0] if len(operands) == 1 and type(operands[0]) is tuple else operands)} <= {int}:
        keep(_ORDERS, (rank, operands), places)
    return permuted(input, places)


def _quick_transpose(input: Any, dim0: Any, dim1: Any) -> tuple | None:
    if type(dim0) is int is type(dim1):
        statics = _EXCHANGES[input.ndim, dim0, dim1]
        return input.transpose(*statics), statics
    return None


@composed(method=True, inplace_view=True)
@shortcut(permuted, _quick_transpose, misses=(KeyError,))
def transpose(input: Any, dim0: int, dim1: int) -> Array:
    """A view with two dims exchanged.

    Args:
        input: tensor of any shape.
        dim0, dim1: the two dims; negative ones count from the end.
    Returns:
        A view of `input`.

    >>> dynograd.transpose(tensor([[1, 2, 3]]), 0, 1)
    tensor([[1],
            [2],
            [3]])
    """
    rank = getattr(input, "array", input).ndim
    if type(dim0) is int is type(dim1) and (known := _EXCHANGES.get((rank, dim0, dim1))) is not None:
        return permuted(input, *known)
    dims = [*range(rank)]
    try:
        dims[dim0], dims[dim1] = dims[dim1], dims[dim0]
        if type(dim0) is int is type(dim1):
            keep(_EXCHANGES, (rank, dim0, dim1), (tuple(dims),))
    except (IndexError, TypeError) as error:
        failure = refusal(normalize_dim, "transpose", dim0, rank) or refusal(normalize_dim, "transpose", dim1, rank)
        if rank or failure:  # the one dim of a tensor without dims, 0 or -1, exchanges nothing
            raise failure or error from None
    return permuted(input, tuple(dims))


@composed()
def atleast_1d(*tensors: Any) -> Array | tuple[Array, ...]:
    """The tensors with at least one dim: one tensor, or a tuple for several.

    Args:
        tensors: tensors, or one sequence of them.
    Returns:
        A tensor, or a tuple of them.

    >>> dynograd.atleast_1d(tensor(3))
    tensor([3])
    """
    return _at_least(tensors, lambda x: reshaped(x, (1,)) if x.ndim == 0 else x)


@composed()
def atleast_2d(*tensors: Any) -> Array | tuple[Array, ...]:
    """The tensors with at least two dims, new ones in front.

    Args:
        tensors: tensors, or one sequence of them.
    Returns:
        A tensor, or a tuple of them.

    >>> dynograd.atleast_2d(tensor([1, 2]))
    tensor([[1, 2]])
    """
    return _at_least(tensors, lambda x: reshaped(x, (*(1,) * (2 - x.ndim), *x.shape)) if x.ndim < 2 else x)


@composed()
def atleast_3d(*tensors: Any) -> Array | tuple[Array, ...]:
    """The tensors with at least three dims: (N,) becomes (1, N, 1), (M, N) becomes (M, N, 1).

    Args:
        tensors: tensors, or one sequence of them.
    Returns:
        A tensor, or a tuple of them.

    >>> dynograd.atleast_3d(tensor([1, 2]))
    tensor([[[1],
             [2]]])
    """
    shapes = {0: lambda x: (1, 1, 1), 1: lambda x: (1, *x.shape, 1), 2: lambda x: (*x.shape, 1)}
    return _at_least(tensors, lambda x: reshaped(x, shapes[x.ndim](x)) if x.ndim < 3 else x)


def _at_least(tensors: tuple, grow: Any) -> Array | tuple[Array, ...]:
    if len(tensors) == 1:
        if not isinstance(tensors[0], (tuple, list)):
            return grow(tensors[0])
        tensors = tuple(tensors[0])
    return tuple(grow(tensor) for tensor in tensors)
