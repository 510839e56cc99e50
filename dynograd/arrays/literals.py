"""New arrays from Python's numbers: nested lists of numbers, of NumPy's numbers and arrays, of tensors of one element."""

from __future__ import annotations

import functools
import math
from itertools import chain
from typing import Any

import numpy

from dynograd.base import dtypes
from dynograd.errors import NumberRangeError

__all__ = ["array_of", "fitting"]

_PLAIN = frozenset({bool, int, float, complex})
_WHOLE = frozenset({int, bool})
_LISTS = {list}
_LEVELS = 8  # of nested lists that are looked at together; a list that holds itself ends in a RecursionError


def array_of(data: Any, dtype: dtypes.dtype | None) -> Any:
    """A NumPy array of `data`; its dtype is `dtype`, or the smallest that holds all numbers.

    Python's floats count as the default dtype, ints as int64; NumPy's numbers and arrays, and tensors, have their own. A tensor in a
    list stands for its one element.
    """
    kinds: set[Any] = set()
    if isinstance(data, (list, tuple)):
        _add_kinds(data, kinds)
        if any([type(kind) is dtypes.dtype for kind in kinds]):
            data = _items(data)
    else:
        kinds.add(type(data))
    try:
        array = numpy.array(data)
    except ValueError:
        raise _no_numbers(data) from None
    if dtype is not None and dtype.category == dtypes.INTEGER and array.size:
        return _whole_numbers(data, array, dtype)
    if kinds <= _PLAIN and array.dtype.kind in "Ouf":
        array = _numbers_of_python(data, array, kinds, dtype)
    if array.dtype == object or array.dtype.kind in "US":
        raise _no_numbers(data)
    if dtype is None:
        dtype = _common(kinds, array)
    elif array.dtype.kind == "c" and dtype.category != dtypes.COMPLEX and dtype is not dtypes.bool:
        raise TypeError(
            f"tensor: expected real numbers for {dtype}, got complex ones. Pass a complex dtype, or take their .real."
        )
    return array if dtype is None else array.astype(dtype.numpy, copy=False)


def _add_kinds(data: Any, kinds: set[Any]) -> None:
    """Adds the types of Python's numbers, NumPy's dtypes, and dtypes of tensors in nested lists."""
    own = {*map(type, data)}
    for _ in range(_LEVELS):
        if own != _LISTS:
            break
        data = [*chain.from_iterable(data)]
        own = {*map(type, data)}
    if own <= _PLAIN:
        kinds |= own
        return
    for item in data:
        if isinstance(item, (list, tuple)):
            _add_kinds(item, kinds)
        elif isinstance(item, (numpy.ndarray, numpy.generic)):
            kinds.add(item.dtype)
        else:
            kind = getattr(item, "dtype", None)
            kinds.add(kind if type(kind) is dtypes.dtype else type(item))


def _items(data: Any) -> Any:
    """The lists with numbers in place of tensors; beside lists a tensor counts as one, as in PyTorch."""
    beside = isinstance(data[0], (list, tuple)) if data else False
    return [_items(item) if isinstance(item, (list, tuple)) else _item(item, beside) for item in data]


def _item(item: Any, as_list: bool) -> Any:
    if type(getattr(item, "dtype", None)) is not dtypes.dtype:
        return item
    shape = tuple(item.shape)
    if as_list and shape:
        return item.tolist()
    if any([size != 1 for size in shape]):
        raise ValueError(
            f"tensor: only one element tensors can be converted to Python scalars, got one of shape {shape} in a list. "
            f"Join tensors with stack or cat."
        )
    return item.item()


def _common(kinds: set[Any], array: Any) -> dtypes.dtype | None:
    """The dtype of numbers of all these kinds; None: that of `array`."""
    if array.size == 0 and array.dtype.kind == "f":
        return dtypes.get_default_dtype()
    if kinds <= _PLAIN:
        kind = array.dtype.kind
        return dtypes.get_default_dtype() if kind == "f" else dtypes.default_complex() if kind == "c" else None
    common: dtypes.dtype | None = None
    for kind in kinds:
        own = _dtype_of(kind)
        if own is None:
            return None
        common = own if common is None else dtypes.promote_types(common, own)
    return common


def _dtype_of(kind: Any) -> dtypes.dtype | None:
    if kind is float:
        return dtypes.get_default_dtype()
    if kind is complex:
        return dtypes.default_complex()
    if kind is int:
        return dtypes.int64
    if kind is bool:
        return dtypes.bool
    return (
        kind if type(kind) is dtypes.dtype else dtypes.BY_NUM.get(kind.num) if isinstance(kind, numpy.dtype) else None
    )


