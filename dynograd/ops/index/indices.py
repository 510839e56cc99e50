"""Reading what stands between the brackets of `x[...]`: forms, shapes and ranges are checked here, with values in the messages."""

from __future__ import annotations

import warnings
from typing import Any

from dynograd import arrays
from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.base.shapes import broadcast_shapes
from dynograd.base.values import has_fixed_number
from dynograd.errors import IndexRangeError, ShapeError, user_level
from dynograd.kernels import kernel
from dynograd.ops.layout.broadcasting import convert

FULL = slice(None)


def parse(
    who: str, shape: tuple[int, ...], index: Any, check: bool = True
) -> tuple[tuple | None, list[Array], tuple | None]:
    """(basic part or None, index arrays, template or None) of any index; raises whatever is wrong with it.

    With `check=False` the values of index arrays are left to the kernel, whose IndexError the caller has to explain.
    """
    entries = [_entry(who, entry) for entry in _as_tuple(index)]
    used = sum([_consumed(entry) for entry in entries])
    _check_count(who, shape, entries, used)
    basic: list[Any] = []
    template: list[Any] = []
    indices: list[Any] = []
    dim = 0
    for place, entry in enumerate(entries):
        if isinstance(entry, int):
            if not -shape[dim] <= entry < shape[dim]:
                raise range_error(who, entry, dim=dim, shape=shape)
            basic.append(entry)
        elif entry is Ellipsis:
            basic.append(entry)
            template += [FULL] * (len(shape) - used)
            dim += len(shape) - used
        elif entry is None or isinstance(entry, slice):
            basic.append(entry)
            template.append(FULL)
        else:
            basic += [None] if isinstance(entry, _Flag) else [FULL] * _consumed(entry)
            template.append(len(indices))
            array = getattr(entry, "array", entry)
            indices.append(array if isinstance(entry, _Flag) else entry)
            if not isinstance(entry, _Flag) and (check or array.dtype.kind == "b"):
                _check_array(who, array, place, dim, shape)
        dim += _consumed(entry)
    if not indices:
        if any([isinstance(entry, int) for entry in basic]) and Ellipsis not in basic:
            basic.append(Ellipsis)
        return tuple(basic) or (Ellipsis,), [], None
    if check:
        _check_together(who, indices)
    while template[-1] == FULL:
        template.pop()
    trivial = all([entry == FULL or entry is Ellipsis for entry in basic])
    return None if trivial else (*basic, *(() if Ellipsis in basic else (Ellipsis,))), indices, tuple(template)


class _Flag:
    """A bool scalar in an index: a new dim of size 1, of which True picks the one element and False none."""

    __slots__ = ("array",)

    def __init__(self, value: Any) -> None:
        self.array = arrays.zeros((1 if value else 0,), dtypes.int64)


def _as_tuple(index: Any) -> tuple:
    if isinstance(index, tuple):
        return index
    if isinstance(index, list) and len(index) < 32 and any([_stands_for_a_dim(entry) for entry in index]):
        warnings.warn(
            "Using a non-tuple sequence for multidimensional indexing is deprecated: instead of x[seq] write x[tuple(seq)] (an index "
            "for each dim) or x[tensor(seq)] (an array of indices).",
            UserWarning,
            stacklevel=user_level(),
        )
        return tuple(index)
    return (index,)


def _stands_for_a_dim(entry: Any) -> bool:
    """PyTorch reads a list as a tuple of indices as soon as one of its elements is such."""
    return (
        entry is None
        or entry is Ellipsis
        or isinstance(entry, (slice, list, tuple, range, arrays.ndarray))
        or hasattr(entry, "array")
    )


def _entry(who: str, entry: Any) -> Any:
    """One element of an index as None, Ellipsis, an int, a checked slice, a `_Flag`, an index array or a mask."""
    if entry is None or entry is Ellipsis or type(entry) is int:
        return entry
    if isinstance(entry, slice):
        return _checked_slice(who, entry)
    if isinstance(entry, (list, tuple, range)):
        entry = arrays.from_python(_numbers(entry), None)
    if isinstance(entry, arrays.ndarray) and entry.shape == (0,) and entry.dtype.kind == "f":
        entry = arrays.cast(entry, dtypes.int64)  # an empty list has no dtype of its own
    kind = getattr(getattr(entry, "array", entry), "dtype", None)
    if kind is None or not hasattr(entry, "shape"):
        if isinstance(entry, bool):
            return _Flag(entry)
        if hasattr(type(entry), "__index__"):
            return entry.__index__()
        raise IndexError(
            f"{who}: only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got "
            f"{type(entry).__name__} {entry!r})."
        )
    number = arrays.is_array(entry) and not isinstance(entry, arrays.ndarray)
    if kind.kind == "b" or (kind.num == dtypes.uint8.num and not number):
        if kind.kind != "b":
            warnings.warn(
                "indexing with dtype uint8 is deprecated, please use a dtype bool instead.",
                UserWarning,
                stacklevel=user_level(),
            )
            entry = convert(entry, dtypes.bool)
        return _Flag(bool(entry)) if entry.ndim == 0 else entry
    if kind.kind in "iu":
        return entry.__index__() if entry.ndim == 0 and has_fixed_number(entry) else entry
    raise IndexError(
        f"{who}: tensors used as indices must be long, int, byte or bool tensors, got {dtypes.BY_NUM[kind.num]}. Convert with .long()."
    )


