"""Arrays as kernels take them: flat, with distances in elements; copies between any two layouts, and fills.

Everything here works on arrays whose memory stays where it is. A flat view is writeable whatever the array says: an array that must not
be written is another type to Numba.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy

from dynograd.arrays import buffers
from dynograd.base import dtypes
from dynograd.kernels.build import threads
from dynograd.kernels.build.launches import Launch

__all__ = [
    "aligned",
    "begin_call",
    "collapsed",
    "converted",
    "copy",
    "fill",
    "flat",
    "is_half",
    "lent",
    "memory_at",
    "memory_order",
    "overlaps",
    "parts_of",
    "pieces",
    "repeated_once",
    "row_major",
    "scratch",
    "scratches",
    "steps",
    "to_be_written",
    "whole_of",
]

_UNSIGNED = {size: numpy.dtype(f"u{size}") for size in (1, 2, 4, 8)}
_PIECE = 1 << 14  # elements of one long row that are an item of a copy
_DIMS = 4  # of `copy_rows`
LINE = 16  # numbers that `convert_half` takes at once
_MOST_COPIES = 64  # of arrays with more
_COMPARED = 1 << 18  # elements


def scratch(shape: Sequence[int], dtype: Any) -> numpy.ndarray:
    """Memory of a plan's own between two launches, 64 bytes aligned."""
    array = aligned(shape, dtype)
    for taken in _takers:
        taken.append(array)
    return array


def aligned(shape: Sequence[int], dtype: Any) -> numpy.ndarray:
    """Memory that begins where a line of the cache does."""
    dtype = numpy.dtype(dtype)
    whole = buffers.empty((prod(shape) * dtype.itemsize + 64,), numpy.uint8)
    offset = -whole.__array_interface__["data"][0] % 64
    whole.fill(0xFF)  # NaN, which the check of a new plan would find in a result
    return numpy.ndarray(tuple(shape), dtype, whole, offset)


_takers: list[list[numpy.ndarray]] = []
_rooms: list[_Room] = []


class scratches:
    """Lists the scratch memory that is taken meanwhile."""

    def __enter__(self) -> list[numpy.ndarray]:
        self.taken: list[numpy.ndarray] = []
        _takers.append(self.taken)
        _rooms.append(_Room())
        return self.taken

    def __exit__(self, *error: object) -> None:
        _takers.pop()
        _rooms.pop()


class _Room:
    """Scratch memory that calls use in turn."""

    def __init__(self) -> None:
        self.memory, self.begin = numpy.empty(0, numpy.uint8), 0

    def take(self, count: int) -> numpy.ndarray:
        if self.begin + count > self.memory.size:
            self.memory, self.begin = scratch((max(2 * self.memory.size, count),), numpy.uint8), 0
        begin, self.begin = self.begin, self.begin + -(-count // 64) * 64
        return self.memory[begin : begin + count]


def begin_call() -> None:
    """What was `lent` before belongs to another call."""
    if _rooms:
        _rooms[-1].begin = 0


def lent(shape: Sequence[int], dtype: Any) -> numpy.ndarray:
    """Scratch memory between launches of one call, which others use, too."""
    dtype = numpy.dtype(dtype)
    if not _rooms:
        return scratch(shape, dtype)
    return _rooms[-1].take(prod(shape) * dtype.itemsize).view(dtype).reshape(tuple(shape))


class NoMemoryError(TypeError):
    """A call that has NumPy's numbers among its arrays stays in Python."""


class _Memory:
    __slots__ = ("__array_interface__", "owner")


def flat(array: Any, dtype: Any = None) -> numpy.ndarray:
    """A writeable vector from element 0 to the last one in memory; strides are not negative. `dtype`: another of the same size."""
    if not isinstance(array, numpy.ndarray):
        raise NoMemoryError("a number has no memory of its own, which a plan could read or write again")
    beyond = sum([(size - 1) * stride for size, stride in zip(array.shape, array.strides)]) if array.size else -1
    vector = _vector(array.__array_interface__["data"][0], beyond // array.itemsize + 1, array.dtype, array)
    return vector if dtype is None else vector.view(dtype)


def whole_of(array: numpy.ndarray) -> numpy.ndarray:
    """The array that it is a view of."""
    while True:
        base = array.base
        owner = getattr(base, "owner", base)
        if not isinstance(owner, numpy.ndarray):
            return array
        array = owner


def pieces(*arrays: Any) -> Iterator[tuple[Any, ...]]:
    """Parts of arrays of one shape, which what is computed of them fits into the cache with."""
    whole = arrays[0]
    if whole.size <= _COMPARED or not whole.ndim:
        yield arrays
    elif whole.shape[0] == 1:
        yield from pieces(*[array[0] for array in arrays])
    else:
        half = whole.shape[0] // 2
        yield from pieces(*[array[:half] for array in arrays])
        yield from pieces(*[array[half:] for array in arrays])


def memory_at(address: int, count: int) -> numpy.ndarray:
    """The bytes from an address on, which somebody else keeps."""
    return _vector(address, count, numpy.dtype(numpy.uint8), None)


def _vector(address: int, count: int, dtype: Any, owner: Any) -> numpy.ndarray:
    whole = _Memory()
    whole.owner = owner
    whole.__array_interface__ = {"version": 3, "data": (address, False), "shape": (count,), "typestr": dtype.str}
    return numpy.asarray(whole)


def steps(array: Any) -> list[int] | None:
    """Strides in elements; None where one is no whole number of them, or negative."""
    size = array.itemsize
    if any([stride < 0 or stride % size for stride in array.strides]):
        return None
    return [stride // size if extent > 1 else 0 for extent, stride in zip(array.shape, array.strides)]


def overlaps(array: Any, other: Any) -> bool:
    return bool(numpy.may_share_memory(array, other))


def part_of(array: numpy.ndarray, index: Any) -> numpy.ndarray:
    """The view at a basic index; also where NumPy would give the number that is there now."""
    index = tuple(index)
    return array[index if any([entry is ... for entry in index]) else (*index, ...)]


def repeated_once(array: numpy.ndarray) -> numpy.ndarray:
    """The array without repetitions: dims of stride 0 have size 1."""
    once = [slice(0, 1) if not stride else slice(None) for stride in array.strides]
    return array[(*once, ...)]  # without the dots NumPy gives a number for an array without dims, and not its memory


def memory_order(array: Any) -> list[int]:
    """The dims from the outermost to the innermost in memory."""
    return sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]) if array.shape[axis] > 1 else 0)


