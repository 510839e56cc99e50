"""How reductions of large NumPy arrays are cut up for the kernels in `reductions_numba`.

`reduced(join, term, input, dim, keepdim, kind)` is the sum, prod, max or min of each element itself ("same"), its "square", its
"size" or whether it is "nonzero". The result does not depend on the number of threads.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy

from dynograd.arrays import buffers
from dynograd.kernels.build.batch_invariance import batch_invariant
from dynograd.kernels.build.sizes import REDUCTIONS

_FIRST = (0, (0,))  # down columns NumPy is as fast as we up to twice as many: 4.3 us for 128 x 64, ours 6.7
BLOCK = 8192  # elements of a row that are summed at a time: 256 additions in each of 32 lanes
_EXTREME_BLOCK = 1 << 16  # extremes lose nothing in long blocks
_NARROW = 64  # columns below which rows are joined to wider ones, to fill vectors
_UFUNCS = {"sum": numpy.add, "prod": numpy.multiply, "max": numpy.maximum, "min": numpy.minimum}
_SIGNED = {4: numpy.dtype(numpy.int32), 8: numpy.dtype(numpy.int64)}
_UNSIGNED = {4: numpy.dtype(numpy.uint32), 8: numpy.dtype(numpy.uint64)}


def suits(input: Any, dim: Any) -> bool:
    """Whether a reduction over `dim` pays for a compiled kernel: large, and in one piece of memory in some order of its dims.

    In batch-invariant mode small ones go there too: how many rows there are must not decide how one is summed.
    """
    small = input.size < 2 * REDUCTIONS and (input.size < REDUCTIONS or (input.ndim > 1 and dim in _FIRST))
    if small and not (batch_invariant() and input.size):
        return False
    return dim != () and (input.flags.c_contiguous or in_memory_order(input) is not None)


def in_memory_order(input: Any) -> Any:
    """The order of dims in which `input` is row-major, or None."""
    order = sorted(range(input.ndim), key=lambda dim: -input.strides[dim])
    return order if input.transpose(order).flags.c_contiguous else None


def reduced(join: str, term: str, input: Any, dim: Any, keepdim: bool, kind: Any) -> Any:
    """`input` (which `suits`) reduced over `dim` (None, an int or a tuple), as an array of dtype `kind`."""
    shape = input.shape
    if input.flags.c_contiguous and (dim is None or dim == len(shape) - 1):  # the commonest, without bookkeeping
        n = input.size if dim is None else shape[-1]
        flat = _rows_step(join, term, input.reshape(-1), input.size // n, n, kind)
        if dim is None:
            return flat.reshape((1,) * len(shape)) if keepdim else flat.reshape(())
        return flat.reshape((*shape[:-1], 1) if keepdim else shape[:-1])
    dims: Any = range(len(shape)) if dim is None else (dim,) if type(dim) is int else dim
    if input.flags.c_contiguous:
        order: Any = range(len(shape))
    else:
        order = in_memory_order(input)
        input = input.transpose(order)
    flat = input.reshape(-1)
    groups: list[list[int]] = []  # [size, whether it goes], neighbours of a kind together
    for place in order:
        goes = int(place in dims)
        if groups and groups[-1][1] == goes:
            groups[-1][0] *= shape[place]
        else:
            groups.append([shape[place], goes])
    for position in range(len(groups) - 1, -1, -1):
        n, goes = groups[position]
        if goes:
            outer = prod([size for size, _ in groups[:position]])
            inner = prod([size for size, later in groups[position + 1 :] if not later])
            flat = _step(join, term, flat, outer, n, inner, kind)
            term = "same"
    if dim is None:
        return flat.reshape((1,) * len(shape)) if keepdim else flat.reshape(())
    if type(order) is not range:
        left = [place for place in order if place not in dims]
        ranks = sorted(range(len(left)), key=left.__getitem__)
        flat = numpy.ascontiguousarray(flat.reshape([shape[place] for place in left]).transpose(ranks))
    return flat.reshape(
        [1 if place in dims else size for place, size in enumerate(shape) if keepdim or place not in dims]
    )


def _step(join: str, term: str, x: Any, outer: int, n: int, inner: int, kind: Any) -> Any:
    """(outer, n, inner) to (outer, inner), flat."""
    if inner == 1:
        return _rows_step(join, term, x, outer, n, kind)
    if inner < _NARROW and n * inner >= 8 * _NARROW:
        return _narrow_step(join, term, x, outer, n, inner, kind)
    return _column_step(join, term, x, n * inner, outer, n, inner, kind)


def _rows_step(join: str, term: str, x: Any, outer: int, n: int, kind: Any) -> Any:
    from dynograd.kernels.reduce import reductions_numba

    extreme = join in ("max", "min")
    block = _EXTREME_BLOCK if extreme else BLOCK
    blocks = -(-n // block)
    out = buffers.empty((outer * blocks,), kind)
    if extreme:
        bits, unsigned = x.view(_SIGNED[x.itemsize]), x.view(_UNSIGNED[x.itemsize])
        kernel = reductions_numba.extreme_rows
        kernel(x, bits, unsigned, n, block, blocks, join == "max", out, count=outer * blocks, work=x.size // 2)
    else:
        reductions_numba.rows(join, term)(x, n, block, blocks, out, count=outer * blocks, work=x.size // 2)
    if blocks == 1:
        return out
    if out.size < REDUCTIONS or batch_invariant():
        return _UFUNCS[join].reduce(out.reshape(outer, blocks), 1)
    return _rows_step(join, "same", out, outer, blocks, kind)


def _column_step(join: str, term: str, x: Any, step: int, outer: int, n: int, inner: int, kind: Any) -> Any:
    from dynograd.kernels.reduce import reductions_numba

    blocks, tiles = -(-n // reductions_numba.ROWS), -(-inner // reductions_numba.TILE)
    out = buffers.empty((outer * blocks * inner,), kind)
    columns = reductions_numba.columns(join, term)
    columns(x, step, n, inner, out, count=outer * blocks * tiles, work=outer * n * inner // 2)
    return out if blocks == 1 else _step(join, "same", out, outer, blocks, inner, kind)


def _narrow_step(join: str, term: str, x: Any, outer: int, n: int, inner: int, kind: Any) -> Any:
    joined = -(-_NARROW // inner)
    lines = n // joined
    sums = _column_step(join, term, x, n * inner, outer, lines, joined * inner, kind).reshape(outer, joined, inner)
    ufunc = _UFUNCS[join]
    result = ufunc.reduce(sums, 1)
    if n % joined:
        rest = x.reshape(outer, n, inner)[:, lines * joined :].astype(kind)
        rest = numpy.square(rest) if term == "square" else abs(rest) if term == "size" else rest
        result = ufunc(result, ufunc.reduce(rest != 0 if term == "nonzero" else rest, 1))
    return result.reshape(-1)


def arg_extreme(input: Any, dim: Any, largest: bool) -> Any:
    """(values, places) of the first extreme element along `dim` (None: of all) of a row-major array; without `dim`."""
    from dynograd.kernels.reduce import reductions_numba

    shape = input.shape
    outer, n, inner = (1, input.size, 1) if dim is None else (prod(shape[:dim]), shape[dim], prod(shape[dim + 1 :]))
    left = () if dim is None else (*shape[:dim], *shape[dim + 1 :])
    x = input.reshape(-1)
    if inner > 1:
        values, places = buffers.empty(left, x.dtype), buffers.empty(left, numpy.int64)
        tiles = outer * -(-inner // 256)
        reductions_numba.arg_columns(
            x, n, inner, largest, values.reshape(-1), places.reshape(-1), count=tiles, work=x.size
        )
        return values, places
    blocks = -(-n // _EXTREME_BLOCK)
    values, places = buffers.empty((outer * blocks,), x.dtype), buffers.empty((outer * blocks,), numpy.int64)
    bits, unsigned = x.view(_SIGNED[x.itemsize]), x.view(_UNSIGNED[x.itemsize])
    reductions_numba.arg_rows(
        x, bits, unsigned, n, _EXTREME_BLOCK, blocks, largest, values, places, count=outer * blocks, work=x.size
    )
    if blocks > 1:
        table = values.reshape(outer, blocks)
        best = table.argmax(1) if largest else table.argmin(1)
        rows = numpy.arange(outer)
        values, places = table[rows, best], places.reshape(outer, blocks)[rows, best]
    return values.reshape(left), places.reshape(left)
