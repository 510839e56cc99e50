"""From a list of samples to a batch: `default_collate` stacks. What varies in length is for `variable_length.py`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy

from dynograd.arrays import Array, buffers, empty, place_of
from dynograd.base import dtypes
from dynograd.errors import DeviceError, ShapeError
from dynograd.ops.layout.joins import stack
from dynograd.tensor.creation import as_tensor, tensor
from dynograd.tensor.tensor import Tensor, wrap

__all__ = [
    "MakingIn",
    "collate",
    "collate_field",
    "default_collate",
    "default_collate_fn_map",
    "default_convert",
    "gathered",
    "make_empty",
    "make_empty_beside",
]


def default_collate(batch: Sequence[Any]) -> Any:
    """The samples of a batch as one, with a new first dimension.

    Tensors, NumPy arrays and numbers become a tensor (Python floats float64, ints int64); strings and bytes stay as
    they are, in a list or tuple; mappings, namedtuples, dataclasses, tuples and lists are collated field by field and
    keep their kind, except that a tuple becomes a list.

    Args:
        batch: the samples, a list of at least one.
    Returns:
        of tensors (*): tensors (len(batch), *); else as above.
    Raises:
        ValueError: no samples.
        ShapeError: tensors of different shapes; `collate_pad` takes those that differ in length.
        RuntimeError: lists or tuples of different lengths.
        TypeError: a field that none of this applies to.

    >>> default_collate([(tensor([1, 2]), 0.5, "a"), (tensor([3, 4]), 1.5, "b")])
    [tensor([[1, 2],
            [3, 4]]), tensor([0.5000, 1.5000], dtype=dynograd.float64), ('a', 'b')]
    """
    if len(batch) == 0:
        raise ValueError("default_collate: expected a batch of at least one sample, got none. Check the batch_sampler.")
    return collate_field(batch, "sample")


def collate(batch: Sequence, *, collate_fn_map: dict | None = None) -> Any:
    """`default_collate` with functions of one's own: `collate_fn_map[type](batch, collate_fn_map=...)` makes the batch of that type.

    Entries put into `default_collate_fn_map` hold for `default_collate` as well. A key may be a tuple of types.

    Args:
        batch: the samples, a list of at least one.
        collate_fn_map: a function for each type.
    Returns:
        as `default_collate`, and what the functions give.
    Raises:
        ShapeError, RuntimeError, TypeError: as `default_collate`.

    >>> from dynograd.data.collate import collate
    >>> collate([{"n": 1, "s": {3}}, {"n": 2, "s": {4}}], collate_fn_map={set: lambda batch, collate_fn_map: set().union(*batch)})
    {'n': tensor([1, 2]), 's': {3, 4}}
    """
    return collate_field(batch, "sample", _differing(collate_fn_map or {}))


def _by_default(batch: Sequence, *, collate_fn_map: dict | None = None) -> Any:
    """What `default_collate` does with this type."""
    return collate_field(batch, "sample", {})


default_collate_fn_map: dict[Any, Callable] = dict.fromkeys(
    (Tensor, numpy.ndarray, (numpy.bool_, numpy.number, numpy.object_), float, int, str, bytes), _by_default
)
_COUNT = len(default_collate_fn_map)


def _added() -> dict:
    """What programs have put into the map."""
    if len(default_collate_fn_map) == _COUNT and set(default_collate_fn_map.values()) == {_by_default}:
        return {}
    return _differing(default_collate_fn_map)


def has_functions_of_the_users() -> bool:
    """Whether collation may run code that is not dynograd's."""
    return bool(_added())


def _differing(functions: dict) -> dict:
    return {kind: function for kind, function in functions.items() if function is not _by_default}


def _function_for(kind: type, functions: dict) -> Callable | None:
    if kind in functions:
        return functions[kind]
    return next((function for registered, function in functions.items() if issubclass(kind, registered)), None)


def default_convert(data: Any) -> Any:
    """NumPy arrays and scalars as tensors, also inside mappings and sequences; everything else as it is.

    Args:
        data: a sample.
    Returns:
        the same, with tensors (*) for arrays (*).

    >>> import numpy
    >>> default_convert({"x": numpy.array([1, 2]), "name": "a"})
    {'x': tensor([1, 2]), 'name': 'a'}
    """
    if isinstance(data, Tensor):
        return data
    if isinstance(data, (numpy.ndarray, numpy.generic)):
        return data if data.dtype.kind in "OSUMm" else as_tensor(data)
    if isinstance(data, Mapping):
        return like_mapping(data, {key: default_convert(data[key]) for key in data})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*[default_convert(entry) for entry in data])
    if is_dataclass_instance(data):
        return like_dataclass(data, {name: default_convert(value) for name, value in fields_of(data).items()})
    if isinstance(data, tuple):
        return [default_convert(entry) for entry in data]
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _like_sequence(data, [default_convert(entry) for entry in data])
    return data


