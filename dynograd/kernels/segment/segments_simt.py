"""Segments of rows in numba-cuda: `lanes` threads of a block share a segment, or a piece of one.

Threads lie over columns first (`width` of them, a power of 2), so that neighbours read neighbouring memory; the rest over rows. What
they found is put together in shared memory, in the same order each time. A row of blocks (`blockIdx.y`) is for `width` columns.
Segments are cut to the rows that exist.
"""

from __future__ import annotations

import math
from typing import Any

from numba import float32, float64, int32, int64

from dynograd.kernels.build.launching_cuda import simt_kernel
from dynograd.kernels.build.simt_language import cuda

MOST = 1024  # threads of a block
_SUM, _PROD, _MAX = 0, 1, 2


@cuda.jit(device=True)
def part_of(segment, piece, starts, ends, rows, pieces):
    """The first row of a piece of a segment, and the one behind its last."""
    first, last = max(starts[segment], int64(0)), min(ends[segment], int64(rows))
    length = max(last - first, int64(0))
    return first + length * piece // int64(pieces), first + length * (piece + int64(1)) // int64(pieces)


def _helpers(real: Any) -> tuple[Any, Any, Any]:
    @cuda.jit(device=True)
    def nothing(kind):
        """The result for no row."""
        if kind == _SUM:
            return real(0)
        if kind == _PROD:
            return real(1)
        if kind == _MAX:
            return real(-math.inf)
        return real(math.inf)

    @cuda.jit(device=True)
    def both(kind, first, other):
        """Two results as one; NaN beats all in extremes."""
        if kind == _SUM:
            return real(first + other)
        if kind == _PROD:
            return real(first * other)
        if other != other:
            return other
        if kind == _MAX:
            return other if other > first else first
        return other if other < first else first

    @cuda.jit(device=True)
    def gathered(kind, value, shared, thread, row, rows, width):
        """The result of all threads of a column; every thread of the block calls it."""
        shared[thread] = value
        cuda.syncthreads()
        half = int32(rows >> 1)
        while half > 0:
            if row < half:
                shared[thread] = both(kind, shared[thread], shared[thread + half * width])
            cuda.syncthreads()
            half = int32(half >> 1)
        result = shared[thread - row * width]
        cuda.syncthreads()
        return result

    return nothing, both, gathered


def _reducer(real: Any) -> Any:
    nothing, both, gathered = _helpers(real)

    def reduce_segments(values, starts, ends, result, kind, rows, columns, segments, pieces, lanes, width):
        """`result` (segments, pieces, columns): the sum, product, maximum or minimum of each of `pieces` parts of each segment."""
        shared = cuda.shared.array(0, real)
        thread = int32(cuda.threadIdx.x)
        lane, step = int32(thread % lanes), int32(lanes // width)
        row, column = int32(lane // width), int64(cuda.blockIdx.y) * int64(width) + int64(lane % width)
        item = int64(cuda.blockIdx.x) * int64(cuda.blockDim.x // lanes) + int64(thread // lanes)
        total = nothing(kind)
        inside = item < int64(segments) * int64(pieces) and column < int64(columns)
        if inside:
            segment = item // int64(pieces)
            at, stop = part_of(segment, item - segment * int64(pieces), starts, ends, rows, pieces)
            at += int64(row)
            while at < stop:
                total = both(kind, total, values[at * int64(columns) + column])
                at += int64(step)
        total = gathered(kind, total, shared, thread, row, step, width)
        if inside and row == 0:
            result[item * int64(columns) + column] = total

    return reduce_segments


def _spreader(real: Any) -> Any:
    def spread_segments(g, starts, ends, result, rows, columns, segments, pieces, lanes, width):
        """Row k of `g` in each row of segment k of `result`."""
        thread = int32(cuda.threadIdx.x)
        lane, step = int32(thread % lanes), int32(lanes // width)
        column = int64(cuda.blockIdx.y) * int64(width) + int64(lane % width)
        item = int64(cuda.blockIdx.x) * int64(cuda.blockDim.x // lanes) + int64(thread // lanes)
        if item < int64(segments) * int64(pieces) and column < int64(columns):
            segment = item // int64(pieces)
            at, stop = part_of(segment, item - segment * int64(pieces), starts, ends, rows, pieces)
            at += int64(lane // width)
            value = g[segment * int64(columns) + column]
            while at < stop:
                result[at * int64(columns) + column] = value
                at += int64(step)

    return spread_segments


def _gradient(real: Any) -> Any:
    _, _, gathered = _helpers(real)

    def segment_gradients(g, values, output, starts, ends, result, product, rows, columns, segments, lanes, width):
        """Gradient of the values of extremes (those that are `output` share it; NaN: any NaN) or of products."""
        shared = cuda.shared.array(0, real)
        thread = int32(cuda.threadIdx.x)
        lane, step = int32(thread % lanes), int32(lanes // width)
        row, column = int32(lane // width), int64(cuda.blockIdx.y) * int64(width) + int64(lane % width)
        segment = int64(cuda.blockIdx.x) * int64(cuda.blockDim.x // lanes) + int64(thread // lanes)
        inside = segment < int64(segments) and column < int64(columns)
        count, others, target = real(0), real(1), real(0)
        first, stop = int64(0), int64(0)
        if inside:
            if not product:
                target = output[segment * int64(columns) + column]
            first, stop = max(starts[segment], int64(0)) + int64(row), min(ends[segment], int64(rows))
            at = first
            while at < stop:
                value = values[at * int64(columns) + column]
                if value == target or (value != value and not product):
                    count = real(count + real(1))
                elif product:
                    others = real(others * value)
                at += int64(step)
        count = gathered(int32(_SUM), count, shared, thread, row, step, width)
        others = gathered(int32(_PROD), others, shared, thread, row, step, width)
        if inside:
            share = g[segment * int64(columns) + column]
            share = real(share * others) if product else real(share / count)
            at = first
            while at < stop:
                place = at * int64(columns) + column
                value = values[place]
                hit = value == target or (value != value and not product)
                if product:
                    mine = real(0)
                    if hit:
                        if count == real(1):
                            mine = share
                    elif count == real(0):
                        mine = real(share / value)
                    result[place] = mine
                else:
                    result[place] = share if hit else real(0)
                at += int64(step)

    return segment_gradients


def _kernels(make: Any, **types: str) -> dict[int, Any]:
    """A kernel by the size of its numbers."""
    shared = dict(
        starts="*i64", ends="*i64", result="*real", rows="i64", columns="i32", segments="i32", lanes="i32", width="i32",
        threads=MOST,
    )  # fmt: skip
    kernels = {}
    for size, real in ((4, float32), (8, float64)):
        own = {name: str(kind).replace("real", f"fp{8 * size}") for name, kind in {**shared, **types}.items()}
        kernels[size] = simt_kernel(most=MOST, variants=[{**own, "threads": MOST}])(make(real))
    return kernels


reduce_segments = _kernels(_reducer, values="*real", kind="i32", pieces="i32")
spread_segments = _kernels(_spreader, g="*real", pieces="i32")
segment_gradients = _kernels(_gradient, g="*real", values="*real", output="*real", product="i1")


def kernels_to_check() -> list[Any]:
    kernels = [
        *reduce_segments.values(),
        *spread_segments.values(),
        *segment_gradients.values(),
    ]
    return [(kernel, variant) for kernel in kernels for variant in kernel.kernel.variants]
