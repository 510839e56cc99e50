"""Copies of NumPy arrays, whatever their strides: in parts on all threads where that pays, and transposes in tiles.

Arrays that go to compiled code go there as unsigned numbers of their element size (`bits`).
"""

from __future__ import annotations

from typing import Any

import numpy

from dynograd import arrays
from dynograd.arrays import buffers
from dynograd.kernels.build import threads
from dynograd.kernels.build.sizes import COPIED_BYTES

_UNSIGNED = {size: numpy.dtype(f"u{size}") for size in (1, 2, 4, 8)}
_FLOATS = {4: numpy.empty(0, numpy.float32), 8: numpy.empty(0, numpy.float64)}
_PIECE = 1 << 14  # elements of one long row that are an item; the C library copies them at once
_PAGE = 4096
_copyto = numpy.copyto


def bits(array: Any) -> Any:
    """The same memory as unsigned numbers; complex128 (16 bytes) as twice as many along the last dim."""
    return array.view(_UNSIGNED.get(array.itemsize, _UNSIGNED[8]))


def zeros(shape: Any, dtype: Any) -> Any:
    """A new row-major array of zeros."""
    array = buffers.empty(shape, dtype)
    fill(array, 0)
    return array


def fill(array: Any, value: Any) -> None:
    """Every element of a row-major array becomes `value`."""
    if array.nbytes < 4 * COPIED_BYTES or array.itemsize > 8 or threads.parts(array.size) == 1:
        array.fill(value)
        return
    from dynograd.kernels.layout.copies_numba import fill as fill_flat

    flat = bits(array.reshape(-1))
    fill_flat(flat, bits(numpy.full(1, value, array.dtype)), count=flat.size, work=flat.size)


def copied(array: Any) -> Any:
    """The same values in new, row-major memory."""
    if array.nbytes < COPIED_BYTES:
        return numpy.array(array, order="C")
    copy = buffers.empty(array.shape, array.dtype)
    if not any(array.strides):  # one element everywhere: the gradient of a sum
        fill(copy, array.flat[0])
    else:
        copy_into(copy, array)
    return copy


def kept(array: Any) -> Any:
    """The same values in new memory, in the order that the dims have."""
    order = None if array.flags.c_contiguous else arrays.order_of(array)
    return copied(array) if order is None else arrays.turned(copied(array.transpose(order)), order)


def contiguous(array: Any, dtype: Any = None) -> Any:
    """The array itself where it is row-major (and of `dtype`), else a copy."""
    if dtype is not None and array.dtype != dtype:
        copy = buffers.empty(array.shape, dtype)
        _copyto(copy, array, casting="unsafe")
        return copy
    return array if array.flags.c_contiguous else copied(array)


def copy_into(target: Any, source: Any) -> None:
    """target[...] = source: the same dtype and shape; the two share no memory, and no two elements of `target` do."""
    if target.nbytes < COPIED_BYTES or target.itemsize > 8:
        _copyto(target, source)
        return
    _copy(target, source)


def _copy(target: Any, source: Any) -> None:
    item = target.itemsize
    if target.flags.c_contiguous and source.flags.c_contiguous:
        if target.nbytes < 4 * COPIED_BYTES or threads.parts(target.size) == 1:
            apart = target.__array_interface__["data"][0] - source.__array_interface__["data"][0]
            if (apart - 1) % _PAGE >= 63:  # see `copies_numba.copy_rows`
                _copyto(target, source)  # in the C library
                return
    dims = _merged(target.shape, target.strides, source.strides)
    if len(dims) > 4 or dims[-1][1] != item or any([t % item or s % item for _, t, s in dims]):
        _copyto(target, source)
        return
    dims = [(size, t // item, s // item) for size, t, s in dims]
    last, turned = dims[-1], None
    if abs(last[2]) > 1 and last[0] >= 8:
        turned = next((place for place, (size, _, s) in enumerate(dims) if s == 1 and size >= 8), None)
    if turned is not None:
        moved = dims.pop(turned)
        dims.insert(len(dims) - 1, moved)
    from dynograd.kernels.layout import copies_numba

    memory = _memory(target), _memory(source)
    if (
        len(dims) == 1 and last[0] > 2 * _PIECE and threads.parts(last[0]) > 1
    ):  # one long row: cut it, so that there are parts
        size, t, s = last
        whole = size // _PIECE
        _run(copies_numba, None, memory, [(whole, _PIECE * t, _PIECE * s), (_PIECE, t, s)], 0, 0)
        if size % _PIECE:
            _run(copies_numba, None, memory, [(size % _PIECE, t, s)], whole * _PIECE * t, whole * _PIECE * s)
        return
    _run(copies_numba, turned, memory, dims, 0, 0)


def _run(kernels: Any, turned: Any, memory: Any, dims: list, t_at: int, s_at: int) -> None:
    dims = [(1, 0, 0)] * (4 - len(dims)) + dims
    (n0, t0, s0), (n1, t1, s1), (n2, t2, s2), (n3, _, s3) = dims
    (into, t_first), (of, s_first) = memory
    work = n0 * n1 * n2 * n3
    if turned is None:
        kernels.copy_rows(
            into,
            t_first + t_at,
            t0,
            t1,
            t2,
            of,
            s_first + s_at,
            s0,
            s1,
            s2,
            s3,
            n1,
            n2,
            n3,
            count=n0 * n1 * n2,
            work=work,
        )
    else:
        tiles = n0 * n1 * -(-n2 // 32)
        shape = (into, t_first + t_at, t0, t1, t2, of, s_first + s_at, s0, s1, s3, n1, n2, n3)
        like = _FLOATS.get(into.itemsize)
        if like is None:
            kernels.copy_turned(*shape, count=tiles, work=2 * work)
        else:
            kernels.copy_turned_lines(like, *shape, count=tiles, work=2 * work)


def _merged(shape: Any, targets: Any, sources: Any) -> list[tuple[int, int, int]]:
    """(size, step in target, step in source) of as few dims as will do, in bytes."""
    dims: list[tuple[int, int, int]] = []
    for size, t, s in zip(shape, targets, sources, strict=True):
        if size == 1:
            continue
        if dims and dims[-1][1] == t * size and dims[-1][2] == s * size:
            dims[-1] = (dims[-1][0] * size, t, s)
        else:
            dims.append((size, t, s))
    return dims or [(1, targets[-1] if targets else 0, 0)]


class _Memory:
    """What NumPy reads to make an array over memory that others own; `as_strided` does the same in three times the time."""

    __slots__ = ("__array_interface__",)


def _memory(array: Any) -> tuple[Any, int]:
    """(all memory between the first and the last element, as a vector of bits; where element 0 stands in it)."""
    if array.flags.c_contiguous:
        return bits(array.reshape(-1)), 0
    item, back, beyond = array.itemsize, 0, 0
    for size, stride in zip(array.shape, array.strides, strict=True):
        if stride < 0:
            back -= (size - 1) * stride
        else:
            beyond += (size - 1) * stride
    whole = _Memory()
    whole.__array_interface__ = {
        "version": 3,
        "data": (array.__array_interface__["data"][0] - back, False),
        "shape": ((beyond + back) // item + 1,),
        "typestr": _UNSIGNED[item].str,
    }
    return numpy.asarray(whole), back // item