class MakingIn:
    """A block in which collation makes its arrays by `empty(shape, dtype)`: a worker's in the slot through which they will travel."""

    __slots__ = ("_empty",)

    def __init__(self, empty: Callable) -> None:
        self._empty = empty

    def __enter__(self) -> None:
        _empty[0] = self._empty

    def __exit__(self, *error: Any) -> None:
        _empty[0] = buffers.empty


_empty: list[Callable] = [buffers.empty]


def make_empty(shape: tuple, dtype: Any) -> Array:
    """An array to be written, for a batch."""
    return _empty[0](shape, dtype)


def make_empty_beside(rows: Sequence[Any], shape: tuple, dtype: Any) -> Array:
    """The same for a batch of these arrays: on the device on which they are."""
    if all([type(row) is numpy.ndarray for row in rows]):
        return make_empty(shape, dtype)
    places = list(dict.fromkeys(map(place_of, rows)))
    if len(places) > 1:
        raise DeviceError(
            f"collate: expected the samples of a batch on one device, but they are on {' and '.join(map(str, places))}. Move them, "
            f"e.g. x.to('{places[0]}')."
        )
    return empty(shape, dtypes.BY_NUM[dtype.num], places[0])


def gathered(tensors: Sequence[Any], indices: list) -> list[Tensor]:
    """The rows at `indices` of each tensor: what stacking them one by one gives."""
    selected = []
    for source in tensors:
        array = source.array
        size = len(array)
        if type(array) is not numpy.ndarray or source.requires_grad:
            selected.append(source[indices])
            continue
        if not indices or array.dtype.hasobject or min(indices) < -size or max(indices) >= size:
            selected.append(source[indices])
            continue
        rows = make_empty((len(indices), *array.shape[1:]), array.dtype)
        numpy.take(array, indices, 0, out=rows, mode="wrap")  # "raise" would copy once more
        selected.append(wrap(rows))
    return selected


def collate_field(batch: Sequence, where: str, functions: dict | None = None) -> Any:
    """The values of one field as one; `where` names the field in errors. `functions` says how types of the user's are collated."""
    first = batch[0]
    if functions is None:
        functions = _added()
    if functions and (function := _function_for(type(first), functions)) is not None:
        return function(batch, collate_fn_map=functions)
    if isinstance(first, Tensor):
        return _stack(batch, where)
    if isinstance(first, numpy.ndarray):
        if first.dtype.kind in "OSUMm":
            raise _cannot_collate(where, f"an array of {first.dtype}")
        return _stack([as_tensor(scalar) for scalar in batch], where)
    if isinstance(first, float):
        return as_tensor(numpy.array(batch, numpy.float64))
    if type(first) is int and set(map(type, batch)) == {int}:
        return as_tensor(numpy.array(batch, numpy.int64))
    if isinstance(first, (int, complex)):
        return tensor(list(batch))
    if isinstance(first, (str, bytes)):
        return batch if isinstance(batch, (list, tuple)) else list(batch)
    if isinstance(first, numpy.generic):
        return as_tensor(numpy.array(batch))
    if isinstance(first, Mapping):
        return like_mapping(
            first, {key: collate_field(column_of(batch, key, where), f"{where}[{key!r}]", functions) for key in first}
        )
    if isinstance(first, Sequence):
        check_sizes(batch, where)
        fields = [collate_field(column, f"{where}[{number}]", functions) for number, column in enumerate(zip(*batch))]
        if isinstance(first, tuple):
            return type(first)(*fields) if hasattr(first, "_fields") else fields
        return _like_sequence(first, fields)
    if is_dataclass_instance(first):
        columns = {name: [getattr(sample, name) for sample in batch] for name in fields_of(first)}
        return like_dataclass(
            first, {name: collate_field(column, f"{where}.{name}", functions) for name, column in columns.items()}
        )
    raise _cannot_collate(where, type(first).__name__)


