"""Where tensors keep their array, so that one compiled call can look at a list of tensors."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy

from dynograd.arrays import ndarray
from dynograd.interpreter.shared import tensor_class
from dynograd.kernels.small.object_fields import FIELDS

__all__ = ["place_of", "tensor_fields"]

_held: list[numpy.ndarray] = []


def tensor_fields() -> int:
    """The address of what `objects_numba.array_in` reads, eight bytes each; 0 where objects are not as `object_fields` expects.

    That is the type of plain tensors, the offsets in them of `array` and of `_requires_grad`, the type of arrays, False, the type of
    tuples, the offset in them of their items, the offset in plain tensors of `_meta`, and None.
    """
    if FIELDS is None:
        return 0
    if not _held:
        cls = tensor_class[0]
        places = [place_of(cls, name) for name in ("array", "_requires_grad", "_meta")]
        array, wants, meta = places
        words = [id(cls), array, wants, id(ndarray), id(False), id(tuple), tuple.__basicsize__, meta, id(None)]
        _held.append(numpy.array(words, numpy.int64))
    return _held[0].ctypes.data if _held[0].all() else 0


def place_of(cls: Any, name: str) -> int:
    """The offset of a slot; 0 where it is not found."""
    probe, value = object.__new__(cls), object()
    setattr(probe, name, value)
    places = [
        place
        for place in range(object.__basicsize__, cls.__basicsize__, 8)
        if ctypes.c_int64.from_address(id(probe) + place).value == id(value)
    ]
    return places[0] if len(places) == 1 else 0
