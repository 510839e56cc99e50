"""`x[index]`: every form that PyTorch takes, and its functional writes.

An index of ints, slices, None and Ellipsis is *basic*: it gives a view. As soon as it holds index tensors, lists, masks or bool
scalars it is *advanced*: the basic part is applied first (ints select, as in PyTorch; NumPy would treat them as index arrays), then
the index arrays pick from that view, with NumPy's placement of the picked dims. `indices` and `template` are explained in
`kernels/indexing_cpu.py`.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

from dynograd import arrays, dtypes
from dynograd.arrays import Array, Arrays
from dynograd.errors import DtypeError, IndexRangeError, ShapeError
from dynograd.kernels import kernel
from dynograd.ops.broadcasting import convert, sum_to
from dynograd.ops.op import composed, op
from dynograd.ops.views import reshaped
from dynograd.shapes import broadcast_shapes

__all__ = ["index_put"]

FULL = slice(None)
_PLAIN = {int, type(None)}
_INT64 = dtypes.int64.num


# --- basic: views ----------------------------------------------------------------------------------------------------------


@op(name="basic_index", linear=True, view=True, saves="input.shape")
def get_basic(input: Array, index: tuple) -> Array:
    """A view of `input` at a tuple of ints, slices, None and Ellipsis (one Ellipsis is there when an int is)."""
    return input[index]


@get_basic.backward
def get_basic_backward(g: Any, saved: Any, index: Any) -> Any:
    return (fill_basic(g, saved.input_shape, index),)


@op(name="basic_fill", linear=True)
def fill_basic(g: Array, shape: tuple[int, ...], index: tuple) -> Array:
    """Zeros of `shape` that hold `g` at a basic index."""
    return kernel("indexing", "basic_fill", g)(g, shape, index)


@fill_basic.backward
def fill_basic_backward(g: Any, saved: Any, shape: Any, index: Any) -> Any:
    return (get_basic(g, index),)


@op(name="basic_put", linear=True, saves="value.shape")
def put_basic(input: Array, value: Array | None, index: tuple) -> Array:
    """A copy of `input` that holds `value` (None: zeros) at a basic index."""
    return kernel("indexing", "basic_put", input)(input, 0 if value is None else value, index)


@put_basic.backward
def put_basic_backward(g: Any, saved: Any, index: Any) -> Any:
    return (
        put_basic(g, None, index) if saved.needs(0) else None,
        sum_to(get_basic(g, index), saved.value_shape) if saved.needs(1) else None,
    )


# --- advanced: copies --------------------------------------------------------------------------------------------------------


@op(name="index", linear=True, saves="input.shape indices")
def get_advanced(input: Array, indices: Arrays, template: tuple) -> Array:
    """The elements of `input` at index arrays."""
    return kernel("indexing", "index_forward", input)(input, indices, template)


@get_advanced.backward
def get_advanced_backward(g: Any, saved: Any, template: Any) -> Any:
    indices = saved.indices
    return (add_advanced(g, indices, template, saved.input_shape), [None] * len(indices))


@op(name="index_backward", linear=True, saves="indices")
def add_advanced(g: Array, indices: Arrays, template: tuple, shape: tuple[int, ...]) -> Array:
    """Zeros of `shape` with `g` added at index arrays."""
    return kernel("indexing", "index_backward", g)(g, indices, template, shape)


@add_advanced.backward
def add_advanced_backward(g: Any, saved: Any, template: Any, shape: Any) -> Any:
    indices = saved.indices
    return (get_advanced(g, indices, template), [None] * len(indices))


@op(name="index_put_at", linear=True, saves="values.shape indices")
def put_advanced(input: Array, values: Array | None, indices: Arrays, template: tuple, accumulate: bool) -> Array:
    """A copy of `input` with `values` (None: zeros) written, or added, at index arrays (whose values have been checked)."""
    try:
        return kernel("indexing", "index_put_forward", input)(input, 0 if values is None else values, indices, template, accumulate)
    except ValueError:
        raise _value_error("index_put", input, indices, template, values.shape) from None


@put_advanced.backward
def put_advanced_backward(g: Any, saved: Any, template: Any, accumulate: Any) -> Any:
    indices = saved.indices
    g_input = g_values = None
    if saved.needs(0):
        g_input = g if accumulate else put_advanced(g, None, indices, template, False)
    if saved.needs(1):
        picked = get_advanced(g, indices, template)
        shape = saved.values_shape
        lead = len(shape) - len(picked.shape)
        g_values = sum_to(picked, shape[lead:] if lead > 0 else shape)
        g_values = reshaped(g_values, shape) if lead > 0 else g_values
    return (g_input, g_values, [None] * len(indices))


# --- x[index] ----------------------------------------------------------------------------------------------------------------


@composed(method="__getitem__")
def getitem(input: Any, index: Any) -> Any:
    """`input[index]`.

    Ints, slices, None and Ellipsis give a view. Index tensors, lists, NumPy arrays and masks give a copy, through which gradients
    are added back (an element picked twice gets both).

    Raises:
        IndexRangeError: an index outside its dimension; the message says which, and where it stands.
        IndexError: too many indices, a mask or index arrays of the wrong shape.
        ValueError: a slice with a negative step (use `flip`).

    >>> x = tensor([[1, 2, 3], [4, 5, 6]])
    >>> x[:, 1]
    tensor([2, 5])
    >>> x[x > 4]
    tensor([5, 6])
    """
    kind = type(index)
    if kind is int:
        ready: Any = (index, Ellipsis)
    elif kind is slice:
        step = index.step
        plain = type(index.start) in _PLAIN and type(index.stop) in _PLAIN and (step is None or type(step) is int and step > 0)
        ready = (index,) if plain else None
    elif kind is tuple:
        ready = _plain_tuple(index)
    else:
        ready = (index,) if index is None or index is Ellipsis else None
    if ready is not None:
        try:
            return get_basic(input, ready)
        except IndexError:
            parse("getitem", tuple(input.shape), index)
            raise
    shape = input.shape
    indices: Any = index if kind is tuple else (index,)
    basic = None
    if len(shape) >= len(indices) and all([_is_index_tensor(one) for one in indices]):
        template: Any = _FIRST[: len(indices)]
    elif kind is not tuple and _is_mask(index) and len(shape) >= index.ndim:
        template = (0,)
    else:
        basic, indices, template = parse("getitem", tuple(shape), index, check=False)
    picked = input if basic is None else get_basic(input, basic)
    if template is None:
        return picked
    try:
        return get_advanced(picked, indices, template)
    except IndexError:
        parse("getitem", tuple(shape), index)
        raise


_FIRST = tuple(range(64))


def _is_index_tensor(one: Any) -> bool:
    """Whether `one` is a tensor of int64 with dims: what needs no further reading."""
    array = getattr(one, "array", None)
    return array is not None and array.ndim > 0 and array.dtype.num == _INT64 and one.ndim == array.ndim


def _is_mask(one: Any) -> bool:
    array = getattr(one, "array", None)
    return array is not None and array.ndim > 0 and array.dtype.kind == "b" and one.ndim == array.ndim


def _plain_tuple(index: tuple) -> Any:
    """`index` as `get_basic` takes it, when it holds nothing but ints, plain slices, None and Ellipsis."""
    has_int = has_ellipsis = False
    for one in index:
        kind = type(one)
        if kind is int:
            has_int = True
        elif kind is slice:
            step = one.step
            if type(one.start) not in _PLAIN or type(one.stop) not in _PLAIN:
                return None
            if step is not None and (type(step) is not int or step <= 0):
                return None
        elif one is Ellipsis:
            if has_ellipsis:
                return None
            has_ellipsis = True
        elif one is not None:
            return None
    return index if index and (has_ellipsis or not has_int) else (*index, Ellipsis)


class Advanced(NamedTuple):
    """An index with index arrays: the basic part to apply first (or None), then the arrays and where they stand."""

    basic: tuple | None
    indices: list
    template: tuple


def normalize_index(shape: tuple[int, ...], index: Any) -> tuple[bool, Any]:
    """`(True, basic index)` or `(False, Advanced)`, checked against `shape`, with raw arrays in place of tensors and lists."""
    basic, indices, template = parse("setitem", shape, index)
    if template is None:
        return True, basic
    return False, Advanced(basic, [getattr(one, "array", one) for one in indices], template)


def put_at(input: Any, values: Any, ready: Advanced) -> Any:
    """A copy of `input` with `values` (broadcast) at an advanced index from `normalize_index`."""
    target = input if ready.basic is None else get_basic(input, ready.basic)
    written = put_advanced(target, values, ready.indices, ready.template, False)
    return written if ready.basic is None else put_basic(input, written, ready.basic)


def assign_at(array: Any, ready: Advanced, value: Any) -> None:
    """Writes the array `value` (broadcast) into `array` at an advanced index from `normalize_index`."""
    try:
        kernel("indexing", "index_assign", array)(array, ready, value)
    except ValueError:
        target = array if ready.basic is None else array[ready.basic]
        raise _value_error("setitem", target, ready.indices, ready.template, value.shape) from None


@composed(method=True, inplace=True)
def index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """A copy of `input` with `values` (broadcast) written at `input[indices]`, or added there when `accumulate`.

    Args:
        indices: a tuple of index tensors or masks; None keeps a dim.
        accumulate: add; an element named several times gets every value. Otherwise the last one stays.

    >>> dynograd.index_put(dynograd.zeros(3), (tensor([0, 0]),), tensor(1.0), accumulate=True)
    tensor([2., 0., 0.])
    """
    if not isinstance(indices, (tuple, list)):
        raise TypeError(f"index_put: indices must be a tuple of Tensors, not {type(indices).__name__}. Write (index,).")
    if not hasattr(values, "dtype"):
        raise TypeError(f"index_put: values must be a Tensor, not {type(values).__name__}. Write tensor({values!r}).")
    if values.dtype != input.dtype:
        raise DtypeError(f"index_put: Index put requires the source and destination dtypes match, got {values.dtype} for {input.dtype}.")
    shape = tuple(input.shape)
    basic, found, template = parse("index_put", shape, tuple([FULL if one is None else one for one in indices]))
    if template is None:
        return put_basic(input, values if not accumulate else get_basic(input, basic) + values, basic)
    if basic is None:
        return put_advanced(input, values, found, template, bool(accumulate))
    return put_basic(input, put_advanced(get_basic(input, basic), values, found, template, bool(accumulate)), basic)


# --- reading an index --------------------------------------------------------------------------------------------------------


def parse(who: str, shape: tuple[int, ...], index: Any, check: bool = True) -> Any:
    """(basic part or None, index arrays, template or None) of any index; raises whatever is wrong with it.

    With `check=False` the values of index arrays are left to the kernel, whose IndexError the caller has to explain.
    """
    entries = [_entry(who, one) for one in _as_tuple(index)]
    used = sum([_consumed(one) for one in entries])
    _check_count(who, shape, entries, used)
    basic: list[Any] = []
    template: list[Any] = []
    indices: list[Any] = []
    dim = 0
    for place, one in enumerate(entries):
        if isinstance(one, int):
            if not -shape[dim] <= one < shape[dim]:
                raise range_error(who, one, dim=dim, shape=shape)
            basic.append(one)
        elif one is Ellipsis:
            basic.append(one)
            template += [FULL] * (len(shape) - used)
            dim += len(shape) - used
        elif one is None or isinstance(one, slice):
            basic.append(one)
            template.append(FULL)
        else:
            basic += [None] if isinstance(one, _Flag) else [FULL] * _consumed(one)
            template.append(len(indices))
            array = getattr(one, "array", one)
            indices.append(array if isinstance(one, _Flag) else one)
            if not isinstance(one, _Flag) and (check or array.dtype.kind == "b"):
                _check_array(who, array, place, dim, shape)
        dim += _consumed(one)
    if not indices:
        if any([isinstance(one, int) for one in basic]) and Ellipsis not in basic:
            basic.append(Ellipsis)
        return tuple(basic) or (Ellipsis,), [], None
    if check:
        _check_together(who, indices)
    while template[-1] == FULL:
        template.pop()
    trivial = all([one == FULL or one is Ellipsis for one in basic])
    return None if trivial else (*basic, *(() if Ellipsis in basic else (Ellipsis,))), indices, tuple(template)


class _Flag:
    """A bool scalar in an index: a new dim of size 1, of which True picks the one element and False none."""

    __slots__ = ("array",)

    def __init__(self, value: Any) -> None:
        self.array = arrays.zeros((1 if value else 0,), dtypes.int64)


def _as_tuple(index: Any) -> tuple:
    if isinstance(index, tuple):
        return index
    if isinstance(index, list) and len(index) < 32 and any([_stands_for_a_dim(one) for one in index]):
        warnings.warn(
            "Using a non-tuple sequence for multidimensional indexing is deprecated: instead of x[seq] write x[tuple(seq)] (an index "
            "for each dim) or x[tensor(seq)] (an array of indices).",
            UserWarning,
            stacklevel=4,
        )
        return tuple(index)
    return (index,)


def _stands_for_a_dim(one: Any) -> bool:
    """PyTorch reads a list as a tuple of indices as soon as one of its elements is such."""
    return one is None or one is Ellipsis or isinstance(one, (slice, list, tuple, range, arrays.ndarray)) or hasattr(one, "array")


def _entry(who: str, one: Any) -> Any:
    """One element of an index as None, Ellipsis, an int, a checked slice, a `_Flag`, an index array or a mask."""
    if one is None or one is Ellipsis or type(one) is int:
        return one
    if isinstance(one, slice):
        return _checked_slice(who, one)
    if isinstance(one, (list, tuple, range)):
        one = arrays.from_python(_numbers(one), None)
    kind = getattr(getattr(one, "array", one), "dtype", None)
    if kind is None or not hasattr(one, "shape"):
        if isinstance(one, bool):
            return _Flag(one)
        if hasattr(type(one), "__index__"):
            return one.__index__()
        raise IndexError(
            f"{who}: only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got "
            f"{type(one).__name__} {one!r})."
        )
    number = arrays.is_array(one) and not isinstance(one, arrays.ndarray)
    if kind.kind == "b" or kind.num == dtypes.uint8.num and not number:
        if kind.kind != "b":
            warnings.warn("indexing with dtype uint8 is deprecated, please use a dtype bool instead.", UserWarning, stacklevel=4)
            one = convert(one, dtypes.bool)
        return _Flag(bool(one)) if one.ndim == 0 else one
    if kind.kind in "iu":
        return one.__index__() if one.ndim == 0 and not hasattr(type(one), "__dynograd_op__") else one
    if one.shape == (0,):
        return convert(one, dtypes.int64)
    raise IndexError(
        f"{who}: tensors used as indices must be long, int, byte or bool tensors, got {dtypes.BY_NUM[kind.num]}. Convert with .long()."
    )


def _numbers(values: Any) -> Any:
    """Nested sequences with 0-d tensors replaced by their numbers."""
    if isinstance(values, (list, tuple, range)):
        return [_numbers(one) for one in values]
    return values.array if hasattr(values, "array") else values


def _checked_slice(who: str, one: slice) -> slice:
    start, stop, step = [part if part is None else _slice_bound(part) for part in (one.start, one.stop, one.step)]
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


def _consumed(one: Any) -> int:
    """How many dims of the indexed tensor an entry stands for."""
    if one is None or one is Ellipsis or isinstance(one, _Flag):
        return 0
    if isinstance(one, (int, slice)):
        return 1
    return one.ndim if getattr(one, "array", one).dtype.kind == "b" else 1


def _check_count(who: str, shape: tuple[int, ...], entries: list, used: int) -> None:
    if used > len(shape):
        if not shape and isinstance(entries[0], int):
            raise IndexError(f"{who}: invalid index of a 0-dim tensor. Use tensor.item() to get its value as a Python number.")
        raise IndexError(f"{who}: too many indices for tensor of dimension {len(shape)}: got {used} for shape {shape}.")
    if sum([one is Ellipsis for one in entries]) > 1:
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
    size = shape[dim] if shape else 1
    found = kernel("indexing", "out_of_range", index)(index, -size if negative else 0, size)
    if found is not None:
        raise range_error(who, *found, dim=dim, shape=shape, negative=negative)


def range_error(
    who: str, value: int, position: Any = None, *, dim: int, shape: tuple[int, ...], negative: bool = True
) -> IndexRangeError:
    size = shape[dim] if shape else 1
    where = f" at position {list(position)} of the index tensor" if position else ""
    valid = f"valid are {-size if negative else 0} to {size - 1}" if size else "it has no elements"
    return IndexRangeError(f"{who}: index {value} is out of bounds for dimension {dim} with size {size}{where}: input has shape {shape}, {valid}.")


def _check_together(who: str, indices: list) -> None:
    """Index arrays must broadcast against each other; a mask counts as the list of its True elements."""
    found = [getattr(one, "array", one) for one in indices]
    shapes = [(kernel("indexing", "count_true", one)(one),) if one.dtype.kind == "b" else one.shape for one in found]
    try:
        broadcast_shapes(who, *shapes)
    except ShapeError:
        listed = ", ".join(str(list(shape)) for shape in shapes)
        raise IndexError(
            f"{who}: shape mismatch: indexing tensors could not be broadcast together with shapes {listed}. Make them of one length, or "
            f"index twice."
        ) from None


def _value_error(who: str, target: Any, indices: list, template: tuple, shape: tuple[int, ...]) -> ShapeError:
    wanted = kernel("indexing", "result_shape", target)(target.shape, indices, template)
    return ShapeError(
        f"{who}: shape mismatch: value tensor of shape {list(shape)} cannot be broadcast to indexing result of shape {list(wanted)}. "
        f"Reshape the value."
    )
