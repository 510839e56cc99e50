"""Data sets of Python objects as a few arrays in shared memory: workers then read them without a copy of their own.

A forked worker shares the program's memory until somebody writes to it, and Python writes to every object that it looks at (the reference
count). So a list of a million strings is copied, page by page, into every worker that reads it. In an array there is nothing to count.
"""

from __future__ import annotations

import itertools
import mmap
import os
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from dynograd.arrays import Array
from dynograd.data.dataset import Dataset
from dynograd.data.memory_files import shared_descriptor
from dynograd.tensor.tensor import Tensor, wrap

__all__ = ["FrozenDataset", "freeze"]


def freeze(dataset: Any) -> FrozenDataset:
    """The samples of `dataset`, read once and kept in shared arrays; each reading makes an equal sample anew.

    Strings become UTF-8 and offsets, numbers arrays, lists of numbers, arrays and tensors their elements and offsets; tuples, lists,
    dicts and namedtuples of one form field by field. What fits none of these, or varies in kind, is kept as pickles. Random
    augmentation belongs after it, in a data set that reads this one.

    Args:
        dataset: a map-style data set with a length.
    Returns:
        FrozenDataset.
    Raises:
        TypeError: `dataset` has no length.

    >>> frozen = freeze([("a film", [3, 1, 2]), ("another", [4])])
    >>> len(frozen), frozen[1]
    (2, ('another', [4]))
    """
    if not hasattr(dataset, "__len__"):
        raise TypeError(f"freeze: expected a data set with a length, got {type(dataset).__name__}. Pass list(stream).")
    return FrozenDataset([dataset[index] for index in range(len(dataset))])


class FrozenDataset(Dataset):
    """What `freeze` returns. `nbytes` is the size of its arrays.

    Args:
        samples: those of a data set, a list.
    Raises:
        IndexError: in use: an index that is out of range.

    >>> freeze([[3, 1, 2], [4]]).nbytes > 0
    True
    """

    def __init__(self, samples: Sequence[Any]) -> None:
        self._length = len(samples)
        self._column = _column(list(samples)) if samples else None
        arrays: list[Any] = []
        if self._column is not None:
            self._column.collect(arrays)
        self.nbytes = sum([array.nbytes for array in arrays])
        self._memory = _Memory.of(arrays)
        self._connect()

    def _connect(self) -> None:
        if self._column is not None:
            self._column.connect(iter(self._memory.arrays()))

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Any:
        place = index + self._length if index < 0 else index
        if not 0 <= place < self._length or self._column is None:
            raise IndexError(f"FrozenDataset: index {index} is out of range for length {self._length}.")
        return self._column.read(place)

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self._connect()


