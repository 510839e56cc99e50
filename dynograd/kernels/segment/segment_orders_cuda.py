"""Rows of segments by their order, on CudaArrays: sorts, gathers and reductions put together. The host knows no lengths.

The order of all segments is that of two stable sorts of the whole: by the numbers, then by the segment.
"""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.arrays.cuda_arrays import CudaArray, from_numpy, operations
from dynograd.kernels import kernel
from dynograd.kernels.layout.copies_cuda import zeros
from dynograd.kernels.segment.segment_scans_cuda import running_places
from dynograd.kernels.segment.segments_cuda import reduce_segments, spread_segments

_INT64, _DOUBLE = numpy.dtype(numpy.int64), numpy.dtype(numpy.float64)


def places_of_segments(values: CudaArray, starts: CudaArray, ends: CudaArray, how: str, k: int) -> CudaArray:
    """As on the CPU, where segments have the rows that are asked for: nobody waits to see."""
    values = _numbers(values)
    if how in ("cummax", "cummin"):
        return running_places(values, starts, ends, how == "cummax")
    if how in ("max", "min"):
        return _places_of(values, reduce_segments(values, starts, ends, how), starts, ends)
    places = _sorted(values, starts, ends, how in ("descending", "largest"))
    if how in ("ascending", "descending"):
        return places
    if how in ("largest", "smallest"):
        targets = _column(starts) + from_numpy(numpy.arange(k), values.device_index)
        return _taken(places, targets.reshape((targets.size,)))
    lengths = _column(ends - starts)
    number: Any = k
    if how != "kth":
        unordered = reduce_segments((values != values).astype(values.dtype), starts, ends, "sum").astype(_INT64)
        middle = (lengths - unordered - 1) // 2 if how == "nanmedian" else (lengths - 1) // 2
        odd = operations.elementwise("where", unordered > 0, lengths - 1, middle) if how == "median" else middle
        number = operations.elementwise("maximum", odd, 0)
    targets = operations.elementwise(
        "minimum", operations.elementwise("maximum", _column(starts) + number, 0), max(len(values) - 1, 0)
    )
    targets = _whole(targets, (len(starts), values.shape[1]))
    gather = kernel("scatters", "gather", values)
    rows = gather(places, 0, targets) + _column(starts)
    return _places_of(values, gather(values, 0, _inside(rows, len(values))), starts, ends)


def gather_segments(values: CudaArray, places: CudaArray, starts: CudaArray, ends: CudaArray, per: int) -> CudaArray:
    """The rows at `places` of each segment: (M, D), one for each row, or (K * per, D); 0 for a place outside of the segment."""
    rows, inside = _rows_of(places, starts, ends, per, len(values))
    result = kernel("scatters", "gather", values)(values, 0, rows)
    return operations.elementwise("where", inside, result, operations.elementwise("mul", result, 0))


def scatter_segments(
    g: CudaArray, places: CudaArray, starts: CudaArray, ends: CudaArray, per: int, rows: int
) -> CudaArray:
    """(rows, D): `g` added at `places` of each segment; see `gather_segments`."""
    at, inside = _rows_of(places, starts, ends, per, rows)
    operands = operations.elementwise("where", inside, g, operations.elementwise("mul", g, 0))
    return kernel("scatters", "gather_backward", g)(operands, 0, at, (rows, g.shape[1]))


def _numbers(values: CudaArray) -> CudaArray:
    """float32 or float64 in the same order."""
    if values.dtype.kind == "f" and values.itemsize >= 4:
        return values
    return values.astype(_DOUBLE if values.dtype.kind in "iu" and values.itemsize > 2 else numpy.dtype(numpy.float32))


def _column(numbers: CudaArray) -> CudaArray:
    return numbers.reshape((numbers.size, 1))


def _inside(rows: CudaArray, count: int) -> CudaArray:
    return operations.elementwise("minimum", operations.elementwise("maximum", rows, 0), max(count - 1, 0))


def _whole(column: CudaArray, shape: tuple[int, ...]) -> CudaArray:
    return column + from_numpy(numpy.zeros(shape, numpy.int64), column.device_index)


def _firsts(starts: CudaArray, ends: CudaArray, rows: int) -> CudaArray:
    """(rows, 1): the first row of each row's segment; a row of no segment is its own."""
    ones = zeros((starts.shape[0], 1), _DOUBLE, starts.device_index)
    ones = spread_segments(operations.elementwise("add", ones, 1), starts, ends, rows)
    result = spread_segments(_column(starts).astype(_DOUBLE), starts, ends, rows).astype(_INT64)
    own = from_numpy(numpy.arange(rows).reshape(rows, 1), starts.device_index)
    return operations.elementwise("where", ones > 0, result, own)


def _sorted(values: CudaArray, starts: CudaArray, ends: CudaArray, descending: bool) -> CudaArray:
    """(M, D): for each row of a segment, which of its rows comes there."""
    argsort, gather = kernel("sorting", "argsort", values), kernel("scatters", "gather", values)
    firsts = _firsts(starts, ends, len(values))
    order = argsort(values, 0, descending)
    own = gather(_whole(firsts, values.shape), 0, order)
    return gather(order, 0, argsort(own, 0, False)) - firsts


def _taken(places: CudaArray, rows: CudaArray) -> CudaArray:
    index = _whole(_column(_inside(rows, len(places))), (rows.size, places.shape[1]))
    return kernel("scatters", "gather", places)(places, 0, index)


def _places_of(values: CudaArray, targets: CudaArray, starts: CudaArray, ends: CudaArray) -> CudaArray:
    """(K, D): the place of the first row of each segment that is the target, or NaN where that is."""
    rows = len(values)
    top = spread_segments(targets, starts, ends, rows)
    hits = (values == top) | ((values != values) & (top != top))
    places = (
        from_numpy(numpy.arange(rows).reshape(rows, 1), values.device_index) - _firsts(starts, ends, rows)
    ).astype(_DOUBLE)
    result = reduce_segments(operations.elementwise("where", hits, places, float(rows)), starts, ends, "min")
    return operations.elementwise("where", result < rows, result, 0.0).astype(_INT64)


def _rows_of(places: CudaArray, starts: CudaArray, ends: CudaArray, per: int, rows: int) -> tuple[CudaArray, CudaArray]:
    """(the rows that places name, which of them are in their segment)."""
    if per:
        index = from_numpy(numpy.repeat(numpy.arange(starts.shape[0]), per), starts.device_index)
        take = kernel("indexing", "index_forward", starts)
        firsts, lengths = (_column(take(start, [index], (0,))) for start in (starts, ends - starts))
    else:
        firsts = _firsts(starts, ends, rows)
        lengths = spread_segments(_column(ends - starts).astype(_DOUBLE), starts, ends, rows).astype(_INT64)
    inside = (places >= 0) & (places < lengths)
    return _inside(places + firsts, rows), inside
