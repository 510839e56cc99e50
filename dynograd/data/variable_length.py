"""Batches of samples that vary in length: `collate_pad` pads them to a rectangle, `collate_ragged` lays them behind one another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy

from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.data import collate
from dynograd.errors import ShapeError
from dynograd.tensor.creation import as_tensor
from dynograd.tensor.tensor import Tensor, wrap

if TYPE_CHECKING:
    from dynograd.ragged import RaggedTensor

__all__ = ["Joining", "Padding", "Ragging", "collate_pad", "collate_ragged"]


def collate_pad(
    padding_value: float | tuple[float, ...] | Mapping[Any, float] = 0,
    batch_first: bool = True,
    *,
    fields: Sequence[Any] | None = None,
) -> Callable[[Sequence[Any]], Any]:
    """A `collate_fn` for samples that vary in length: it pads them, and gives the lengths beside them.

    A sequence is a tensor, array or list of numbers with at least one dimension, of any length (0 too) in the first and equal
    sizes in the others. What comes of a sample does not depend on whether the lengths of one batch happen to agree:

    | sample                          | batch                                                                      |
    | ------------------------------- | -------------------------------------------------------------------------- |
    | a sequence                      | `(padded, lengths)`                                                        |
    | tuple or list `(sequence, label)` | tuple `(padded, lengths, labels)`: lengths follow each padded field      |
    | mapping with `tokens`           | the same keys, and the lengths as `tokens_lengths`                         |
    | namedtuple or dataclass         | the same type; a sequence's field holds the pair `(padded, lengths)`       |

    A field that is itself a tuple, mapping, namedtuple or dataclass is treated in the same way; others as `default_collate` does.

    Args:
        padding_value: what is written after the end; or one value for each field, as a tuple (by position) or mapping (by name).
        batch_first: padded is (B, T, ...); with False (T, B, ...).
        fields: positions or names of the fields to pad; by default every field that is a sequence. Name them when other fields
            are tensors of one size, such as images. Names hold at every depth, positions for the sample itself.
    Returns:
        a callable that takes the list of samples. `padded` has the samples' dtype, `lengths` is (B,) int64.
    Raises:
        TypeError: `padding_value` is a list.
        ValueError: in use: no samples, or fields that a sample does not have.
        ShapeError: in use: sequences that differ after the first dim.

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


def collate_ragged(samples: Sequence[Any] | None = None, *, fields: Sequence[Any] | None = None) -> Any:
    """A `collate_fn` for samples that vary in length: their elements behind one another, as a RaggedTensor. Nothing is padded.

    What a sequence is, is as in `collate_pad`. A sequence's field becomes one RaggedTensor; a sample that is a tuple stays a tuple,
    mappings, namedtuples and dataclasses keep their kind. Also of use as it is: `collate_fn=collate_ragged`.

    Args:
        samples: a batch, where the function is used as it is.
        fields: positions or names of the fields to join, as in `collate_pad`.
    Returns:
        a callable that takes the list of samples; with `samples` their batch, whose sequences are RaggedTensors (B, j, *).
    Raises:
        TypeError: `fields` are neither names nor positions.
        ValueError: in use: no samples, or fields that a sample does not have.
        ShapeError: in use: sequences that differ after the first dim.

    >>> tokens, labels = collate_ragged()([(tensor([1, 2, 3]), 0), (tensor([4]), 1)])
    >>> tokens.lengths(), tokens.values(), labels
    (tensor([3, 1]), tensor([1, 2, 3, 4]), tensor([0, 1]))
    """
    if fields is not None and (isinstance(fields, str) or (len(fields) > 0 and not isinstance(fields[0], (str, int)))):
        raise TypeError(
            f"collate_ragged: fields should be names or positions, got {type(fields).__name__} {str(fields)[:60]}. collate_ragged makes the "
            f"function: write collate_fn=collate_ragged()."
        )
    collate = Ragging(None if fields is None else tuple(fields))
    return collate if samples is None else collate(samples)