class _Memory:
    """Arrays behind one another in shared memory. To a process that is being started it goes as a descriptor, elsewhere as bytes."""

    def __init__(self, memory: Any, descriptor: int | None, places: list[tuple]) -> None:
        self._memory, self._descriptor, self._places = memory, descriptor, places

    @classmethod
    def of(cls, arrays: list[Any]) -> _Memory:
        places, size = [], 0
        for array in arrays:
            places.append((size, array.dtype, array.shape))
            size += -(-array.nbytes // 64) * 64
        descriptor: int | None = None
        memory: Any
        try:
            opened = shared_descriptor(max(size, 1))
        except OSError:
            memory = bytearray(size)
        else:
            memory, descriptor = mmap.mmap(opened, max(size, 1)), opened
        own = cls(memory, descriptor, places)
        for mine, array in zip(own.arrays(), arrays):
            mine[...] = array
        return own

    def arrays(self) -> list[Any]:
        return [numpy.ndarray(shape, dtype, self._memory, offset) for offset, dtype, shape in self._places]

    def __del__(self) -> None:
        if self._descriptor is not None and os is not None:
            os.close(self._descriptor)

    def __reduce__(self) -> Any:
        from multiprocessing import context, reduction

        if self._descriptor is not None and context.get_spawning_popen() is not None:
            return _attached, (reduction.DupFd(self._descriptor), len(self._memory), self._places)
        return _restored, (bytes(self._memory), self._places)


def _attached(handle: Any, size: int, places: list[tuple]) -> _Memory:
    descriptor = handle.detach()
    return _Memory(mmap.mmap(descriptor, size), descriptor, places)


def _restored(content: bytes, places: list[tuple]) -> _Memory:
    return _Memory.of([numpy.ndarray(shape, dtype, content, offset) for offset, dtype, shape in places])


# --- columns: many values of one kind as arrays --------------------------------------------------------------------------------


class _Column:
    """Knows its arrays by name until they are in shared memory, and how to read a value."""

    names: tuple[str, ...] = ()

    def collect(self, arrays: list[Any]) -> None:
        for name in self.names:
            arrays.append(self.__dict__.pop(name))

    def connect(self, arrays: Any) -> None:
        for name in self.names:
            setattr(self, name, next(arrays))

    def read(self, place: int) -> Any:
        raise NotImplementedError

    def __getstate__(self) -> dict:
        return {name: value for name, value in self.__dict__.items() if name not in self.names}


class _Numbers(_Column):
    """Ints, floats or bools."""

    names = ("values",)

    def __init__(self, values: list, dtype: Any) -> None:
        self.values = numpy.array(values, dtype)

    def read(self, place: int) -> Any:
        return self.values[place].item()


class _Bytes(_Column):
    """Text, bytes, or pickles of anything."""

    names = ("content", "offsets")

    def __init__(self, values: list, encode: Callable[[Any], bytes], kind: str) -> None:
        parts = [encode(value) for value in values]
        self.kind = kind
        self.offsets = _offsets_of([len(part) for part in parts])
        self.content = numpy.frombuffer(b"".join(parts), numpy.uint8)

    def read(self, place: int) -> Any:
        part = self.content[self.offsets[place] : self.offsets[place + 1]].tobytes()
        if self.kind == "text":
            return part.decode("utf-8", "surrogatepass")
        return part if self.kind == "bytes" else pickle.loads(part)


class _Rows(_Column):
    """Arrays or tensors with equal sizes but the first; lists of numbers."""

    names = ("offsets", "values")

    def __init__(self, rows: list, kind: str, dtype: Any) -> None:
        self.kind = kind
        self.offsets = _offsets_of([len(row) for row in rows])
        if kind == "list":
            self.values = numpy.fromiter(itertools.chain.from_iterable(rows), dtype, int(self.offsets[-1]))
        else:
            self.values = numpy.concatenate(rows)

    def read(self, place: int) -> Any:
        row = self.values[self.offsets[place] : self.offsets[place + 1]]
        if self.kind == "list":
            return row.tolist()
        return wrap(row.copy()) if self.kind == "tensor" else row.copy()


class _Nested(_Column):
    """Lists of values of any kind (words of a sentence)."""

    names = ("offsets",)

    def __init__(self, lists: list) -> None:
        self.offsets = _offsets_of([len(entries) for entries in lists])
        self.inner = _column(list(itertools.chain.from_iterable(lists)))

    def collect(self, arrays: list[Any]) -> None:
        super().collect(arrays)
        self.inner.collect(arrays)

    def connect(self, arrays: Any) -> None:
        super().connect(arrays)
        self.inner.connect(arrays)

    def read(self, place: int) -> Any:
        return [self.inner.read(at) for at in range(self.offsets[place], self.offsets[place + 1])]


class _Record(_Column):
    """Tuples, lists of one length, dicts with the same keys, namedtuples: a column for each field."""

    def __init__(self, make: Any, keys: Any, columns: list[list]) -> None:
        self.make, self.keys = make, keys
        self.columns = [_column(column) for column in columns]

    def collect(self, arrays: list[Any]) -> None:
        for column in self.columns:
            column.collect(arrays)

    def connect(self, arrays: Any) -> None:
        for column in self.columns:
            column.connect(arrays)

    def read(self, place: int) -> Any:
        values = [column.read(place) for column in self.columns]
        if self.keys is not None:
            return dict(zip(self.keys, values))
        return tuple(values) if self.make is tuple else self.make(*values)


_NUMBERS = {int: numpy.int64, float: numpy.float64, bool: numpy.bool_}


def _column(values: list) -> _Column:
    kinds = set(map(type, values))
    kind = kinds.pop() if len(kinds) == 1 else None
    stored = None
    if kind in _NUMBERS:
        stored = _numbers(values, _NUMBERS[kind])
    elif kind is str:
        stored = _Bytes(values, lambda text: text.encode("utf-8", "surrogatepass"), "text")
    elif kind is bytes:
        stored = _Bytes(values, lambda content: content, "bytes")
    elif kind is numpy.ndarray or kind is Tensor:
        stored = _rows(values, kind)
    elif kind is list:
        stored = _lists(values)
    elif kind is dict and len({tuple(value) for value in values}) == 1 and values[0]:
        keys = list(values[0])
        stored = _Record(dict, keys, [[value[key] for value in values] for key in keys])
    elif kind is not None and issubclass(kind, tuple) and len(set(map(len, values))) == 1 and values[0]:
        if kind is tuple or hasattr(kind, "_fields"):
            stored = _Record(kind, None, [list(column) for column in zip(*values)])
    return stored or _Bytes(values, lambda value: pickle.dumps(value, 5), "pickle")


def _numbers(values: list, dtype: Any) -> _Column | None:
    try:
        return _Numbers(values, dtype)
    except OverflowError:  # an int of more than 64 bits
        return None


def _rows(values: list, kind: Any) -> _Column | None:
    if kind is Tensor and any(value.is_cuda or value.requires_grad for value in values):
        return None
    arrays = [value.array for value in values] if kind is Tensor else values
    first = arrays[0]
    if first.ndim == 0 or first.dtype.hasobject:
        return None
    if any(array.dtype != first.dtype or array.shape[1:] != first.shape[1:] for array in arrays):
        return None
    return _Rows(arrays, "tensor" if kind is Tensor else "array", first.dtype)


def _lists(values: list) -> _Column | None:
    kinds = set(map(type, itertools.chain.from_iterable(values)))
    if len(kinds) == 1 and (kind := kinds.pop()) in _NUMBERS:
        try:
            return _Rows(values, "list", _NUMBERS[kind])
        except OverflowError:
            return None
    return _Nested(values) if kinds or any(values) else None


def _offsets_of(lengths: list[int]) -> Array:
    offsets = numpy.zeros(len(lengths) + 1, numpy.int64)
    numpy.cumsum(lengths, out=offsets[1:])
    return offsets