def _numbers_of_python(data: Any, array: Any, kinds: set[Any], dtype: dtypes.dtype | None) -> Any:
    """What NumPy makes of ints beyond 64 bits, or beyond int64: numbers of dtypes that have such, and not floats or uint64 unasked."""
    if kinds <= _WHOLE and dtype is None and array.size:
        exact = numpy.array(data, object)
        return _whole_numbers(data, exact, dtypes.uint64 if exact.min() >= 0 else dtypes.int64)
    if array.dtype != object:
        return array
    return array.astype(bool if dtype is dtypes.bool else numpy.complex128 if complex in kinds else numpy.float64)


def _whole_numbers(data: Any, array: Any, dtype: dtypes.dtype) -> Any:
    """`array` as integers; what they cannot hold is refused. Negative numbers wrap in unsigned ones of up to 32 bits, as in PyTorch."""
    kind = array.dtype.kind
    if kind == "c":
        raise TypeError(f"tensor: expected real numbers for {dtype}, got complex ones. Take their .real.")
    if kind not in "biufO":
        raise _no_numbers(data)
    if kind == "O" or dtype is dtypes.uint64:  # NumPy makes floats of small and very large ints together
        array = numpy.array(data, object)
        if not all([isinstance(number, (int, float, numpy.number, numpy.bool_)) for number in array.flat]):
            raise _no_numbers(data)
    limits = numpy.iinfo(dtype.numpy)
    least = -limits.max if limits.min == 0 and limits.max < 1 << 63 else limits.min
    low, high = array.min(), array.max()
    if kind != "b" and not (low >= least and high < limits.max + 1):
        value = high if not high < limits.max + 1 else low
        raise _overflow(value, dtype, limits, "wraps")
    return array.astype(dtype.numpy) if array.dtype != dtype.numpy else array


def fitting(value: Any, dtype: dtypes.dtype, size: int = 0) -> Any:
    """A number that fills a tensor of `dtype`, as one that it holds; infinities fit into all that have them.

    Args:
        size: of the tensor, where one element holds what many do not: as in PyTorch, a number that is too large for one of a float narrower
            than float32 is rounded as a conversion does it.

    Raises:
        NumberRangeError: it holds no such number.
    """
    if type(value) not in (int, float) or dtype.category == dtypes.COMPLEX or dtype is dtypes.bool:
        return value
    low, high = _range_of(dtype)
    if dtype.category == dtypes.INTEGER:
        if type(value) is int and low <= value <= high:
            return value
        return _whole_numbers(value, numpy.array(value), dtype).item()
    if not low <= value <= high and value not in (math.inf, -math.inf) and value == value:
        if size != 1 or dtype.itemsize >= 4:
            raise _overflow(value, dtype, dtypes.finfo(dtype), "gives infinity")
        return float(value) if dtype in dtypes.FLOAT8 else math.copysign(math.inf, value)
    return float(value)


@functools.cache
def _range_of(dtype: dtypes.dtype) -> tuple[float, float]:
    """The least and the greatest finite number of a dtype."""
    limits: Any = numpy.iinfo(dtype.numpy) if dtype.category == dtypes.INTEGER else dtypes.finfo(dtype)
    return limits.min, limits.max


def _overflow(value: Any, dtype: dtypes.dtype, limits: Any, what: str) -> Exception:
    return NumberRangeError(
        f"tensor: value cannot be converted to type {dtype} without overflow: {value} is not in {limits.min} to {limits.max}. "
        f"Take a wider dtype, or convert with tensor(...).to({str(dtype).rpartition('.')[2]}), which {what}."
    )


def _no_numbers(data: Any) -> Exception:
    if isinstance(data, (list, tuple)):
        sizes = [
            len(row) for row in data if isinstance(row, (list, tuple)) or (isinstance(row, numpy.ndarray) and row.ndim)
        ]
        if len(set(sizes)) > 1:
            return ValueError(
                f"tensor: rows have different lengths ({', '.join(map(str, sizes[:6]))}{', ...' if len(sizes) > 6 else ''}), "
                f"expected a rectangle. Pad them, e.g. nn.utils.rnn.pad_sequence([tensor(row) for row in rows])."
            )
    return TypeError(
        f"tensor: expected numbers, got {type(data).__name__} {str(data)[:60]!r}. Map words to numbers first."
    )
