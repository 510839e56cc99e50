"""Watches: fields of Python's objects that hold what they held when a step was recorded, looked at in one compiled call.

Asking Python costs 0.05 us a field, as much as a kernel on a few elements, and a step has thousands of them. Compiled code reads the words
where `object_fields` says that they lie, and so does `ctypes` while nothing is compiled.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import weakref
from collections import OrderedDict, defaultdict
from types import CellType, FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy

from dynograd.interpreter.tensor_fields import place_of
from dynograd.kernels import module_of
from dynograd.kernels.small.object_fields import FIELDS
from dynograd.tensor.tensor import Tensor

__all__ = ["Watch", "can_watch", "compiled"]

_REFERENCES, _TYPE, _LENGTH, _ITEMS, _ENTRIES, _VALUES = 0, 8, 16, 24, 32, 40
_LENGTHS: dict[type, int] = {list: 16, tuple: 16, dict: 16, OrderedDict: 16, defaultdict: 16, set: 24, frozenset: 24}
_COLLECTED = 16  # bytes ahead of an object that the garbage collector sees, which its size counts
# Of a dict's keys: bytes that say as a power of 2 how long the index is, how many entries there are, and the index.
_INDEX_SIZE, _COUNT, _INDEX = 9, 24, 32
_WEAK = getattr(Tensor, "__weakrefoffset__", 0)
_SLOTS = {name: place_of(Tensor, name) for name in ("array", "_grad", "_meta", "_requires_grad")}


class Watch:
    """Rows of (a field of an object, what it is expected to hold). They belong to numbers, of values in a record; -1: to none.

    An object whose references are counted is not kept, since that would count: whoever has it says what comes in its place (`put`).
    """

    __slots__ = ("_address", "_contents", "_first_other", "_kept", "_places", "_rows", "_words", "count", "numbers")

    def __init__(self) -> None:
        self._rows: list[tuple[int, int]] = []
        self._kept: list[Any] = []
        self._places: dict[int, list[tuple[int, int]]] = {}  # by number: rows that look at its tensor, and the field
        self._contents: dict[int, list[int]] = {}  # by number: rows that expect its tensor
        self.count = 0
        self.numbers: set[int] = set()  # those that have rows

    def field(self, tensor: Any, name: str, content: Any, number: int = -1) -> None:
        """`tensor.name is content`; that may be the tensor of a number."""
        if number >= 0:
            self._contents.setdefault(number, []).append(len(self._rows))
        self._kept += (tensor,) if number >= 0 else (tensor, content)
        self._rows.append((id(tensor) + _SLOTS[name], id(content)))

    def entry(self, mapping: dict[Any, Any], key: Any) -> None:
        """The dict has the content under this key that it has now, in the memory of entries that it has now.

        Raises:
            LookupError: it keeps its entries where nobody expects them.
        """
        content = mapping[key]
        own = next(other for other in mapping if other is key or (hash(other) == hash(key) and other == key))
        values = _word(id(mapping) + _VALUES)
        place = _place_among(values, mapping, own) if values else _place_of(mapping, own)
        if not place or _word(place) != id(content):
            raise LookupError("no entry has this content")
        self._kept += mapping, content, own
        self._rows += [(id(mapping) + field, _word(id(mapping) + field)) for field in (_ENTRIES, _VALUES)]
        self._rows += [(place, id(content))] if values else [(place - 8, id(own)), (place, id(content))]

    def item(self, listed: list[Any], place: int) -> None:
        """The list is as long as it is now, and has the item there that it has now."""
        start = _word(id(listed) + _ITEMS)
        self._kept += listed, listed[place]
        self._rows += [(id(listed) + _LENGTH, len(listed)), (id(listed) + _ITEMS, start)]
        self._rows.append((start + 8 * place, id(listed[place])))

    def length(self, container: Any) -> None:
        """The list, tuple, dict or set is as long as it is now.

        Raises:
            LookupError: it is of another class.
        """
        field = _LENGTHS.get(type(container))
        if field is None:
            raise LookupError("nobody knows where it keeps its length")
        self._kept.append(container)
        self._rows.append((id(container) + field, len(container)))

    def attribute(self, owner: FunctionType | CellType, name: str) -> None:
        """The function or cell has the attribute that it has now.

        Raises:
            LookupError: it keeps it where nobody expects it.
        """
        content, place = (
            getattr(owner, name),
            id(owner) + _field_of(FunctionType if isinstance(owner, FunctionType) else CellType, name),
        )
        word = _word(place)
        if word != id(content) and not (word == 0 and content is None):
            raise LookupError("no field has this content")
        self._kept += owner, content
        self._rows.append((place, word))

    def items(self, listed: list[Any]) -> None:
        """The list has the items that it has now, in the memory that it has now."""
        start = _word(id(listed) + _ITEMS)
        self._kept += listed, *listed
        self._rows += [(id(listed) + _LENGTH, len(listed)), (id(listed) + _ITEMS, start)]
        self._rows += [(start + 8 * place, id(item)) for place, item in enumerate(listed)]

    def holders(self, number: int, tensor: Any, count: int) -> None:
        """The tensor of a number has so many references as `sys.getrefcount` counts where it is read from a list."""
        self._places.setdefault(number, []).append((len(self._rows), _REFERENCES))
        self._rows.append((id(tensor) + _REFERENCES, count - 1))

    def alone(self, number: int, tensor: Any, count: int) -> None:
        """`holders`, and nobody has a weak reference to the tensor either."""
        self.holders(number, tensor, count)
        self._places[number].append((len(self._rows), _WEAK))
        self._rows.append((id(tensor) + _WEAK, 0))

    def kind(self, number: int, tensor: Any, kind: type) -> None:
        """The tensor of a number has this class."""
        self._places.setdefault(number, []).append((len(self._rows), _TYPE))
        self._rows.append((id(tensor) + _TYPE, id(kind)))

    def close(self) -> Watch:
        """All rows are there."""
        self.count = len(self._rows)
        self.numbers = {*self._places, *self._contents}
        self._words = numpy.array(self._rows, numpy.int64).reshape(-1, 2)
        self._address = self._words.ctypes.data
        self._first_other = compiled().first_other
        return self

    def put(self, number: int, tensor: Any) -> None:
        """Another tensor has this number."""
        words = self._words
        for row, field in self._places.get(number, ()):
            words[row, 0] = id(tensor) + field
        for row in self._contents.get(number, ()):
            words[row, 1] = id(tensor)

    def first_other(self, start: int = 0) -> int:
        """The first row from `start` on that is not as expected; `count`: there is none."""
        place: int = self._first_other(self._address, start, self.count)
        return place

    def question(self) -> tuple[Any, int, int]:
        """For code that asks often: a function, and where its rows lie and how many there are. Of these and 0 between, it gives their number if all hold."""
        return self._first_other, self._address, self.count

    def holds(self) -> bool:
        """Whether all fields are as expected."""
        return bool(self._first_other(self._address, 0, self.count) == self.count)


def compiled() -> ModuleType | SimpleNamespace:
    """The kernels of `words_numba`, or where nothing is compiled what stands in for them; loads Numba."""
    return _without_kernels() if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0" else module_of("words_numba")


@functools.cache
def _without_kernels() -> SimpleNamespace:
    def first_other(rows: int, start: int, stop: int) -> int:
        for row in range(start, stop):
            if _word(_word(rows + 16 * row)) != _word(
                rows + 16 * row + 8
            ):  # what lies behind a pointer that has changed is not read
                return row
        return stop

    return SimpleNamespace(first_other=first_other, copied_alike=lambda *_: False, pointed_alike=lambda *_: False)


def _word(address: int) -> int:
    return ctypes.c_int64.from_address(address).value


def _place_of(mapping: dict[Any, Any], key: Any) -> int:
    """The address of the word with the content among the entries of a dict, right behind its own key; 0: there are several, or none."""
    start = _word(id(mapping) + _ENTRIES)
    count = sys.getsizeof(mapping) - type(mapping).__basicsize__ - _COLLECTED
    places = [place + 8 for place in range(start, start + count - 15, 8) if _word(place) == id(key)]
    return places[0] if len(places) == 1 else 0


def _place_among(values: int, mapping: dict[Any, Any], key: Any) -> int:
    """The same of attributes of an object, whose keys are those of other objects of its class, too; their contents lie at `values`."""
    offset, keys = _offset_of_values(), _word(id(mapping) + _ENTRIES)
    first = keys + _INDEX + (1 << ctypes.c_uint8.from_address(keys + _INDEX_SIZE).value)
    places = [place for place in range(_word(keys + _COUNT)) if _word(first + 16 * place) == id(key)]
    return values + offset + 8 * places[0] if offset >= 0 and len(places) == 1 else 0


@functools.cache
def _field_of(kind: Any, name: str) -> int:
    """How far behind the beginning of a function or a cell it has an attribute."""

    def probe(x: object = kind, *, y: object = kind) -> tuple[object, object]:
        return x, y

    owner = probe if kind is FunctionType else CellType(probe)
    content = id(getattr(owner, name))
    places = [place for place in range(_LENGTH, kind.__basicsize__, 8) if _word(id(owner) + place) == content]
    if len(places) != 1:
        raise LookupError("no field has this content")
    return places[0]


@functools.cache
def _offset_of_values() -> int:
    """How far behind the beginning of an object's contents the first one lies; -1: they lie elsewhere."""
    probe = _Probe()
    probe.first, probe.second = object(), object()
    values = _word(id(vars(probe)) + _VALUES)
    if not values:
        return -1
    return next(
        (
            offset
            for offset in (0, 8)
            if [_word(values + offset), _word(values + offset + 8)] == [id(probe.first), id(probe.second)]
        ),
        -1,
    )


