"""Picking, writing and adding along one dim, on NumPy arrays: with an index of the result's shape, or one index for whole slices.

Sums are taken in order, or in blocks whose number depends on the sizes and the index alone, so results repeat bit for bit. Half
types add up in float32.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np

from dynograd.arrays import buffers
from dynograd.kernels.build import threads
from dynograd.kernels.build.sizes import COMPILED_PASS, COMPILED_ROWS, LARGE, ROW_COPIES
from dynograd.kernels.index.places_cpu import joined_places, limits, true_places, wrapped
from dynograd.kernels.layout.copies_cpu import bits, contiguous, copied, zeros
from dynograd.kernels.small.few_cpu import often_called

__all__ = [
    "add_along",
    "add_slices",
    "gather",
    "gather_backward",
    "gather_few",
    "joined_places",
    "limits",
    "picked",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "take",
    "ties",
    "true_places",
    "wrapped",
    "write_along",
    "write_places",
    "write_slices",
]

_INT64, _UINT64 = np.dtype(np.int64), np.dtype(np.uint64)
_NEAR = 1 << 20  # bytes that stay in the second-level cache
_SPARSELY = 8  # of a view with so many times more elements than are picked no row-major copy is made
_PICKED = frozenset("fdlq")
_SUMMED = frozenset("fdlq") - ({"l"} if np.dtype("l").itemsize == 4 else set())
_UFUNCS = {"sum": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}
_NUMBERS = {"prod": 2, "amax": 3, "amin": 4}  # see `scatters_numba.reduce_along`
_min, _max, _empty = np.minimum.reduce, np.maximum.reduce, np.empty


# --- whole slices --------------------------------------------------------------------------------------------------------


def take(x, index, dim, negative=True):
    """The slices of `x` along `dim` at `index` (any shape; negative numbers count from the end if allowed), a new array.

    Raises IndexError for an index outside `dim`.
    """
    if not x.size and index.size:  # NumPy does not look at places where there is nothing to take
        _check(index, -x.shape[dim] if negative else 0, x.shape[dim])
    if x.size < COMPILED_PASS and 0 < index.size <= 16:
        if not negative and min(index.tolist() if index.ndim == 1 else index.reshape(-1).tolist()) < 0:
            raise IndexError("an index is negative")
        return x.take(index, dim)
    size = x.shape[dim]
    inner = prod(x.shape[dim + 1 :])
    outer = prod(x.shape[:dim])
    elements = outer * inner * index.size
    if x.size > _SPARSELY * elements and not x.flags.c_contiguous:
        if not negative:
            _check(index, 0, size)
        return contiguous(x[(*(slice(None),) * dim, index)])
    if elements < (COMPILED_PASS if inner == 1 else ROW_COPIES) or not size or x.itemsize > 8:
        if not negative and index.size and int(_min(index, None)) < 0:
            raise IndexError("an index is negative")
        return x.take(index, dim)
    if x.ndim == 1 and index.size >= LARGE:
        result = _picked_along(contiguous(x), contiguous(index, np.int64).reshape(-1), 0)
        if result is not None:
            return result.reshape(index.shape)
    result = picked(x, index, dim)
    if result is not None:
        return result
    low, high = limits(index)
    if low < (-size if negative else 0) or high >= size:
        raise IndexError(f"index {low if low < 0 else high} is out of bounds for axis {dim} with size {size}")
    return picked(x, wrapped(index, size), dim)


def picked(x, index, dim):
    """`take` of indices in `dim`; None where one is negative or outside."""
    size, outer, inner = x.shape[dim], prod(x.shape[:dim]), prod(x.shape[dim + 1 :])
    flat = _vector(index)
    if inner >= 64 and threads.parts(outer * flat.size * inner) == 1:
        if flat.size and _max(flat.view(_UINT64)) >= size:  # a negative number is huge without its sign
            return None
        out = buffers.empty((*x.shape[:dim], *index.shape, *x.shape[dim + 1 :]), x.dtype)
        return x.take(index, dim, out, "clip")  # row by row in the C library
    from dynograd.kernels.index.scatters_numba import pick_slices

    out = buffers.empty((*x.shape[:dim], *index.shape, *x.shape[dim + 1 :]), x.dtype)
    source, target = bits(contiguous(x)).reshape(outer, size, inner), bits(out).reshape(outer, flat.size, inner)
    outside = np.zeros(1, np.int64)
    pick_slices(source, flat, target, outside, count=outer * flat.size, work=target.size)
    return None if outside[0] else out


def add_slices(out, dim, index, src, low=None):
    """out's slices along `dim` at the vector `index` += src's slices, in place; `out` is row-major.

    Raises IndexError, with some added, for an index outside `dim`, or below `low`; negative ones count from the end.
    """
    outer, inner = prod(out.shape[:dim]), prod(out.shape[dim + 1 :])
    size, count = out.shape[dim], index.size
    elements = outer * inner * count
    low = -size if low is None else low
    if elements < COMPILED_ROWS or out.dtype.char not in _SUMMED:
        _check(index, low, size)
        np.add.at(out, (*(slice(None),) * dim, index), src)
        return
    from dynograd.kernels.index import scatters_numba

    source, index, outside = contiguous(src, out.dtype), _vector(index), np.zeros(1, np.int64)
    if outer > 1:
        summands = source.reshape(outer, count, inner)
        scatters_numba.add_slices(
            out.reshape(outer, size, inner), index, summands, low, outside, count=outer, work=elements
        )
        _check_none(outside)
        return
    flat, source = out.reshape(size, inner), source.reshape(count, inner)
    alone = elements < 4 * threads.GRAIN or threads.parts(elements) == 1
    some = index[:: 1 + count // 256]
    if inner < 16 and elements >= LARGE:
        reach = min(size, 2 * int(some.max()) + 1) if some.min() >= 0 else size  # a guess that no index is beyond
        if count >= 8 * reach:
            sums = zeros((4, reach, inner), out.dtype)
            least = low if reach == size else 0
            scatters_numba.add_in_blocks(sums, index, source, least, outside, count=4, work=2 * elements)
            if reach == size or not outside[0]:
                for part in sums:
                    flat[:reach] += part
                _check_none(outside)
                return
            outside[0] = 0
    if inner > 1 and not alone:
        scatters_numba.add_rows(flat, index, source, low, outside, count=size, work=elements)
    else:
        if not alone:  # what is in the cache is added to sooner than shared out; a few of the places tell
            alone = int(some.max() - some.min()) * out.itemsize < _NEAR
        if alone:
            scatters_numba.add_slices.serial(flat[None], index, source[None], low, outside, 0, 1)
        else:
            if _check(index, low, size)[0] < 0:
                index = wrapped(index, size)
            scatters_numba.add_own(out.reshape(-1), index, source.reshape(-1), count=size, work=elements)
    _check_none(outside)


def _check(index, low, size):
    """The smallest and the largest index (0 of none); raises IndexError for one below `low` or above size - 1."""
    if not index.size:
        return 0, 0
    smallest, largest = limits(index)
    if smallest < low or largest >= size:
        raise IndexError
    return smallest, largest


def _check_none(outside):
    if outside[0]:
        raise IndexError


def _vector(index):
    return np.ascontiguousarray(index, np.int64).reshape(-1)


# --- an index for each element -------------------------------------------------------------------------------------------


def gather(x, dim, index):
    """x[..., index[..., i, ...], ...] in the shape of `index`, which may be smaller than `x` outside `dim`.

    Raises IndexError for an index outside `dim`.
    """
    sparsely = False
    if not x.flags.c_contiguous and x.size:
        line = _one_for_all(x, dim)
        if line is not None:
            return take(line, index, 0, False)
        sparsely = x.size > _SPARSELY * index.size
    if index.size >= COMPILED_PASS and not sparsely and _suits_numba(x, dim, index) and x.itemsize <= 8:
        line_of_index = _one_for_all(index, dim)
        if line_of_index is not None:
            return take(x, line_of_index, dim, False)
        result = _picked_along(contiguous(x), _whole(index), dim)
        if result is None:
            raise IndexError
        return result
    if x.ndim == 2:
        few = gather_few(x, dim, index)
        if few is not None:
            return few
    _check(index, 0, x.shape[dim])
    if not x.flags.c_contiguous:
        rank = x.ndim
        grid = [np.arange(size).reshape(_along(axis, rank)) for axis, size in enumerate(index.shape)]
        grid[dim] = index
        return contiguous(x[tuple(grid)])
    return x.reshape(-1).take(_places(x.shape, dim, index))


def _picked_along(x, index, dim):
    """`gather` of row-major arrays; None where an index is outside."""
    from dynograd.kernels.index.scatters_numba import pick_along

    result, outside = buffers.empty(index.shape, x.dtype), np.zeros(1, np.int64)
    source, places, target = [_in_three(array, dim) for array in (bits(x), index, bits(result))]
    pick_along(source, places, target, outside, count=target.shape[0] * target.shape[1], work=2 * index.size)
    return None if outside[0] else result


def gather_few(x, dim, index):
    """`gather` from a matrix at few int64 indices; None where they are not, or one is outside."""
    if index.dtype is _INT64 and index.size < COMPILED_PASS and x.dtype.char in _PICKED:
        kernels = often_called() if x.flags.c_contiguous and index.flags.c_contiguous else None
        if kernels is not None:
            result = _empty(index.shape, x.dtype)
            if kernels["scatters.pick_few"](x, index, result, dim):
                return result
    return None


def gather_backward(g, dim, index, shape):
    """Zeros of `shape` with `g` added at `index` along `dim`."""
    result = zeros(shape, _sum_dtype(g))
    add_along(result, dim, index, g)
    return result.astype(g.dtype, copy=False)


def scatter(x, dim, index, src):
    """A copy of `x` with src written at `index` along `dim`; of several writes to a place the last one stays.

    Raises IndexError for an index outside `dim`.
    """
    result = copied(x)
    write_along(result, dim, index, src)
    return result


def write_along(out, dim, index, src):
    """`scatter` into `out` itself, which is row-major; when it raises, some may have been written."""
    if index.size >= COMPILED_PASS and out.itemsize <= 8 and _suits_numba(out, dim, index):
        from dynograd.kernels.index import scatters_numba

        if out.size == out.shape[dim] and index.size == index.shape[dim]:
            write_places(out.reshape(-1), _whole(index).reshape(-1), src, 0)
            return
        source = contiguous(src, out.dtype) if np.ndim(src) else np.full(index.shape, src, out.dtype)
        target, places, values_in_three = [_in_three(array, dim) for array in (bits(out), _whole(index), bits(source))]
        count, outside = places.shape[0] * -(-places.shape[2] // 16), np.zeros(1, np.int64)
        scatters_numba.write_along(target, places, values_in_three, outside, count=count, work=2 * index.size)
        _check_none(outside)
    else:
        _check(index, 0, out.shape[dim])
        out.reshape(-1)[_places(out.shape, dim, index)] = src


def write_places(out, index, src, low):
    """out[index] = src for vectors (`src` may be a number), first to last, elements of up to 8 bytes; negative ones count from the end.

    Raises IndexError for an index outside, or below `low`; some may have been written.
    """
    from dynograd.kernels.index import scatters_numba

    if not np.ndim(src):
        outside, value = np.zeros(1, np.int64), bits(np.full(1, src, out.dtype))[0]
        scatters_numba.fill_vector(bits(out), index, value, low, outside, count=index.size, work=2 * index.size)
        _check_none(outside)
        return
    if not scatters_numba.write_vector(bits(out), index, bits(contiguous(src, out.dtype)).reshape(-1), low):
        raise IndexError


def write_slices(out, dim, index, src):
    """Whether src's slices (or a number) were written at the vector `index` along `dim`: for large arrays, cut before `dim`.

    Raises IndexError for an index outside, some having been written; negative ones count from the end.
    """
    shape, size, count = out.shape, out.shape[dim], index.size
    outer, inner = prod(shape[:dim]), prod(shape[dim + 1 :])
    if outer == 1 or outer * inner * count < COMPILED_PASS or out.itemsize > 8 or not out.flags.c_contiguous:
        return False
    if not np.ndim(src):
        source = np.full((1, count, inner), src, out.dtype)
    elif src.dtype == out.dtype and src.shape == (*shape[:dim], count, *shape[dim + 1 :]):
        if np.may_share_memory(src, out):
            return False
        source = contiguous(src).reshape(outer, count, inner)
    else:
        return False
    from dynograd.kernels.index import scatters_numba

    target, outside = bits(out).reshape(outer, size, inner), np.zeros(1, np.int64)
    work = 2 * outer * inner * count
    scatters_numba.write_slices(target, _vector(index), bits(source), -size, outside, count=outer, work=work)
    _check_none(outside)
    return True


def scatter_add(x, dim, index, src):
    """A copy of `x` with src added at `index` along `dim`. Half types add up in float32.

    Raises IndexError for an index outside `dim`.
    """
    kind = _sum_dtype(x)
    result = copied(x) if kind == x.dtype else x.astype(kind, order="C")
    add_along(result, dim, index, src)
    return result.astype(x.dtype, copy=False)


def add_along(result, dim, index, src):
    """`scatter_add` into `result` itself, which is row-major; when it raises, some may have been added."""
    kind = result.dtype
    if index.size < COMPILED_ROWS or kind.char not in _SUMMED or not _suits_numba(result, dim, index):
        _check(index, 0, result.shape[dim])
        np.add.at(result.reshape(-1), _places(result.shape, dim, index).reshape(-1), _flat(src, kind))
        return
    line_of_index = index if index.ndim == 1 else _one_for_all(index, dim)
    if line_of_index is not None and result.shape[:dim] == index.shape[:dim]:
        add_slices(result, dim, line_of_index, src, 0)
        return
    from dynograd.kernels.index import scatters_numba

    target, places, summands = [_in_three(array, dim) for array in (result, _whole(index), contiguous(src, kind))]
    count, outside = places.shape[0] * -(-places.shape[2] // 16), np.zeros(1, np.int64)
    scatters_numba.add_along(target, places, summands, outside, count=count, work=2 * index.size)
    _check_none(outside)


def _one_for_all(array, dim):
    """The vector along `dim` that an array repeats in all other dims, as one that was expanded does; else None."""
    for place, (size, step) in enumerate(zip(array.shape, array.strides, strict=True)):
        if step and size > 1 and place != dim:
            return None
    return array[tuple([slice(None) if place == dim else 0 for place in range(array.ndim)])]


def _suits_numba(x, dim, index):
    """Cut nowhere but along `dim` and the first dim."""
    return index.shape[dim + 1 :] == x.shape[dim + 1 :] and (dim == 0 or index.shape[1:dim] == x.shape[1:dim])


def _in_three(array, dim):
    """The array as (dims before `dim`, `dim`, dims after)."""
    return array.reshape(prod(array.shape[:dim]), array.shape[dim], prod(array.shape[dim + 1 :]))


def _whole(index):
    return contiguous(index, np.int64)


def scatter_reduce(x, dim, index, src, reduce, include_self):
    """A copy of `x` with the product, maximum or minimum of what `src` puts at a place (and of `x` there, when `include_self`).

    Raises IndexError for an index outside `dim`.
    """
    kind = _sum_dtype(x)
    result = copied(x) if kind == x.dtype else x.astype(kind, order="C")
    if index.size >= COMPILED_ROWS and result.dtype.char in _SUMMED and _suits_numba(result, dim, index):
        from dynograd.kernels.index.scatters_numba import reduce_along, write_along

        source = contiguous(src, result.dtype)
        target, places, values_in_three = [_in_three(array, dim) for array in (result, _whole(index), source)]
        count, work = places.shape[0] * -(-places.shape[2] // 16), 2 * index.size
        outside = np.zeros(1, np.int64)
        if target.size == target.shape[1] and index.size >= max(LARGE, 16 * target.size) and include_self:
            _reduce_in_blocks(target, places, values_in_three, reduce, outside)
        else:
            if not include_self:
                first = np.full_like(values_in_three, 1) if reduce == "prod" else values_in_three
                write_along(target, places, first, outside, count=count, work=work)
            reduce_along(target, places, values_in_three, _NUMBERS[reduce], outside, count=count, work=work)
        _check_none(outside)
        return result.astype(x.dtype, copy=False)
    _check(index, 0, x.shape[dim])
    flat = result.reshape(-1)
    places = _places(x.shape, dim, index).reshape(-1)
    values = _flat(src, result.dtype)
    if not include_self:
        flat[places] = 1 if reduce == "prod" else values
    _UFUNCS[reduce].at(flat, places, values)
    return result.astype(x.dtype, copy=False)


def _reduce_in_blocks(target, places, values, reduce, outside):
    """One vector's products, maxima or minima in four equal parts of the index, and of their results."""
    from dynograd.kernels.index.scatters_numba import reduce_along

    kind, size, quarter = target.dtype, target.shape[1], places.shape[1] // 4
    if reduce == "prod":
        least = kind.type(1)
    elif kind.kind == "f":
        least = kind.type(-np.inf if reduce == "amax" else np.inf)
    else:
        least = np.iinfo(kind).min if reduce == "amax" else np.iinfo(kind).max
    parts = np.full((4, size, 1), least, kind)
    cut = 4 * quarter
    four = [array[0, :cut].reshape(4, quarter, 1) for array in (places, values)]
    reduce_along(parts, *four, _NUMBERS[reduce], outside, count=4, work=2 * cut)
    if cut < places.shape[1]:
        reduce_along(parts[:1], places[:, cut:], values[:, cut:], _NUMBERS[reduce], outside, count=1, work=1)
    for part in parts:
        _UFUNCS[reduce](target[0], part, out=target[0])


