"""Slices or elements picked by an index vector or a mask: `index_select`, `index_add`, `masked_select`, `take`."""

from __future__ import annotations

from math import prod
from typing import Any

from dynograd import arrays
from dynograd.arrays import Array, literals
from dynograd.base import dtypes
from dynograd.base.shapes import broadcast_shapes, normalize_dim
from dynograd.base.values import read_values
from dynograd.errors import DtypeError, IndexRangeError, ShapeError
from dynograd.kernels import kernel
from dynograd.ops.elementwise.arithmetic import is_whole
from dynograd.ops.elementwise.choices import where
from dynograd.ops.elementwise.comparisons import ne
from dynograd.ops.index.indexing import get_advanced, get_basic, put_advanced
from dynograd.ops.index.indices import FULL, check_range
from dynograd.ops.index.scatters import scatter_reduce
from dynograd.ops.layout.broadcasting import convert, stretch
from dynograd.ops.layout.conversions import clone, laid_out
from dynograd.ops.layout.views import ravel, reshaped
from dynograd.ops.op import composed, shortcut

__all__ = ["index_add", "index_copy", "index_fill", "index_select", "masked_scatter", "masked_select", "put", "take"]


_ALONG = [(*(FULL,) * dim, 0) for dim in range(16)]  # the template of one index vector along `dim`
_INT64 = dtypes.int64.num
_NUMBER = arrays.zeros((), dtypes.float32)  # what a number is in records of the array beside it


def _quick_index_select(compute: Any, input: Any, dim: Any, index: Any) -> tuple | None:
    if index.ndim == 1 and index.dtype.num == _INT64 and type(dim) is int and -input.ndim <= dim < input.ndim:
        place = dim if dim >= 0 else dim + input.ndim
        return compute(input, index, place, False), (_ALONG[place],), {"indices": [index]}
    return None


@composed(method=True, out="exact apart")
@shortcut(get_advanced, _quick_index_select, compute="scatters.take", misses=(IndexError,), beside="index")
def index_select(input: Any, dim: int, index: Any) -> Array:
    """A copy of the slices of `input` at `index` along `dim`.

    Args:
        input: tensor with at least one dim.
        dim: which dim; negative counts from the end.
        index: a vector of integers from 0.
    Returns:
        `input`'s shape, with len(index) in `dim`.
    Raises:
        IndexRangeError: an index outside `dim`.

    >>> dynograd.index_select(tensor([[1, 2], [3, 4]]), 1, tensor([1, 1]))
    tensor([[2, 2],
            [4, 4]])
    """
    place = _checked("index_select", input, dim, index)
    if not getattr(input, "array", input).ndim:
        return reshaped(get_advanced(reshaped(input, (1,)), [ravel(index)], (0,)), ())
    if not getattr(index, "array", index).ndim:
        index = reshaped(index, (1,))
    return get_advanced(input, [index], (*(FULL,) * place, 0) if place else (0,))


def _checked(who: str, input: Any, dim: int, index: Any, negative: bool = False) -> int:
    """`dim` counted from the front, when `index` is a vector of integers inside it."""
    shape = getattr(input, "array", input).shape
    place = dim if type(dim) is int and 0 <= dim < len(shape) else normalize_dim(who, dim, len(shape))
    array = getattr(index, "array", index)
    if type(array) is arrays.ndarray and array.ndim == 1 and array.size <= 16 and array.dtype.kind == "i" and shape:
        values = array.tolist()
        if not values or (max(values) < shape[place] and min(values) >= (-shape[place] if negative else 0)):
            return place
    if not hasattr(array, "dtype"):
        raise TypeError(f"{who}: argument 'index' must be Tensor, not {type(index).__name__}. Write tensor({index!r}).")
    if array.ndim > 1:
        raise IndexError(
            f"{who}: Index is supposed to be a vector, but got dim: {array.ndim} (shape {array.shape}). Use ravel()."
        )
    if array.dtype.kind not in "iu":
        raise DtypeError(f"{who}: Expected dtype int32 or int64 for index, got {index.dtype}. Convert with .long().")
    check_range(who, array, place, tuple(shape), negative=negative)
    return place


def _vector(index: Any) -> Array:
    return index if index.ndim else reshaped(index, (1,))


def _put(who: str, input: Any, dim: int, index: Any, source: Any, accumulate: bool, negative: bool = False) -> Array:
    """A copy of `input` with `source` (one slice per index, or a 0-d value) written or added."""
    place = _checked(who, input, dim, index, negative)
    if source.ndim or not negative:
        source = _slices_fit(who, input, place, index, source)
    if not input.ndim:
        return reshaped(put_advanced(reshaped(input, (1,)), source, [ravel(index)], (0,), accumulate), ())
    return put_advanced(input, source, [_vector(index)], (*(FULL,) * place, 0), accumulate)