def parts_of(work: int, count: int) -> int:
    """Parts of a launch of `count` items, by the rule that kernels have when Python calls them."""
    return max(1, min(threads.parts(work), count))


def collapsed(shape: Sequence[int], strides: list[list[int]]) -> tuple[list[int], list[list[int]]]:
    """As few dims as will do for all operands, whose `strides` are given: dims of size 1 dropped, neighbours taken together."""
    sizes: list[int] = []
    merged: list[list[int]] = [[] for _ in strides]
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        if sizes and all([own[-1] == whole[axis] * size for own, whole in zip(merged, strides)]):
            sizes[-1] *= size
            for own, whole in zip(merged, strides):
                own[-1] = whole[axis]
        else:
            sizes.append(size)
            for own, whole in zip(merged, strides):
                own.append(whole[axis])
    return sizes, merged


def copy(target: Any, source: Any, disjoint: bool = False) -> list[Launch] | None:
    """target[...] = source, which has its shape (or broadcasts) and dtype; None where no kernel does it.

    No two elements of `target` share memory; `disjoint`: nor does one with an element of `source`, though they lie between one another.
    """
    if target.dtype != source.dtype or target.itemsize not in (1, 2, 4, 8):
        return None
    if not disjoint and overlaps(target, source):
        return None
    if not target.size:
        return []
    source = numpy.broadcast_to(source, target.shape)
    back = (*[slice(None, None, -1) if stride < 0 else slice(None) for stride in target.strides], ...)  # see `part_of`
    target, source = target[back], source[back]
    size = target.itemsize
    if any([stride % size for stride in (*target.strides, *source.strides)]):
        return None
    order = memory_order(target)
    target, source = target.transpose(order), source.transpose(order)
    into = [stride // size for stride in target.strides]
    of = [stride // size for stride in source.strides]
    sizes, (into, of) = collapsed(target.shape, [into, of])
    if not sizes or into[-1] != 1:
        sizes, into, of = [*sizes, 1], [*into, 1], [*of, 1]
    if len(sizes) > _DIMS:  # one copy for each place of the shortest dim
        axis = min(
            range(target.ndim), key=lambda place: target.shape[place] if target.shape[place] > 1 else target.size
        )
        if target.shape[axis] > _MOST_COPIES:
            return None
        launches: list[Launch] = []
        for place in range(target.shape[axis]):
            index = (*(slice(None),) * axis, place)
            launches += copy(target[index], source[index], disjoint) or ()
        return launches
    # Where the source goes backwards, its memory begins at its last element.
    offset = sum([(extent - 1) * -step for extent, step in zip(sizes, of) if step < 0])
    forward = source[(*[slice(None, None, -1) if stride < 0 else slice(None) for stride in source.strides], ...)]
    kind = _UNSIGNED[size]
    return _rows(flat(target, kind), flat(forward, kind), offset, sizes, into, of)


def _rows(target: Any, source: Any, offset: int, sizes: list[int], into: list[int], of: list[int]) -> list[Launch]:
    from dynograd.kernels.layout import copies_numba

    if len(sizes) == 1 and sizes[0] >= 2 * _PIECE:  # one long row is cut, so that there are parts
        length = sizes[0]
        rows, rest = length // _PIECE, length % _PIECE
        launches = _rows(target, source, offset, [rows, _PIECE], [_PIECE, 1], [_PIECE * of[0], of[0]])
        if rest:
            done = length - rest
            of_rest = offset + done * of[0]
            launches.append(
                Launch(copies_numba.copy_rows, (target, done, 0, 0, 0, source, of_rest, 0, 0, 0, of[0], 1, 1, rest), 1)
            )
        return launches
    lead = _DIMS - len(sizes)
    n0, n1, n2, n3 = [1] * lead + sizes
    t0, t1, t2, _ = [0] * lead + into
    s0, s1, s2, s3 = [0] * lead + of
    total = n0 * n1 * n2 * n3
    if abs(s3) > 1 and n3 >= 8 and s2 == 1 and n2 >= 8 and source.itemsize in (4, 8):
        like = numpy.empty(0, numpy.float32 if source.itemsize == 4 else numpy.float64)
        arguments = (like, target, 0, t0, t1, t2, source, offset, s0, s1, s3, n1, n2, n3)
        count = n0 * n1 * -(-n2 // copies_numba.TILE)
        return [Launch(copies_numba.copy_turned_lines, arguments, count, parts_of(2 * total, count))]
    arguments = (target, 0, t0, t1, t2, source, offset, s0, s1, s2, s3, n1, n2, n3)
    count = n0 * n1 * n2
    return [Launch(copies_numba.copy_rows, arguments, count, parts_of(total, count))]


def row_major(array: Any, launches: list[Launch]) -> numpy.ndarray | None:
    """The array, or a row-major copy that `launches` make from now on; None where no kernel does it."""
    if array.flags.c_contiguous:
        return array
    copied = scratch(array.shape, array.dtype)
    put = copy(copied, array)
    launches += put or []
    return None if put is None else copied


def to_be_written(target: Any, behind: list[Launch]) -> numpy.ndarray | None:
    """The target, or row-major memory that launches `behind` copy to it; None where no kernel does it."""
    if target.flags.c_contiguous:
        return target
    whole = scratch(target.shape, target.dtype)
    put = copy(target, whole)
    behind += put or []
    return None if put is None else whole


def converted(source: Any, dtype: Any, take: Any = None) -> tuple[numpy.ndarray, list[Launch]] | None:
    """The numbers in another dtype, and the launches that make them; None where no kernel does it.

    Args:
        take: gives memory for them; None: `scratch`.
    """
    take = scratch if take is None else take
    dtype, launches = numpy.dtype(dtype), list[Launch]()
    if not source.flags.c_contiguous:
        whole = take(source.shape, source.dtype)
        put = copy(whole, source)
        if put is None:
            return None
        launches, source = put, whole
    target = take(source.shape, dtype)
    if source.size:
        launch = _conversion(target, source)
        if launch is None:
            return None
        launches.append(launch)
    return target, launches


_HALVES = {dtypes.float16.num, dtypes.bfloat16.num}


def is_half(dtype: Any) -> bool:
    """Whether it is float16 or bfloat16."""
    return dtype.num in _HALVES


def _conversion(target: Any, source: Any) -> Launch | None:
    from dynograd.kernels.layout import casts_numba

    count, kernel = source.size, casts_numba.convert
    into, of = flat(target), flat(source)
    half = next((kind for kind in (target.dtype, source.dtype) if is_half(kind)), None)
    if half is not None:
        if {target.dtype, source.dtype} != {half, numpy.dtype(numpy.float32)}:
            return None
        narrows = target.dtype == half
        into, of = [array.view(numpy.uint16) if array.itemsize == 2 else array for array in (into, of)]
        if half != numpy.float16:
            kernel = casts_numba.narrow_bfloat16 if narrows else casts_numba.widen_bfloat16
            into, of = [array.view(numpy.uint32) if array.itemsize == 4 else array for array in (into, of)]
        elif casts_numba.HAS_HALF and count >= LINE:
            kernel = casts_numba.convert_half
        else:
            return None
    return Launch(kernel, (into, of), count, parts_of(count, count))


def fill(target: Any, value: Any) -> list[Launch] | None:
    """target[...] = value, a number."""
    source = numpy.array(value, target.dtype)
    if target.flags.c_contiguous and target.itemsize in _UNSIGNED:
        from dynograd.kernels.layout import copies_numba

        if not target.size:
            return []
        kind = _UNSIGNED[target.itemsize]
        arguments = (flat(target, kind), flat(source, kind))
        return [Launch(copies_numba.fill, arguments, target.size, parts_of(target.size, target.size))]
    return copy(target, source)