def column_of(batch: Sequence, key: Any, where: str) -> list:
    try:
        return [sample[key] for sample in batch]
    except KeyError:
        number = next(number for number, sample in enumerate(batch) if key not in sample)
        raise KeyError(
            f"default_collate: {where} 0 has the key {key!r}, but number {number} of the batch has only "
            f"{list(batch[number])}. Give all samples the same keys, or use a collate_fn of your own."
        ) from None


def _stack(batch: Sequence, where: str) -> Tensor:
    for number, sample in enumerate(batch):
        if not isinstance(sample, Tensor):
            raise TypeError(
                f"default_collate: {where} is a tensor in number 0 of the batch but {type(sample).__name__} in number {number}. "
                f"Return the same kind for every index, or use a collate_fn of your own."
            )
    if any([sample.requires_grad for sample in batch]):
        return stack(list(batch))
    arrays = [sample.array for sample in batch]
    shape, kind = arrays[0].shape, arrays[0].dtype
    if any([array.shape != shape for array in arrays]):
        raise ShapeError(
            f"default_collate: {where} has different shapes in one batch: {shapes_of(arrays)}. To pad and get the lengths, use "
            f"DataLoader(..., collate_fn=collate_pad()); otherwise bring the samples to one shape."
        )
    if any([type(array) is not numpy.ndarray for array in arrays]):
        return stack(list(batch))
    if any([array.dtype is not kind and array.dtype != kind for array in arrays]):
        wider = dtypes.of_array(arrays[0])
        for array in arrays:
            wider = dtypes.promote_types(wider, dtypes.of_array(array))
        arrays = [array.astype(wider.numpy) for array in arrays]
    if not shape:
        return wrap(numpy.array(arrays))
    stacked = make_empty((len(arrays), *shape), arrays[0].dtype)
    if stacked.nbytes < _FEW:
        numpy.stack(arrays, out=stacked)
    else:  # copied straight, each as a whole
        for number, array in enumerate(arrays):
            stacked[number] = array
    return wrap(stacked)


_FEW = 1 << 16


def shapes_of(arrays: Sequence) -> str:
    """The different shapes and where each is first seen, at most four of them."""
    seen: dict[tuple, int] = {}
    for number, array in enumerate(arrays):
        seen.setdefault(tuple(array.shape), number)
    shown = ", ".join(f"{shape} in number {number}" for shape, number in list(seen.items())[:4])
    return shown + (f" and {len(seen) - 4} other shapes" if len(seen) > 4 else "")


def check_sizes(batch: Sequence, where: str) -> None:
    sizes = [len(sample) for sample in batch]
    if len(set(sizes)) > 1:
        other = next(number for number, size in enumerate(sizes) if size != sizes[0])
        raise RuntimeError(
            f"each element in list of batch should be of equal size: {where} has {sizes[0]} elements in number 0 of the batch "
            f"and {sizes[other]} in number {other}. Lists of numbers can be padded: DataLoader(..., collate_fn=collate_pad())."
        )


def is_dataclass_instance(value: Any) -> bool:
    """Whether it is an object of a dataclass."""
    return hasattr(type(value), "__dataclass_fields__")


def fields_of(value: Any) -> dict[str, Any]:
    """The fields of a dataclass's object, by name."""
    return {name: getattr(value, name) for name in type(value).__dataclass_fields__ if hasattr(value, name)}


def like_dataclass(first: Any, fields: dict) -> Any:
    """Another object of the same dataclass with these fields."""
    copied = copy.copy(first)
    for name, value in fields.items():
        object.__setattr__(copied, name, value)
    return copied


def like_mapping(first: Any, fields: dict) -> Any:
    """`fields` as the kind of mapping that `first` is, where that kind can be made."""
    try:
        if isinstance(first, MutableMapping):
            copied = copy.copy(first)
            copied.update(fields)
            return copied
        return type(first)(fields)
    except TypeError:
        return fields


def _like_sequence(first: Any, fields: list) -> Any:
    if type(first) is list:
        return fields
    try:
        if isinstance(first, MutableSequence):
            copied = copy.copy(first)
            for number, field in enumerate(fields):
                copied[number] = field
            return copied
        return type(first)(fields)
    except TypeError:
        return fields


def _cannot_collate(where: str, got: str) -> TypeError:
    return TypeError(
        f"default_collate: batch must contain tensors, numpy arrays, numbers, strings, mappings or sequences; {where} is {got}. "
        f"Convert it in the dataset, or use a collate_fn of your own."
    )