class _Probe:
    """An object with two attributes."""

    first: object
    second: object


@functools.cache
def can_watch() -> bool:
    """Whether objects are what watches expect: those of a usual CPython."""
    if FIELDS is None or not all(_SLOTS.values()):
        return False
    tensors = [Tensor.wrap(numpy.zeros(1)) for _ in range(2)]
    more = [tensors[1]]
    counts = [sys.getrefcount(tensors[0]), sys.getrefcount(tensors[1])]
    words = [_word(id(tensor) + _REFERENCES) for tensor in tensors]
    if len(more) != 1 or [count - 1 for count in counts] != [word - 1 for word in words] or words != [2, 3]:
        return False
    mapping = {"first": tensors[0], "second": tensors[1]}
    reference = weakref.ref(tensors[1])
    if [_word(id(tensor) + _WEAK) for tensor in tensors] != [0, id(reference)]:
        return False
    return (
        all([_word(id(sort([1, 2])) + field) == 2 for sort, field in _LENGTHS.items() if sort in (list, tuple, set)])
        and _word(id(mapping) + _LENGTH) == 2
        and _word(_word(id(tensors) + _ITEMS) + 8) == id(tensors[1])
        and [_word(_place_of(mapping, key)) for key in mapping] == [id(tensor) for tensor in tensors]
    )