def _numbers(values: Any) -> Any:
    """Nested sequences with 0-d tensors replaced by their numbers."""
    if isinstance(values, (list, tuple, range)):
        return [_numbers(value) for value in values]
    return values.array if hasattr(values, "array") else values


def _checked_slice(who: str, entry: slice) -> slice:
    start, stop, step = [part if part is None else _slice_bound(part) for part in (entry.start, entry.stop, entry.step)]
    if step is not None and step <= 0:
        if step == 0:
            raise ValueError(f"{who}: slice step cannot be zero.")
        raise ValueError(
            f"{who}: step must be greater than zero, got {step}. Use flip(dims) (e.g. x.flip(0) for x[::-1]) and a positive step."
        )
    return slice(start, stop, step)


def _slice_bound(part: Any) -> int:
    if not hasattr(type(part), "__index__"):
        raise TypeError(f"slice indices must be integers or None or have an __index__ method, got {part!r}.")
    return part.__index__()


def _consumed(entry: Any) -> int:
    """How many dims of the indexed tensor an entry stands for."""
    if entry is None or entry is Ellipsis or isinstance(entry, _Flag):
        return 0
    if isinstance(entry, (int, slice)):
        return 1
    return entry.ndim if getattr(entry, "array", entry).dtype.kind == "b" else 1


def _check_count(who: str, shape: tuple[int, ...], entries: list, used: int) -> None:
    if used > len(shape):
        if not shape and isinstance(entries[0], int):
            raise IndexError(
                f"{who}: invalid index of a 0-dim tensor. Use tensor.item() to get its value as a Python number."
            )
        raise IndexError(f"{who}: too many indices for tensor of dimension {len(shape)}: got {used} for shape {shape}.")
    if sum([entry is Ellipsis for entry in entries]) > 1:
        raise IndexError(f"{who}: an index can only have a single ellipsis ('...').")


def _check_array(who: str, array: Any, place: int, dim: int, shape: tuple[int, ...]) -> None:
    if array.dtype.kind == "b":
        for axis, size in enumerate(array.shape):
            if size != shape[dim + axis]:
                raise IndexError(
                    f"{who}: The shape of the mask {list(array.shape)} at index {axis} does not match the shape of the indexed tensor "
                    f"{list(shape)} at index {dim + axis} (the mask is entry {place} of the index)."
                )
        return
    check_range(who, array, dim, shape)


def check_range(who: str, index: Any, dim: int, shape: tuple[int, ...], negative: bool = True) -> None:
    """Raises `IndexRangeError` for the first element of the index array outside dimension `dim`."""
    if arrays.checked_later(index, lambda known: check_range(who, known, dim, shape, negative)):
        return
    size = shape[dim] if shape else 1
    index = arrays.all_values(index)
    wrong = kernel("indexing", "out_of_range", index)(index, -size if negative else 0, size, who, True)
    if wrong is not None:
        raise range_error(who, *wrong, dim=dim, shape=shape, negative=negative)


def range_error(
    who: str, value: int, position: Any = None, *, dim: int, shape: tuple[int, ...], negative: bool = True
) -> IndexRangeError:
    size = shape[dim] if shape else 1
    where = f" at position {list(position)} of the index tensor" if position else ""
    valid = f"valid are {-size if negative else 0} to {size - 1}" if size else "it has no elements"
    return IndexRangeError(
        f"{who}: index {value} is out of bounds for dimension {dim} with size {size}{where}: input has shape {shape}, {valid}."
    )


def _check_together(who: str, indices: list) -> None:
    """Index arrays must broadcast against each other; a mask counts as the list of its True elements."""
    if len(indices) < 2:
        return
    arrays = [getattr(index, "array", index) for index in indices]
    shapes = [
        (kernel("indexing", "count_true", array)(array),) if array.dtype.kind == "b" else array.shape
        for array in arrays
    ]
    try:
        broadcast_shapes(who, *shapes)
    except ShapeError:
        listed = ", ".join(str(list(shape)) for shape in shapes)
        raise IndexError(
            f"{who}: shape mismatch: indexing tensors could not be broadcast together with shapes {listed}. Make them of one length, or "
            f"index twice."
        ) from None
