"""`x[index]`: every form that PyTorch takes, and its functional writes.

An index of ints, slices, None and Ellipsis is *basic*: it gives a view. As soon as it holds index tensors, lists, masks or bool
scalars it is *advanced*: the basic part is applied first (ints select, as in PyTorch; NumPy would treat them as index arrays), then
the index arrays pick from that view, with NumPy's placement of the picked dims. `indices` and `template` are explained in
`kernels/index/indexing_cpu.py`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dynograd import arrays
from dynograd.arrays import Array, IndexArrays, ndarray
from dynograd.arrays.meta_arrays import MetaArray, no_values
from dynograd.base import dtypes
from dynograd.base.values import TENSORS, has_fixed_number, has_values
from dynograd.errors import DtypeError, ShapeError, refusal
from dynograd.kernels import kernel
from dynograd.ops.index.indices import FULL, check_range, parse
from dynograd.ops.layout.broadcasting import sum_to
from dynograd.ops.layout.conversions import laid_out
from dynograd.ops.layout.views import reshaped
from dynograd.ops.op import Gradients, composed, op, shortcut
from dynograd.ops.row import Row

__all__ = ["index_put"]

FAMILY = Row(out=None)

_PLAIN = {int, type(None)}
_INT64 = dtypes.int64.num


# --- basic: views ----------------------------------------------------------------------------------------------------------


@op(name="basic_index", linear=True, view="input[index]", saves="input.shape")
def get_basic(input: Array, index: tuple) -> Array:
    """A view of `input` at a tuple of ints, slices, None and Ellipsis (one Ellipsis is there when an int is)."""
    return input[index]


@get_basic.backward
def get_basic_backward(g: Any, saved: Any, index: Any) -> Gradients:
    return (fill_basic(g, saved.input_shape, index),)


@op(name="basic_fill", linear=True, inner=True)
def fill_basic(g: Array, shape: tuple[int, ...], index: tuple) -> Array:
    """Zeros of `shape` that hold `g` at a basic index."""
    return kernel("indexing", "basic_fill", g)(g, shape, index)


@fill_basic.backward
def fill_basic_backward(g: Any, saved: Any, shape: Any, index: Any) -> Gradients:
    return (get_basic(g, index),)


@op(name="basic_put", linear=True, saves="value.shape", inner=True)
def put_basic(input: Array, value: Array | None, index: tuple) -> Array:
    """A copy of `input` that holds `value` (None: zeros) at a basic index."""
    return kernel("indexing", "basic_put", input)(input, 0 if value is None else value, index)


@put_basic.backward
def put_basic_backward(g: Any, saved: Any, index: Any) -> Gradients:
    return (
        put_basic(g, None, index) if saved.needs(0) else None,
        sum_to(get_basic(g, index), saved.value_shape) if saved.needs(1) else None,
    )


# --- advanced: copies --------------------------------------------------------------------------------------------------------


@op(
    name="index",
    linear=True,
    saves="input.shape indices",
    inner=True,
    partly_at_once="with a mask the shape of its result depends on values",
)
def get_advanced(input: Array, indices: IndexArrays, template: tuple) -> Array:
    """The elements of `input` at index arrays."""
    if type(input) is not ndarray:
        indices = _beside(input, indices)
    try:
        return kernel("indexing", "index_forward", input)(input, indices, template)
    except IndexError as error:
        index = tuple([indices[entry] if type(entry) is int else entry for entry in template])
        raise refusal(parse, "getitem", tuple(input.shape), index) or error from None


@get_advanced.backward
def get_advanced_backward(g: Any, saved: Any, template: Any) -> Gradients:
    indices = saved.indices
    return (add_advanced(g, indices, template, saved.input_shape), [None] * len(indices))


@op(name="index_backward", linear=True, saves="indices", inner=True)
def add_advanced(g: Array, indices: IndexArrays, template: tuple, shape: tuple[int, ...]) -> Array:
    """Zeros of `shape` with `g` added at index arrays."""
    return kernel("indexing", "index_backward", g)(g, _beside(g, indices), template, shape)


@add_advanced.backward
def add_advanced_backward(g: Any, saved: Any, template: Any, shape: Any) -> Gradients:
    indices = saved.indices
    return (get_advanced(g, indices, template), [None] * len(indices))


@op(
    name="index_put_at",
    linear=True,
    saves="values.shape indices",
    cast={"cuda": "widest"},
    inner=True,
    partly_at_once="with a mask, how many values fit depends on values",
)
def put_advanced(input: Array, values: Array | None, indices: IndexArrays, template: tuple, accumulate: bool) -> Array:
    """A copy of `input` with `values` (None: zeros) written, or added, at index arrays (whose values have been checked)."""
    try:
        return kernel("indexing", "index_put_forward", input)(
            input, 0 if values is None else values, _beside(input, indices), template, accumulate
        )
    except (TypeError, ValueError):
        raise _value_error("index_put", input, indices, template, getattr(values, "shape", ())) from None


@put_advanced.backward
def put_advanced_backward(g: Any, saved: Any, template: Any, accumulate: Any) -> Gradients:
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


def _beside(like: Any, indices: list) -> list:
    """Index arrays on the device of `like`: as in PyTorch, those of the CPU index anything."""
    if type(like) is ndarray:
        return indices
    return [arrays.to_device(index, like.device) if type(index) is ndarray else index for index in indices]


# --- x[index] ----------------------------------------------------------------------------------------------------------------


def _quick_getitem_by_get_basic(input: Any, index: Any) -> tuple | None:
    if (
        type(index) is int
        or (
            type(index) is slice
            and type(index.start) in _PLAIN
            and type(index.stop) in _PLAIN
            and (index.step is None or (type(index.step) is int and index.step > 0))
        )
        or (ready := _plain_index(index))
    ):
        if type(index) is int:
            ready = (index, Ellipsis)
        elif type(index) is slice:
            ready = (index,)
        return input[ready], (ready,)
    return None


def _quick_getitem_by_get_advanced(compute: Any, input: Any, index: Any) -> tuple | None:
    if (
        type(index) in TENSORS
        and index.array.dtype.num == _INT64
        and index.array.ndim
        and input.ndim
        and type(index.array) is ndarray
    ):
        return compute(input, [index.array], (0,)), ((0,),), {"indices": [index.array]}
    elif type(index) not in TENSORS and (entries := _index_arrays(index, input.ndim, TENSORS)):
        indices, template = entries
        return compute(input, indices, template), (template,), {"indices": indices}
    return None


def _quick_getitem_by_values(compute: Any, input: Any, index: Any) -> object:
    if (entries := _read(input.shape, index)) and entries[2]:
        basic, indices, template = entries
        index_arrays = [getattr(entry, "array", entry) for entry in indices]
        return compute(input if basic is None else input[basic], index_arrays, template)
    return None


@composed(method="__getitem__")
@shortcut(get_basic, _quick_getitem_by_get_basic, misses=(IndexError, ValueError))
@shortcut(
    get_advanced, _quick_getitem_by_get_advanced, compute="indexing.index_forward", misses=(IndexError, ValueError)
)
@shortcut(
    None, _quick_getitem_by_values, compute="indexing.index_forward", misses=(IndexError, ValueError), beside="input"
)
def getitem(input: Any, index: Any) -> Array:
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
    ready = (index, Ellipsis) if type(index) is int else _plain_index(index)
    if ready is not None:
        try:
            return get_basic(input, ready)
        except IndexError as error:
            raise refusal(parse, "getitem", tuple(input.shape), index) or error from None
    shape = getattr(input, "array", input).shape
    basic, indices, template = _read(shape, index) or parse("getitem", tuple(shape), index, check=False)
    picked = input if basic is None else get_basic(input, basic)
    if template is None:
        return picked
    try:
        return get_advanced(picked, indices, template)
    except IndexError as error:
        raise refusal(parse, "getitem", tuple(shape), index) or error from None


def _index_arrays(index: Any, rank: int, plain: set[type]) -> tuple[list[Array], tuple] | None:
    """(index arrays, template) of a list of ints, or of full slices and int64 tensors of the types `plain`; None for others."""
    if type(index) is list:
        return ([arrays.from_python(index, dtypes.int64)], (0,)) if {*map(type, index)} == {int} and rank else None
    if type(index) is not tuple:
        return None
    indices: list[Any] = []
    template: list[Any] = []
    for entry in index:
        if type(entry) in plain:
            array = entry.array
            if type(array) is not ndarray or array.dtype.num != _INT64 or not array.ndim:
                return None
            template.append(len(indices))
            indices.append(array)
        elif type(entry) is slice and entry.start is None and entry.stop is None and entry.step is None:
            template.append(FULL)
        else:
            return None
    return (indices, tuple(template)) if len(template) <= rank and template[-1] is not FULL else None


def _read(shape: tuple[int, ...], index: Any) -> tuple[tuple | None, list[Array], tuple | None] | None:
    """What `parse` gives for the commonest indices: plain index tensors and arrays of ints, lists, masks of one dim, numbers, slices.

    The index arrays are tensors where they were given so. None for other indices, and for wrong ones.
    """
    basic: list[Any] = []
    indices: list[Any] = []
    template: list[Any] = []
    dim, rank, trivial = 0, len(shape), True
    has_int = has_ellipsis = False
    entries = index if type(index) is tuple else (index,)
    for whole_slice in entries:
        kind = type(whole_slice)
        if whole_slice is None:
            trivial = False
            basic.append(None)
            template.append(FULL)
            continue
        if whole_slice is Ellipsis:
            kept = rank - sum([each is not None and each is not Ellipsis for each in entries])  # the others' dims
            if kept < 0 or has_ellipsis:
                return None
            has_ellipsis = True
            basic += [FULL] * kept
            template += [FULL] * kept
            dim += kept
            continue
        if dim >= rank:
            return None
        if kind is slice:
            if whole_slice.start is not None or whole_slice.stop is not None or whole_slice.step is not None:
                if type(whole_slice.start) not in _PLAIN or type(whole_slice.stop) not in _PLAIN:
                    whole_slice = _whole_slice(whole_slice)
                    if whole_slice is None:
                        return None
                if whole_slice.step is not None and (type(whole_slice.step) is not int or whole_slice.step <= 0):
                    return None
                trivial = False
            template.append(FULL)
        elif kind is int or (array := _index_array(whole_slice)) is None:
            number = whole_slice if kind is int else _plain_number(whole_slice)
            if number is None or not -shape[dim] <= number < shape[dim]:
                return None
            whole_slice = number
            has_int, trivial = True, False
        else:
            operands = whole_slice if array is getattr(whole_slice, "array", None) else array
            if array.dtype.num == _BOOL and array.shape != shape[dim : dim + 1]:
                return (None, [operands], (0,)) if whole_slice is index and 0 < array.ndim <= rank else None
            template.append(len(indices))
            indices.append(operands)
            whole_slice = FULL
        basic.append(whole_slice)
        dim += 1
    if not indices:
        return (*basic, *((Ellipsis,) if has_int or not basic else ())), [], None
    while template[-1] is FULL:
        template.pop()
    return None if trivial else (*basic, Ellipsis), indices, tuple(template)


def _plain_number(entry: Any) -> int | None:
    """The int that a 0-d tensor of ints, or a NumPy number, stands for in an index."""
    array = getattr(entry, "array", entry)
    if getattr(array, "ndim", 1):
        return None
    kind = array.dtype
    if kind.kind not in "iu" or (kind.num == _UINT8 and type(array) is ndarray) or not has_fixed_number(entry):
        return None
    return array.item() if type(array) is ndarray and has_values(entry) else entry.__index__()


def _whole_slice(entry: slice) -> slice | None:
    """A slice with ints in place of what stands for ints."""
    bounds = entry.start, entry.stop, entry.step
    if all([bound is None or hasattr(type(bound), "__index__") for bound in bounds]):
        return slice(*[bound if bound is None else bound.__index__() for bound in bounds])
    return None


def _index_array(entry: Any) -> Array | None:
    """The int64 or bool array of a plain tensor, an array, a range or a list of ints; None for others."""
    kind = type(entry)
    array = getattr(entry, "array", None)
    if type(array) is ndarray and array.dtype.num == _INT64 and array.ndim and has_values(entry):
        return array
    if kind is list or kind is range:
        return arrays.from_python(entry, None) if {*map(type, entry)} in _LISTED else None
    array = getattr(entry, "array", entry)
    if type(array) is not ndarray or not array.ndim or not has_values(entry):
        return None
    number = array.dtype.num
    if number in (_INT64, _BOOL):
        return array
    return arrays.cast(array, dtypes.int64) if number in _SMALLER else None


_LISTED = ({int}, {bool})
_BOOL, _UINT8 = dtypes.bool.num, dtypes.uint8.num
_SMALLER = {dtypes.int8.num, dtypes.int16.num, dtypes.int32.num}


def _plain_index(index: Any) -> tuple | None:
    """An index as `get_basic` takes it, when it is None, Ellipsis, a slice, what stands for an int, or a tuple of such."""
    if type(index) is tuple:
        return _plain_tuple(index)
    if index is None or index is Ellipsis:
        return (index,)
    if type(index) is slice:
        whole = _whole_slice(index)
        return None if whole is None or (whole.step or 1) <= 0 else (whole,)
    number = _plain_number(index)
    return None if number is None else (number, Ellipsis)


def _plain_tuple(index: tuple) -> tuple | None:
    """`index` as `get_basic` takes it, when it holds nothing but slices, None, Ellipsis and what stands for ints."""
    has_int = has_ellipsis = False
    for entry in index:
        kind = type(entry)
        if kind is int:
            has_int = True
        elif kind is slice:
            step = entry.step
            if type(entry.start) not in _PLAIN or type(entry.stop) not in _PLAIN:
                return _whole_tuple(index)
            if step is not None and (type(step) is not int or step <= 0):
                return None
        elif entry is Ellipsis:
            if has_ellipsis:
                return None
            has_ellipsis = True
        elif entry is not None:
            return _whole_tuple(index) if not getattr(entry, "ndim", 1) else None
    return index if index and (has_ellipsis or not has_int) else (*index, Ellipsis)


def _whole_tuple(index: tuple) -> tuple | None:
    """`_plain_tuple` of an index with ints in place of what stands for ints."""
    entries: list[Any] = []
    for entry in index:
        if type(entry) is slice:
            plain: Any = _whole_slice(entry)
        else:
            plain = entry if entry is Ellipsis or type(entry) is int else _plain_number(entry)
        if plain is None and entry is not None:
            return None
        entries.append(plain)
    return _plain_tuple(tuple(entries))


class Advanced(NamedTuple):
    """An index with index arrays: the basic part to apply first (or None), then the arrays and where they stand."""

    basic: tuple | None
    indices: list
    template: tuple


def normalize_index(shape: tuple[int, ...], index: Any) -> tuple[bool, Any]:
    """`(True, basic index)` or `(False, Advanced)`, checked against `shape`, with raw arrays in place of tensors and lists."""
    if type(index) is int and shape and -shape[0] <= index < shape[0]:
        return True, (index, Ellipsis)
    quick = _read(shape, index) if hasattr(index, "array") else None
    if quick is not None:
        basic, indices, template = quick
        if template is None:
            return True, basic
        array: Array = getattr(indices[0], "array", indices[0])
        if array.dtype.kind != "b":
            check_range("setitem", array, 0, shape)
            return False, Advanced(None, [array], (0,))
    is_basic, ready = index_of(shape, index)
    return is_basic, ready if is_basic else ready._replace(
        indices=[getattr(index, "array", index) for index in ready.indices]
    )


def index_of(shape: tuple[int, ...], index: Any) -> tuple[bool, Any]:
    """The same, with tensors as they are."""
    basic, indices, template = parse("setitem", shape, index)
    return (True, basic) if template is None else (False, Advanced(basic, indices, template))


def shape_at(shape: tuple[int, ...], index: tuple) -> tuple[int, ...]:
    """Of what stands at a basic index, as `index_of` gives it, in an array of this shape."""
    at: list[int] = []
    dim = 0
    for place, entry in enumerate(index):
        if type(entry) is int:
            dim += 1
        elif type(entry) is slice:
            at.append(len(range(*entry.indices(shape[dim]))))
            dim += 1
        elif entry is None:
            at.append(1)
        else:
            rest = sum([other is not None for other in index[place + 1 :]])
            at += shape[dim : len(shape) - rest]
            dim = len(shape) - rest
    return (*at, *shape[dim:])


def put_at(input: Any, values: Any, ready: Advanced) -> Array:
    """A copy of `input` with `values` (broadcast) at an advanced index from `normalize_index`."""
    target = input if ready.basic is None else get_basic(input, ready.basic)
    written = put_advanced(target, values, ready.indices, ready.template, False)
    return written if ready.basic is None else put_basic(input, written, ready.basic)


def assign_at(array: Any, ready: Advanced, value: Any) -> None:
    """Writes the array `value` (broadcast) into `array` at an advanced index from `normalize_index`."""
    try:
        if type(array) is ndarray:
            if MetaArray in map(type, (value, *ready.indices)):
                raise no_values("setitem")
        else:
            ready = ready._replace(indices=_beside(array, ready.indices))
        kernel("indexing", "index_assign", array)(array, ready, value)
    except (TypeError, ValueError):
        target = array if ready.basic is None else array[ready.basic]
        raise _value_error("setitem", target, ready.indices, ready.template, value.shape) from None


def _quick_index_put(compute: Any, input: Any, entries: Any, values: Any, accumulate: Any) -> tuple | None:
    if (
        input.size < 4096
        and (places := _index_arrays(tuple(entries), input.ndim, TENSORS))
        and len(places[0]) == len(places[1])
        and values.ndim <= input.ndim - len(places[1]) + places[0][0].ndim
    ):
        there, template = places
        return compute(input, there, values, accumulate is True), (template, accumulate is True), {"indices": there}
    return None


@composed(method=True, inplace="function", refills=True)
@shortcut(
    put_advanced, _quick_index_put, compute="writes.index_was_put", misses=(IndexError, ValueError), entries="indices"
)
def index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Array:
    """A copy of `input` with `values` (broadcast) written at `input[indices]`, or added there when `accumulate`.

    Args:
        input: tensor of any shape.
        indices: a tuple of index tensors or masks; None keeps a dim.
        values: tensor, broadcast to the shape of `input[indices]`.
        accumulate: add; an element named several times gets every value. Otherwise the last one stays.
    Returns:
        A tensor of the shape and dtype of `input`.
    Raises:
        IndexRangeError: an index outside its dim.

    >>> dynograd.index_put(dynograd.zeros(3), (tensor([0, 0]),), tensor(1.0), accumulate=True)
    tensor([2., 0., 0.])
    """
    if not isinstance(indices, (tuple, list)):
        raise TypeError(f"index_put: indices must be a tuple of Tensors, not {type(indices).__name__}. Write (index,).")
    if not hasattr(values, "dtype"):
        raise TypeError(f"index_put: values must be a Tensor, not {type(values).__name__}. Write tensor({values!r}).")
    if values.dtype != input.dtype:
        raise DtypeError(
            f"index_put: Index put requires the source and destination dtypes match, got {values.dtype} for {input.dtype}."
        )
    shape = tuple(input.shape)
    basic, result, template = parse("index_put", shape, tuple([FULL if index is None else index for index in indices]))
    if template is None:
        return put_basic(input, values if not accumulate else get_basic(input, basic) + values, basic)
    target = input if basic is None else get_basic(input, basic)
    rank = _picked_rank(target, result)
    if len(values.shape) > rank:
        raise ShapeError(
            f"index_put: shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing result of {rank} dims. "
            f"Reshape the value."
        )
    written = put_advanced(target, values, result, template, bool(accumulate))
    return laid_out(written, input) if basic is None else put_basic(input, written, basic)


def _picked_rank(target: Any, indices: list) -> int:
    """How many dims `target[indices]` has: a mask makes one of its own, an index array has its own for one."""
    masks = [str(index.dtype).endswith("bool") for index in indices]
    used = [len(index.shape) if mask else 1 for index, mask in zip(indices, masks)]
    own = [1 if mask else len(index.shape) for index, mask in zip(indices, masks)]
    return len(target.shape) - sum(used) + max(own)


def _value_error(who: str, target: Any, indices: list, template: tuple, shape: tuple[int, ...]) -> ShapeError:
    expected_shape = kernel("indexing", "result_shape", target)(target.shape, indices, template)
    return ShapeError(
        f"{who}: shape mismatch: value tensor of shape {list(shape)} cannot be broadcast to indexing result of shape {list(expected_shape)}. "
        f"Reshape the value."
    )