def _slices_fit(who: str, input: Any, place: int, index: Any, source: Any) -> Array:
    """`source` when it holds one slice of `input` for each index."""
    if input.dtype != source.dtype:
        raise DtypeError(
            f"{who}: self and source expected to have the same dtype, but got {input.dtype} and {source.dtype}. Convert source."
        )
    shape, operands, count = tuple(input.shape), tuple(source.shape), prod(index.shape)
    expected_shape = (*shape[:place], count, *shape[place + 1 :])
    if operands == expected_shape:
        return source
    without = (*shape[:place], *shape[place + 1 :])
    if (
        count == 1
        and operands in (without, (1,))
        and prod(operands) == prod(expected_shape)
        and max(len(shape), len(operands)) <= 1 + (operands == without)
    ):
        return reshaped(source, expected_shape)
    raise IndexRangeError(
        f"{who}: source must hold one slice of input (shape {shape}) for each index: expected shape {expected_shape}, got {operands}. "
        f"Number of indices ({count}) should be equal to source.size(dim)."
    )


def _quick_index_add(compute: Any, input: Any, dim: Any, index: Any, values: Any, alpha: Any) -> tuple | None:
    if input.size < 4096 and alpha == 1:
        place = dim if dim >= 0 else dim + input.ndim
        return compute(input, place, index, values), (_ALONG[place], True), {"indices": [index]}
    return None