def ties(x, y):
    """1 where x equals y, else 0, in the dtype of x."""
    return (x == y).astype(x.dtype)


def _places(shape, dim, index):
    """The row-major position in an array of `shape` that each element of `index` names."""
    shape_of_index = index.shape
    corners = (_small_corners if prod(shape_of_index) <= 4096 else _corners)(
        shape, dim, (*shape_of_index[:dim], 1, *shape_of_index[dim + 1 :])
    )
    stride = prod(shape[dim + 1 :])
    return corners + (index if stride == 1 else index * stride)


def _corners(shape, dim, extents):
    """The positions of the elements of `wanted` shape that have place 0 along `dim`."""
    stride, places = 1, np.zeros((1,) * len(shape), np.int64)
    for axis in range(len(shape) - 1, -1, -1):
        if axis != dim:
            places = places + (np.arange(extents[axis]) * stride).reshape(_along(axis, len(shape)))
        stride *= shape[axis]
    return places


_small_corners = lru_cache(256)(_corners)


def _flat(src, dtype):
    return np.ascontiguousarray(src, dtype).reshape(-1)


def _along(axis, ndim):
    """Shape that lays a vector along `axis`."""
    return [-1 if other == axis else 1 for other in range(ndim)]


def _sum_dtype(x):
    """float32 for half types, else the dtype itself."""
    return np.dtype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else x.dtype
