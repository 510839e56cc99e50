"""Where CPython's and NumPy's objects keep their fields, so that one compiled call can look at many arrays.

Asking Python for an array's address costs 0.2 to 1 us, as much as updating 500 parameters; compiled code reads it from the array
object in 1 ns. The offsets are those of the C structs (stable since NumPy 1.0), and `FIELDS` is None where looking at known
objects does not find what they say (another interpreter, a free-threaded build): callers then ask Python.
"""

from __future__ import annotations

import ctypes
import sys

import numpy

# Offsets in an array object of: its type, data, ndim, shape, dtype, flags; in a list object of its items. FIELDS has the addresses of
# the types of array and of None behind them.
_OFFSETS = (8, 16, 24, 32, 56, 64, 24)
_STRIDES = 40  # likewise
_LETTER = 25  # in a dtype object; then comes the letter of the order of bytes


def _looked_up() -> numpy.ndarray | None:
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8 or object.__basicsize__ != 16:
        return None
    wide = numpy.arange(24.0).reshape(2, 3, 4)
    known = [wide, wide.T, wide[1:, :, 1], numpy.ones((), numpy.float32), numpy.zeros((3, 0), numpy.int8)]
    known.append(numpy.ones(2, ">f8"))
    if all(_agrees(array) for array in known) and _items_of(known) == [id(array) for array in known]:
        return numpy.array([*_OFFSETS, id(numpy.ndarray), id(None)], numpy.int64)
    return None


def _agrees(array: numpy.ndarray) -> bool:
    kind, data, ndim, shape, dtype, flags, _ = (id(array) + offset for offset in _OFFSETS)
    if _word(kind) != id(numpy.ndarray) or _half(ndim) != array.ndim:
        return False
    sizes = tuple(_word(_word(shape) + 8 * dim) for dim in range(array.ndim)) if array.ndim else ()
    strides = tuple(_word(_word(id(array) + _STRIDES) + 8 * dim) for dim in range(array.ndim))
    return (
        sizes == array.shape
        and strides == array.strides
        and _word(data) == array.__array_interface__["data"][0]
        and _word(dtype) == id(array.dtype)
        and ctypes.string_at(id(array.dtype) + _LETTER, 2).decode("latin-1") == array.dtype.char + array.dtype.byteorder
        and _half(flags) & 0x703 == array.flags.num & 0x703  # contiguous (both ways), aligned, writeable, native
    )


def _items_of(listed: list) -> list[int]:
    start = _word(id(listed) + _OFFSETS[-1])
    return [_word(start + 8 * position) for position in range(len(listed))]


def _word(address: int) -> int:
    return ctypes.c_int64.from_address(address).value


def _half(address: int) -> int:
    return ctypes.c_int32.from_address(address).value


FIELDS = _looked_up()
