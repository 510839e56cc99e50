"""Arrays and lists as compiled code reads them from the objects themselves, which come by `id`; see `object_fields`.

The caller keeps them alive and has seen that they are arrays. `entry` is for kernels that look at their arrays in this way: Python
calls them without Numba's dispatcher, which costs more than the work on a few elements (0.07 us instead of 0.3).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from dynograd.kernels.build.addresses_numba import make_vector
from dynograd.kernels.build.compiling_numba import compiled

MOST = 1 << 15  # bytes: more than that other kernels do better
FLOAT, DOUBLE, LONG, BOOL = ord("f"), ord("d"), ord("l" if np.dtype("l").itemsize == 8 else "q"), ord("?")
_SIZES = tuple([np.dtype(chr(letter)).itemsize if chr(letter) in "?bBhHiIlLqQefdFD" else 0 for letter in range(128)])
_TYPE, _DATA, _NDIM, _SHAPE, _STRIDES, _DTYPE, _FLAGS, _ITEMS, _LETTER, _ORDER = 8, 16, 24, 32, 40, 56, 64, 24, 25, 26
_inline = compiled(inline=True)


def entry(function: Callable[..., Any]) -> Any:
    """A kernel of integers (`id` of its arrays among them) and of floats or unsigned words, which are annotated so.

    It runs with the GIL, so that nobody changes the objects meanwhile, and `exact`.
    """
    kernel = compiled(function, exact=True, nogil=False)
    kinds = [parameter.annotation for parameter in inspect.signature(function).parameters.values()]
    kernel.dynograd_kinds = tuple(_KINDS.get(getattr(kind, "__name__", kind), types.int64) for kind in kinds)
    return kernel


_KINDS = {"float": types.float64, "uint64": types.uint64}


def called_directly(kernel: Any) -> Callable[..., Any]:
    """The compiled function behind an `entry`, as Python calls it."""
    kernel.compile(kernel.dynograd_kinds)
    return getattr(kernel.overloads[kernel.dynograd_kinds], "entry_point", None) or kernel


def _load_at(kind: Any) -> Any:
    @intrinsic
    def load(typing_context, address):
        def generate(context, builder, signature, arguments):
            pointer = builder.inttoptr(arguments[0], context.get_value_type(kind).as_pointer())
            return builder.zext(builder.load(pointer), ir.IntType(64)) if kind.bitwidth < 64 else builder.load(pointer)

        return types.int64(types.int64), generate

    return load


word_at, _half_at, _byte_at = _load_at(types.int64), _load_at(types.int32), _load_at(types.uint8)


@intrinsic
def copy_bytes(typing_context, target, source, count):
    """`count` bytes from one address to another; the two places do not overlap."""

    def generate(context, builder, signature, arguments):
        byte = ir.IntType(8).as_pointer()
        to, come = [builder.inttoptr(argument, byte) for argument in arguments[:2]]
        cgutils.raw_memcpy(builder, to, come, arguments[2], 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def zero_bytes(typing_context, target, count):
    """Zeros from an address on."""

    def generate(context, builder, signature, arguments):
        to = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        cgutils.memset(builder, to, arguments[1], 0)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@_inline
def data_of(x):
    return word_at(x + _DATA)


@_inline
def ndim_of(x):
    return _half_at(x + _NDIM)


@_inline
def extent(x, dim):
    return word_at(word_at(x + _SHAPE) + 8 * dim)


@_inline
def stride(x, dim):
    return word_at(word_at(x + _STRIDES) + 8 * dim)


@_inline
def elements_of(x, first, end):
    """How many elements the dims from `first` to before `end` have together."""
    count = 1
    for dim in range(first, end):
        count *= extent(x, dim)
    return count


@_inline
def letter_of(x):
    """The letter of the dtype, as a number."""
    return _byte_at(word_at(x + _DTYPE) + _LETTER)


@_inline
def itemsize_of(letter):
    """0 for dtypes that NumPy does not bring along."""
    return _SIZES[letter & 127] if letter < 128 else 0


@_inline
def bytes_of(x):
    return elements_of(x, 0, ndim_of(x)) * itemsize_of(letter_of(x))


@_inline
def in_order(x):
    """Whether the elements lie in row-major order, aligned, in the machine's order of bytes."""
    return _half_at(x + _FLAGS) & 0x101 == 0x101 and _byte_at(word_at(x + _DTYPE) + _ORDER) != 62


@_inline
def may_be_written(x):
    return _half_at(x + _FLAGS) & 0x400 != 0 and in_order(x)


@_inline
def same_shape(x, y):
    ndim = ndim_of(x)
    same = ndim_of(y) == ndim
    if same:
        for dim in range(ndim):
            same &= extent(x, dim) == extent(y, dim)
    return same


@_inline
def count_of(listed):
    """How long a list or tuple is."""
    return word_at(listed + _TYPE + 8)


@_inline
def array_in(listed, position, fields):
    """The array at a position of a list. 0 where it may not be read.

    With `fields`, the address of what `interpreter.tensor_fields` gives, it is that of the plain tensor without gradient which stands
    there in a list or tuple.
    """
    if position >= count_of(listed):
        return 0
    items = word_at(listed + _ITEMS)
    if fields == 0:
        return word_at(items + 8 * position)
    if word_at(listed + _TYPE) == word_at(fields + 40):  # a tuple
        items = listed + word_at(fields + 48)
    item = word_at(items + 8 * position)
    if word_at(item + _TYPE) != word_at(fields) or word_at(item + word_at(fields + 16)) != word_at(fields + 32):
        return 0
    meta = word_at(item + word_at(fields + 56))
    none = word_at(fields + 64)
    if meta != none:  # a view's history may be out of date, where its base is not plain or has a `_meta`
        if meta == 0 or word_at(meta + _TYPE) != word_at(fields + 40):
            return 0
        base = word_at(meta + word_at(fields + 48))
        if word_at(base + _TYPE) != word_at(fields) or word_at(base + word_at(fields + 56)) != none:
            return 0
    array = word_at(item + word_at(fields + 8))
    return array if array and word_at(array + _TYPE) == word_at(fields + 24) else 0


def _elements_at(scalar: Any) -> Any:
    vector = make_vector(scalar)

    @compiled(inline=True, key=str(scalar))
    def elements(x, count):
        return vector(data_of(x), count)

    return elements


# The elements of an array in row-major order as a vector, by what they are; `bits32` is for what is only moved.
floats, doubles, longs = _elements_at(types.float32), _elements_at(types.float64), _elements_at(types.int64)
bools, bits32 = _elements_at(types.uint8), _elements_at(types.uint32)