class Joining:
    """What `collate_pad` and `collate_ragged` return: an object, so that it can be sent to workers that are not forked.

    `counts` is (elements, places) of the last batch: how many elements its sequences have, and how many places they took.

    Args:
        fields: positions or names of the fields that are joined; None is each that is a sequence.

    >>> from dynograd.data.variable_length import Joining
    >>> isinstance(dynograd.data.collate_pad(), Joining)
    True
    """

    name = "collate"

    def __init__(self, fields: tuple | None) -> None:
        self.fields = fields
        self.counts = (0, 0)

    def __call__(self, batch: Sequence) -> Any:
        if not batch:
            raise ValueError(
                f"{self.name}: expected a batch of at least one sample, got none. Check the batch_sampler."
            )
        self.counts = (0, 0)
        if _is_container(batch[0]):
            if self.fields is not None:
                names = _names_of(batch[0])
                missing = [field for field in self.fields if field not in names]
                if missing:
                    raise ValueError(f"{self.name}: fields {missing} are not among the fields {names} of a sample.")
            return self._container(list(batch), "sample")
        return self._whole(self._joined(list(batch), None, "sample"))

    def _container(self, batch: list, where: str) -> Any:
        first = batch[0]
        if isinstance(first, Mapping):
            columns = {key: collate.column_of(batch, key, where) for key in first}
            joined: dict = {}
            for key, column in columns.items():
                self._named(joined, key, column, f"{where}[{key!r}]")
            return joined
        if hasattr(first, "_fields") or collate.is_dataclass_instance(first):
            return self._record(batch, where)
        collate.check_sizes(batch, where)
        parts: list = []
        for number, values in enumerate(zip(*batch)):
            place = f"{where}[{number}]"
            if not self._joins((number,) if where == "sample" else (), values):
                parts.append(self._other(list(values), place))
            else:
                parts += self._joined(list(values), number if where == "sample" else None, place)
        return tuple(parts)

    def _record(self, batch: list, where: str) -> Any:
        """A namedtuple or dataclass of columns."""
        first = batch[0]
        names = getattr(first, "_fields", None) or list(collate.fields_of(first))
        fields: dict = {}
        for number, name in enumerate(names):
            column = [getattr(sample, name) for sample in batch]
            place = f"{where}.{name}"
            if self._joins((name, number), column):
                key = name if isinstance(getattr(self, "padding_value", None), Mapping) else number
                fields[name] = self._whole(self._joined(column, key, place))
            else:
                fields[name] = self._other(column, place)
        return type(first)(**fields) if hasattr(first, "_fields") else collate.like_dataclass(first, fields)

    def _named(self, joined: dict, key: Any, column: list, place: str) -> None:
        if not self._joins((key,), column):
            joined[key] = self._other(column, place)
            return
        joined[key], *more = self._joined(column, key, place)
        if more:
            joined[f"{key}_lengths"] = more[0]

    def _other(self, column: list, where: str) -> Any:
        if _is_container(column[0]) and _holds_sequences(column[0]):
            return self._container(column, where)
        return collate.collate_field(column, where)

    def _joins(self, names: tuple, column: Sequence) -> bool:
        if self.fields is not None:
            return any(name in self.fields for name in names)
        return any(_is_sequence(sample) for sample in column)

    def _joined(self, column: list, field: Any, where: str) -> tuple:
        """What the sequences become: (padded, lengths) or (ragged,)."""
        raise NotImplementedError

    def _whole(self, joined: tuple) -> Any:
        return joined

    def _rows(self, column: list, where: str) -> tuple[list, list[int], Any, tuple]:
        """The sequences as arrays, their lengths, dtype and sizes but the first."""
        rows: list[Any] = [
            sample.array if type(sample) is Tensor else self._as_array(sample, where) for sample in column
        ]
        like = next((row for row in rows if row is not None), numpy.zeros(0, numpy.int64))
        rows = [like[:0] if row is None else row for row in rows]
        rest = like.shape[1:]
        if any([row.ndim == 0 or row.shape[1:] != rest for row in rows]):
            for row, sample in zip(rows, column):
                if row.ndim == 0:
                    raise _single(self.name, where, sample)
            raise ShapeError(
                f"{self.name}: {where} must agree in all sizes but the first, got shapes {collate.shapes_of(rows)}. "
                f"Name the fields to join by fields=, or reshape the samples."
            )
        kind = rows[0].dtype
        if any([row.dtype != kind for row in rows]):
            dtype = dtypes.of_array(rows[0])
            for row in rows:
                dtype = dtypes.promote_types(dtype, dtypes.of_array(row))
            kind = dtype.numpy
        return rows, [len(row) for row in rows], kind, rest

    def _as_array(self, value: Any, where: str) -> Array | None:
        """None for an empty list, which says nothing about dtype and sizes."""
        if isinstance(value, (list, tuple)) and len(value) == 0:
            return None
        array = value.array if isinstance(value, Tensor) else as_tensor(value, device="cpu").array
        if array.ndim == 0:
            raise _single(self.name, where, value)
        return array


