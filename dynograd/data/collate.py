"""From a list of samples to a batch: `default_collate` stacks, `collate_pad` pads what varies in length."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy

from dynograd import dtypes
from dynograd.creation import as_tensor, tensor
from dynograd.errors import ShapeError
from dynograd.ops.joins import stack
from dynograd.tensor import Tensor, wrap

__all__ = ["collate_pad", "default_collate", "default_convert"]


def default_collate(batch: Sequence) -> Any:
    """The samples of a batch as one, with a new first dimension.

    Tensors, NumPy arrays and numbers become a tensor (Python floats float64, ints int64); strings and bytes stay a list; mappings,
    namedtuples, tuples and lists are collated field by field and keep their kind, except that a tuple becomes a list.

    Raises:
        ShapeError: tensors of different shapes; `collate_pad` takes those that differ in length.
        RuntimeError: lists or tuples of different lengths.
        TypeError: a field that none of this applies to.

    >>> default_collate([(tensor([1, 2]), 0.5, "a"), (tensor([3, 4]), 1.5, "b")])
    [tensor([[1, 2],
            [3, 4]]), tensor([0.5000, 1.5000], dtype=dynograd.float64), ['a', 'b']]
    """
    if not batch:
        raise ValueError("default_collate: expected a batch of at least one sample, got none. Check the batch_sampler.")
    return _collate(batch, "sample")


def default_convert(data: Any) -> Any:
    """NumPy arrays and scalars as tensors, also inside mappings and sequences; everything else as it is.

    >>> import numpy
    >>> default_convert({"x": numpy.array([1, 2]), "name": "a"})
    {'x': tensor([1, 2]), 'name': 'a'}
    """
    if isinstance(data, Tensor):
        return data
    if isinstance(data, (numpy.ndarray, numpy.generic)):
        return data if data.dtype.kind in "OSUMm" else as_tensor(data)
    if isinstance(data, Mapping):
        return _like_mapping(data, {key: default_convert(data[key]) for key in data})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*[default_convert(one) for one in data])
    if isinstance(data, tuple):
        return [default_convert(one) for one in data]
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _like_sequence(data, [default_convert(one) for one in data])
    return data


def collate_pad(
    padding_value: Any = 0, batch_first: bool = True, *, fields: Sequence | None = None
) -> Callable[[Sequence], Any]:
    """A `collate_fn` for samples that vary in length: it pads them, and gives the lengths beside them.

    A sequence is a tensor, array or list of numbers with at least one dimension, of any length (0 too) in the first and equal
    sizes in the others. What comes of a sample does not depend on whether the lengths of one batch happen to agree:

    | sample                          | batch                                                                      |
    | ------------------------------- | -------------------------------------------------------------------------- |
    | a sequence                      | `(padded, lengths)`                                                        |
    | tuple or list `(sequence, label)` | tuple `(padded, lengths, labels)`: lengths follow each padded field      |
    | mapping with `tokens`           | the same keys, and the lengths as `tokens_lengths`                         |
    | namedtuple                      | the same type; a sequence's field holds the pair `(padded, lengths)`       |

    Other fields are collated as `default_collate` does.

    Args:
        padding_value: what is written after the end; or one value for each field, as a tuple (by position) or mapping (by name).
        batch_first: padded is (B, T, ...); with False (T, B, ...).
        fields: positions or names of the fields to pad; by default every field that is a sequence. Name them when other fields
            are tensors of one size, such as images.
    Returns:
        A callable that takes the list of samples. `padded` has the samples' dtype, `lengths` is (B,) int64.

    >>> padded, lengths, labels = collate_pad()([(tensor([1, 2, 3]), 0), (tensor([4]), 1)])
    >>> padded, lengths, labels
    (tensor([[1, 2, 3],
            [4, 0, 0]]), tensor([3, 1]), tensor([0, 1]))
    """
    if isinstance(padding_value, list):
        raise TypeError(
            "collate_pad: padding_value should be a number, a tuple or a mapping, got a list of "
            f"{len(padding_value)}. collate_pad makes the function: write collate_fn=collate_pad()."
        )
    return Padding(padding_value, batch_first, None if fields is None else tuple(fields))


class Padding:
    """What `collate_pad` returns: an object, so that it can be sent to workers that are not forked."""

    def __init__(self, padding_value: Any, batch_first: bool, fields: tuple | None) -> None:
        self.padding_value = padding_value
        self.batch_first = batch_first
        self.fields = fields

    def __call__(self, batch: Sequence) -> Any:
        if not batch:
            raise ValueError("collate_pad: expected a batch of at least one sample, got none. Check the batch_sampler.")
        first = batch[0]
        if isinstance(first, Mapping):
            return self._mapping(batch, first)
        if isinstance(first, (tuple, list)) and not _is_sequence(first):
            return self._tuple(batch, first)
        return self._pad(list(batch), None)

    def _mapping(self, batch: Sequence, first: Mapping) -> dict:
        self._check_fields(list(first))
        made = {}
        for key in first:
            column = [sample[key] for sample in batch]
            if self._pads(key, column):
                made[key], made[f"{key}_lengths"] = self._pad(column, key)
            else:
                made[key] = _collate(column, f"sample[{key!r}]")
        return made

    def _tuple(self, batch: Sequence, first: Any) -> Any:
        _check_sizes(batch, "sample")
        names = getattr(first, "_fields", range(len(first)))
        self._check_fields([*names, *range(len(first))])
        made: list[Any] = []
        for number, (name, column) in enumerate(zip(names, zip(*batch))):
            if not (self._pads(number, column) or (name != number and self.fields and self._pads(name, column))):
                made.append(_collate(list(column), f"sample[{number}]"))
            elif hasattr(first, "_fields"):
                made.append(self._pad(list(column), name if isinstance(self.padding_value, Mapping) else number))
            else:
                made += self._pad(list(column), number)
        return type(first)(*made) if hasattr(first, "_fields") else tuple(made)

    def _check_fields(self, names: list) -> None:
        missing = [field for field in self.fields or () if field not in names]
        if missing:
            raise ValueError(f"collate_pad: fields {missing} are not among the fields {names} of a sample.")

    def _pads(self, field: Any, column: Sequence) -> bool:
        return field in self.fields if self.fields is not None else any(_is_sequence(one) for one in column)

    def _pad(self, column: list, field: Any) -> tuple[Tensor, Tensor]:
        where = "sample" if field is None else f"sample[{field!r}]"
        filled = [one for one in column if not (isinstance(one, (list, tuple)) and len(one) == 0)]
        arrays = {id(one): _as_array(one, where) for one in filled}
        like = next(iter(arrays.values()), numpy.zeros(0, numpy.int64))
        rest = like.shape[1:]
        rows = [arrays.get(id(one), like[:0]) for one in column]
        if any(row.shape[1:] != rest for row in rows):
            raise ShapeError(
                f"collate_pad: {where} must agree in all sizes but the first, got shapes {_shapes(rows)}. "
                f"Name the fields to pad by fields=, or reshape the samples."
            )
        lengths = [len(row) for row in rows]
        dtype = dtypes.of_array(rows[0])
        for row in rows:
            dtype = dtypes.promote_types(dtype, dtypes.of_array(row))
        longest = max(lengths)
        shape = (len(rows), longest) if self.batch_first else (longest, len(rows))
        padded = numpy.full((*shape, *rest), self._value(field), dtype.numpy)
        by_sample = padded if self.batch_first else padded.swapaxes(0, 1)
        for out, row, length in zip(by_sample, rows, lengths):
            out[:length] = row
        return wrap(padded), tensor(lengths)

    def _value(self, field: Any) -> Any:
        value = self.padding_value
        try:
            return value[field] if isinstance(value, (Mapping, tuple)) else value
        except (KeyError, IndexError, TypeError):
            raise ValueError(
                f"collate_pad: padding_value {value!r} has no value for the field {field!r}. Give a number, or one for each."
            ) from None

    def __repr__(self) -> str:
        return (
            f"collate_pad(padding_value={self.padding_value!r}, batch_first={self.batch_first}, fields={self.fields!r})"
        )


def _is_sequence(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.array.ndim > 0
    if isinstance(value, numpy.ndarray):
        return value.ndim > 0 and value.dtype.kind not in "OSUMm"
    return type(value) is list and all(isinstance(one, (int, float, numpy.number)) for one in value)


def _as_array(value: Any, where: str) -> Any:
    made = value.array if isinstance(value, Tensor) else as_tensor(value).array
    if made.ndim == 0:
        raise ShapeError(
            f"collate_pad: {where} must be a sequence to be padded, got the single value {value!r}. "
            f"Leave this field out of fields=, or give every sample one dimension."
        )
    return made


def _collate(batch: Sequence, where: str) -> Any:
    first = batch[0]
    if isinstance(first, Tensor):
        return _stack(batch, where)
    if isinstance(first, numpy.ndarray):
        if first.dtype.kind in "OSUMm":
            raise _cannot_collate(where, f"an array of {first.dtype}")
        return _stack([as_tensor(one) for one in batch], where)
    if isinstance(first, float):
        return tensor(list(batch), dtype=dtypes.float64)
    if isinstance(first, (int, complex)):
        return tensor(list(batch))
    if isinstance(first, (str, bytes)):
        return list(batch)
    if isinstance(first, numpy.generic):
        return as_tensor(numpy.array(batch))
    if isinstance(first, Mapping):
        return _like_mapping(first, {key: _collate(_column(batch, key, where), f"{where}[{key!r}]") for key in first})
    if isinstance(first, Sequence):
        _check_sizes(batch, where)
        fields = [_collate(column, f"{where}[{number}]") for number, column in enumerate(zip(*batch))]
        if isinstance(first, tuple):
            return type(first)(*fields) if hasattr(first, "_fields") else fields
        return _like_sequence(first, fields)
    raise _cannot_collate(where, type(first).__name__)


def _column(batch: Sequence, key: Any, where: str) -> list:
    try:
        return [sample[key] for sample in batch]
    except KeyError:
        number = next(number for number, sample in enumerate(batch) if key not in sample)
        raise KeyError(
            f"default_collate: {where} 0 has the key {key!r}, but number {number} of the batch has only "
            f"{list(batch[number])}. Give all samples the same keys, or use a collate_fn of your own."
        ) from None


def _stack(batch: Sequence, where: str) -> Tensor:
    for number, one in enumerate(batch):
        if not isinstance(one, Tensor):
            raise TypeError(
                f"default_collate: {where} is a tensor in number 0 of the batch but {type(one).__name__} in number {number}. "
                f"Return the same kind for every index, or use a collate_fn of your own."
            )
    if any(one.requires_grad for one in batch):
        return stack(list(batch))
    arrays = [one.array for one in batch]
    shape, kind = arrays[0].shape, arrays[0].dtype
    if any(array.shape != shape for array in arrays):
        raise ShapeError(
            f"default_collate: {where} has different shapes in one batch: {_shapes(arrays)}. To pad and get the lengths, use "
            f"DataLoader(..., collate_fn=collate_pad()); otherwise bring the samples to one shape."
        )
    if any(array.dtype != kind for array in arrays):
        wider = dtypes.of_array(arrays[0])
        for array in arrays:
            wider = dtypes.promote_types(wider, dtypes.of_array(array))
        arrays = [array.astype(wider.numpy) for array in arrays]
    if not shape:
        return wrap(numpy.array(arrays))
    return wrap(numpy.concatenate(arrays).reshape(len(arrays), *shape))


def _shapes(arrays: Sequence) -> str:
    """The different shapes and where each is first seen, at most four of them."""
    seen: dict[tuple, int] = {}
    for number, array in enumerate(arrays):
        seen.setdefault(tuple(array.shape), number)
    shown = ", ".join(f"{shape} in number {number}" for shape, number in list(seen.items())[:4])
    return shown + (f" and {len(seen) - 4} other shapes" if len(seen) > 4 else "")


def _check_sizes(batch: Sequence, where: str) -> None:
    sizes = [len(one) for one in batch]
    if len(set(sizes)) > 1:
        other = next(number for number, size in enumerate(sizes) if size != sizes[0])
        raise RuntimeError(
            f"each element in list of batch should be of equal size: {where} has {sizes[0]} elements in number 0 of the batch "
            f"and {sizes[other]} in number {other}. Lists of numbers can be padded: DataLoader(..., collate_fn=collate_pad())."
        )


def _like_mapping(first: Any, fields: dict) -> Any:
    """`fields` as the kind of mapping that `first` is, where that kind can be made."""
    try:
        if isinstance(first, MutableMapping):
            made = copy.copy(first)
            made.update(fields)
            return made
        return type(first)(fields)
    except TypeError:
        return fields


def _like_sequence(first: Any, fields: list) -> Any:
    if type(first) is list:
        return fields
    try:
        if isinstance(first, MutableSequence):
            made = copy.copy(first)
            for number, field in enumerate(fields):
                made[number] = field
            return made
        return type(first)(fields)
    except TypeError:
        return fields


def _cannot_collate(where: str, got: str) -> TypeError:
    return TypeError(
        f"default_collate: batch must contain tensors, numpy arrays, numbers, strings, mappings or sequences; {where} is {got}. "
        f"Convert it in the dataset, or use a collate_fn of your own."
    )