@composed(method=True, inplace=True, ragged="places")
@shortcut(
    put_advanced, _quick_index_add, compute="writes.index_added", misses=(IndexError,), beside="index", values="source"
)
def index_add(input: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Array:
    """A copy of `input` with `alpha` times the slices of `source` added at `index` along `dim`.

    Args:
        input: tensor of any shape.
        dim: which dim; negative counts from the end.
        index (N,): integers from 0.
        source: `input`'s shape, with N in `dim`.
        alpha: number that `source` is multiplied by; of integers its whole part, of bools whether it is not 0.
    Returns:
        A tensor of the shape and dtype of `input`.
    Raises:
        IndexRangeError: an index outside `dim`, or not one slice per index.

    >>> dynograd.index_add(dynograd.zeros(3), 0, tensor([0, 2, 0]), tensor([1.0, 2.0, 3.0]))
    tensor([4., 0., 2.])
    """
    if alpha != 1:
        source = source * (bool(alpha) if source.dtype == dtypes.bool else int(alpha) if is_whole(source) else alpha)
    return _put("index_add", input, dim, index, source, True)


def _quick_index_copy(compute: Any, input: Any, dim: Any, index: Any, values: Any) -> tuple | None:
    if input.size < 4096:
        place = dim if dim >= 0 else dim + input.ndim
        return compute(input, place, index, values), (_ALONG[place], False), {"indices": [index]}
    return None


@composed(method=True, inplace=True, ragged="places")
@shortcut(
    put_advanced,
    _quick_index_copy,
    compute="writes.index_copied",
    misses=(IndexError,),
    beside="index",
    values="source",
)
def index_copy(input: Any, dim: int, index: Any, source: Any) -> Array:
    """A copy of `input` with the slices of `source` written at `index` along `dim`.

    Args:
        input: tensor of any shape.
        dim: which dim; negative counts from the end.
        index (N,): integers from 0.
        source: `input`'s shape, with N in `dim`.
    Returns:
        A tensor of the shape and dtype of `input`.
    Raises:
        IndexRangeError: an index outside `dim`, or not one slice per index.

    >>> dynograd.index_copy(dynograd.zeros(3), 0, tensor([2, 0]), tensor([1.0, 2.0]))
    tensor([2., 0., 1.])
    """
    return _put("index_copy", input, dim, index, source, False)


def _quick_index_fill(compute: Any, input: Any, dim: Any, index: Any, value: Any) -> tuple | None:
    if input.size < 4096 and type(value) in (int, float):
        place = dim if dim >= 0 else dim + input.ndim
        return compute(input, place, index, value), (_ALONG[place], False), {"values": _NUMBER, "indices": [index]}
    return None


@composed(method=True, inplace=True, out=None, refills=True, ragged="places")
@shortcut(put_advanced, _quick_index_fill, compute="writes.index_filled", misses=(IndexError,), beside="index")
def index_fill(input: Any, dim: int, index: Any, value: Any) -> Array:
    """A copy of `input` with `value` (a number or 0-d tensor) in the slices at `index` along `dim`.

    Negative indices count from the end.

    Args:
        input: tensor of any shape.
        dim: which dim; negative counts from the end.
        index (N,): integers.
        value: number, or tensor without dims.
    Returns:
        A tensor of the shape and dtype of `input`.
    Raises:
        IndexRangeError: an index outside `dim`.

    >>> dynograd.index_fill(dynograd.zeros(3), 0, tensor([0, -1]), 5.0)
    tensor([5., 0., 5.])
    """
    raw = getattr(input, "array", input)
    kind = dtypes.BY_NUM[raw.dtype.num]
    if kind.category < dtypes.COMPLEX and (
        isinstance(value, complex) or getattr(getattr(value, "dtype", None), "is_complex", False)
    ):
        raise DtypeError(f"index_fill: value {value} is complex and does not fit into {kind}. Use value.real.")
    if not hasattr(value, "ndim"):
        value = arrays.from_python(literals.fitting(value, kind), kind)
        value = arrays.to_device(value, arrays.place_of(raw))
    elif value.ndim:
        raise ShapeError(
            f"index_fill: only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s). Use index_copy."
        )
    elif getattr(value, "requires_grad", False):  # an index twice writes one value, whose gradient counts once
        marks = index_fill(arrays.zeros_like(raw), dim, index, 1)
        return where(ne(marks, 0), convert(value, kind), input)
    return laid_out(_put("index_fill", input, dim, index, value, False, negative=True), input)


@composed(method=True, inplace=True, ragged="places")
def index_reduce(input: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Array:
    """A copy of `input` with the slices of `source` combined into those at `index` by "prod", "mean", "amax" or "amin".

    Args:
        input: tensor of any shape.
        dim: which dim; negative counts from the end.
        index (N,): integers from 0.
        source: `input`'s shape, with N in `dim`.
        reduce: "prod", "mean", "amax" or "amin".
        include_self: whether the values of `input` take part.
    Returns:
        A tensor of the shape and dtype of `input`.
    Raises:
        IndexRangeError: an index outside `dim`.

    >>> dynograd.index_reduce(dynograd.ones(2), 0, tensor([0, 0]), tensor([2.0, 3.0]), "prod")
    tensor([6., 1.])
    """
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce: reduce argument must be either prod, mean, amax or amin, got {reduce}.")
    place = _checked("index_reduce", input, dim, index)
    source = _slices_fit("index_reduce", input, place, index, source)
    if not input.ndim:
        result = scatter_reduce(
            clone(reshaped(input, (1,))),
            0,
            reshaped(index, (-1,)),
            reshaped(source, (-1,)),
            reduce,
            include_self=include_self,
        )
        return reshaped(result, ())
    along = [1] * input.ndim
    along[place] = -1
    whole = stretch(reshaped(index, tuple(along)), tuple(source.shape))
    return scatter_reduce(input, place, whole, source, reduce, include_self=include_self)


# --- masks -------------------------------------------------------------------------------------------------------------------


def _mask(who: str, mask: Any) -> Array:
    kind = getattr(getattr(mask, "array", mask), "dtype", None)
    if kind is None or kind.kind != "b":
        raise DtypeError(
            f"{who}: expected BoolTensor for mask, got {getattr(mask, 'dtype', type(mask).__name__)}. Convert with .bool()."
        )
    return mask


@composed(method=True, out="exact apart", at_once="the shape of its result depends on values")
def masked_select(input: Any, mask: Any) -> Array:
    """The elements of `input` where `mask` is True, as a vector; the two broadcast.

    Args:
        input: tensor of any shape.
        mask: bool tensor, broadcast with `input`.
    Returns:
        (number of True,), in `input`'s dtype.

    >>> dynograd.masked_select(tensor([1, 2, 3]), tensor([True, False, True]))
    tensor([1, 3])
    """
    operands, input_shape = _mask("masked_select", mask).shape, input.shape
    if operands == input_shape and operands:
        return get_advanced(input, [mask], (0,))
    shape = broadcast_shapes("masked_select", tuple(input_shape), tuple(operands)) or (1,)
    return get_advanced(stretch(input, shape), [stretch(mask, shape)], (0,))


@composed(method=True, inplace=True, out=None)
@read_values
def masked_scatter(input: Any, mask: Any, source: Any) -> Array:
    """A copy of `input` in which the places where `mask` (broadcast) is True hold the first elements of `source`, in order.

    Args:
        input: tensor of any shape.
        mask: bool tensor, broadcast with `input`.
        source: tensor of `input`'s dtype.
    Returns:
        A tensor of the broadcast shape.
    Raises:
        ShapeError: `source` has fewer elements than `mask` has True.

    >>> dynograd.masked_scatter(dynograd.zeros(3), tensor([True, False, True]), tensor([1.0, 2.0]))
    tensor([1., 0., 2.])
    """
    if input.dtype != source.dtype:
        raise DtypeError(
            f"masked_scatter: expected self and source to have same dtypes but got {input.dtype} and {source.dtype}."
        )
    shape = broadcast_shapes("masked_scatter", tuple(input.shape), tuple(_mask("masked_scatter", mask).shape)) or (1,)
    where = stretch(mask, shape)
    raw = getattr(where, "array", where)
    count = kernel("indexing", "count_true", raw)(raw)
    if prod(source.shape) < count:
        raise ShapeError(
            f"masked_scatter: Number of elements of source < number of ones in mask: source has {prod(source.shape)}, mask {count}."
        )
    values = get_basic(ravel(source), (slice(count),))
    result = put_advanced(stretch(input, shape), values, [where], (0,), False)
    return result if input.ndim or mask.ndim else reshaped(result, ())


# --- flat positions ----------------------------------------------------------------------------------------------------------


def _quick_take(compute: Any, input: Any, index: Any) -> object:
    if index.dtype.num == _INT64 and index.ndim:
        return compute(input.reshape(-1), [index], (0,))
    return None


@composed(method=True, out="apart")
@shortcut(None, _quick_take, compute="indexing.index_forward", misses=(IndexError,), beside="input index")
def take(input: Any, index: Any) -> Array:
    """The elements of `input`, seen as flat, at `index`, in the shape of `index`; negative ones count from the end.

    Args:
        input: tensor of any shape.
        index: integers of any shape.
    Returns:
        A tensor of the shape of `index`, in `input`'s dtype.
    Raises:
        IndexRangeError: an index outside the tensor.

    >>> dynograd.take(tensor([[1, 2], [3, 4]]), tensor([0, -1]))
    tensor([1, 4])
    """
    if getattr(getattr(index, "array", None), "dtype", None) == dtypes.int64.numpy and index.ndim:
        try:
            return get_advanced(ravel(input), [index], (0,))
        except IndexError:
            pass  # the check below says which index
    _check_flat("take", input, index)
    return reshaped(get_advanced(ravel(input), [ravel(index)], (0,)), tuple(index.shape))


def _check_flat(who: str, input: Any, index: Any) -> None:
    array = getattr(index, "array", index)
    if not hasattr(array, "dtype") or array.dtype.kind not in "iu":
        raise DtypeError(
            f"{who}: Expected a long tensor for index, but got {getattr(index, 'dtype', type(index).__name__)}."
        )
    if arrays.checked_later(array, lambda known: _check_flat(who, input, known)):
        return
    count = prod(input.shape)
    array = arrays.all_values(array)
    wrong = kernel("indexing", "out_of_range", array)(array, -count, count, who)
    if wrong is not None:
        raise IndexRangeError(
            f"{who}: out of range: tried to access index {wrong[0]} (at position {list(wrong[1])} of the index tensor) on a tensor of "
            f"{count} elements."
        )


@composed(method=True, inplace=True, out=None)
def put(input: Any, index: Any, source: Any, accumulate: bool = False) -> Array:
    """A copy of `input` with the elements of `source` written (or added) at the flat positions `index`.

    Args:
        input: tensor of any shape.
        index: integers of any shape.
        source: tensor of `input`'s dtype with as many elements.
        accumulate: add, instead of writing.
    Returns:
        A tensor of the shape and dtype of `input`.
    Raises:
        IndexRangeError: `index` and `source` differ in their number of elements.

    >>> dynograd.put(dynograd.zeros(2, 2), tensor([1, -1]), tensor([5.0, 6.0]))
    tensor([[0., 5.],
            [0., 6.]])
    """
    _check_flat("put", input, index)
    if prod(index.shape) != prod(source.shape):
        raise IndexRangeError(
            f"put: src should have the same number of elements as index, but got {prod(source.shape)} elements for {prod(index.shape)} "
            f"indices."
        )
    if input.dtype != source.dtype:
        raise DtypeError(
            f"put: self and source expected to have the same dtype, but got {input.dtype} and {source.dtype}."
        )
    result = put_advanced(ravel(input), ravel(source), [ravel(index)], (0,), bool(accumulate))
    return laid_out(reshaped(result, tuple(input.shape)), input)