class Padding(Joining):
    """What `collate_pad` returns.

    Args:
        padding_value, batch_first, fields: those of `collate_pad`.

    >>> dynograd.data.collate_pad()
    collate_pad(padding_value=0, batch_first=True, fields=None)
    """

    name = "collate_pad"

    def __init__(self, padding_value: Any, batch_first: bool, fields: tuple | None) -> None:
        super().__init__(fields)
        self.padding_value = padding_value
        self.batch_first = batch_first

    def _joined(self, column: list, field: Any, where: str) -> tuple[Tensor, Tensor]:
        rows, lengths, dtype, rest = self._rows(column, where)
        count, longest = len(rows), max(lengths)
        shape = ((count, longest) if self.batch_first else (longest, count)) + rest
        padded = collate.make_empty_beside(rows, shape, dtype)
        padded.fill(self._value(field))
        by_sample = padded if self.batch_first else padded.swapaxes(0, 1)
        for number, row in enumerate(rows):
            by_sample[number, : lengths[number]] = row
        elements, places = self.counts
        self.counts = (elements + sum(lengths), places + count * longest)
        return wrap(padded), wrap(numpy.array(lengths, numpy.int64))

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


class Ragging(Joining):
    """What `collate_ragged` returns.

    Args:
        fields: those of `collate_ragged`.

    >>> dynograd.data.collate_ragged()
    collate_ragged(fields=None)
    """

    name = "collate_ragged"

    def __init__(self, fields: tuple | None) -> None:
        super().__init__(fields)

    def _joined(self, column: list, field: Any, where: str) -> tuple[RaggedTensor]:
        from dynograd.ragged import RaggedTensor

        rows, lengths, dtype, rest = self._rows(column, where)
        offsets = numpy.zeros(len(rows) + 1, numpy.int64)
        numpy.cumsum(lengths, out=offsets[1:])
        values = collate.make_empty_beside(rows, (int(offsets[-1]), *rest), dtype)
        if type(values) is numpy.ndarray:
            numpy.concatenate(rows, out=values)
        else:
            for row, start in zip(rows, offsets.tolist()):
                values[start : start + len(row)] = row
        elements, places = self.counts
        self.counts = (elements + len(values), places + len(values))
        return (RaggedTensor(wrap(values), offsets=offsets),)

    def _whole(self, joined: tuple) -> Tensor:
        return joined[0]

    def __repr__(self) -> str:
        return f"collate_ragged(fields={self.fields!r})"


def _is_container(value: Any) -> bool:
    """Whether a sample is made of fields; a list of numbers is a sequence, and text is neither."""
    if isinstance(value, Mapping) or collate.is_dataclass_instance(value):
        return True
    return isinstance(value, (tuple, list)) and len(value) > 0 and not _is_sequence(value)


def _names_of(value: Any) -> list:
    """By what the fields of a sample can be named: positions and names of its own, names of the fields within fields."""
    fields = _fields_of(value)
    names = [*fields, *(range(len(fields)) if not isinstance(value, Mapping) else ())]
    for field in fields.values():
        if _is_container(field):
            names += [name for name in _names_of(field) if isinstance(name, str)]
    return list(dict.fromkeys(names))


def _fields_of(value: Any) -> dict:
    if isinstance(value, Mapping):
        return dict(value)
    if collate.is_dataclass_instance(value):
        return collate.fields_of(value)
    return dict(zip(getattr(value, "_fields", range(len(value))), value))


def _holds_sequences(value: Any) -> bool:
    return any(
        _is_sequence(field) or (_is_container(field) and _holds_sequences(field))
        for field in _fields_of(value).values()
    )


def _is_sequence(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.array.ndim > 0
    if isinstance(value, numpy.ndarray):
        return value.ndim > 0 and value.dtype.kind not in "OSUMm"
    return type(value) is list and all([isinstance(number, (int, float, numpy.number)) for number in value])


def _single(who: str, where: str, value: Any) -> ShapeError:
    return ShapeError(
        f"{who}: {where} must be a sequence to be {'padded' if who == 'collate_pad' else 'joined'}, got the single value {value!r}. "
        f"Leave this field out of fields=, or give every sample one dimension."
    )
