"""Reductions over segments of rows, and rows repeated over segments, on CudaArrays (M, D); see `segments_simt`. Results repeat.

The host knows no lengths: how many threads share a segment follows from the mean length. Few long segments are cut into pieces.
"""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import CudaArray, from_numpy, operations
from dynograd.kernels import kernel
from dynograd.kernels.layout.copies_cuda import contiguous, zeros
from dynograd.kernels.segment import segments_simt as kernels

_KINDS = {"sum": 0, "prod": 1, "max": 2, "min": 3}
_BLOCK = 256  # threads, or more for long segments
_BLOCKS = 512  # enough for a card: with fewer segments, these are cut
_PIECE = 4096  # rows of a piece, at least
_EACH = 4  # rows of a thread, about


def reduce_segments(values: CudaArray, starts: CudaArray, ends: CudaArray, kind: str) -> CudaArray:
    """(K, D): the "sum", "prod", "max" or "min" of each segment's rows; 0, 1, -inf or inf of none."""
    rows, columns = values.shape
    segments, device = starts.shape[0], values.device_index
    result = cuda_arrays.empty((segments, columns), values.dtype, device)
    if not result.size:
        return result
    mean, pieces = rows // segments, _pieces(segments, rows)
    parts = result if pieces == 1 else cuda_arrays.empty((segments * pieces, columns), values.dtype, device)
    grid, threads, lanes, width = _shape(segments * pieces, mean // pieces, columns)
    kernels.reduce_segments[values.itemsize](
        grid, threads, contiguous(values), contiguous(starts), contiguous(ends), parts, _KINDS[kind], rows, columns, segments,
        pieces, lanes, width, shared=threads * values.itemsize,
    )  # fmt: skip
    if pieces == 1:
        return result
    bounds = numpy.arange(segments + 1) * pieces
    return reduce_segments(parts, from_numpy(bounds[:-1], device), from_numpy(bounds[1:], device), kind)


def spread_segments(g: CudaArray, starts: CudaArray, ends: CudaArray, rows: int) -> CudaArray:
    """(rows, D): row k of `g` in each row of segment k, zeros in rows of no segment."""
    segments, columns = g.shape
    result = zeros((rows, columns), g.dtype, g.device_index)
    if result.size and segments:
        pieces = _pieces(segments, rows)
        grid, threads, lanes, width = _shape(segments * pieces, rows // segments // pieces, columns)
        kernels.spread_segments[g.itemsize](
            grid, threads, contiguous(g), contiguous(starts), contiguous(ends), result, rows, columns, segments, pieces, lanes,
            width,
        )  # fmt: skip
    return result


def softmax_segments(values: CudaArray, starts: CudaArray, ends: CudaArray) -> CudaArray:
    """(M, D): exp(values), scaled to sum to 1 over each segment's rows; 0 in rows of no segment."""
    rows = values.shape[0]
    top = spread_segments(reduce_segments(values, starts, ends, "max"), starts, ends, rows)
    powers = kernel("elementwise", "exp", values)(kernel("elementwise", "sub", values)(values, top))
    sums = spread_segments(reduce_segments(powers, starts, ends, "sum"), starts, ends, rows)
    return kernel("elementwise", "div", values)(powers, sums)


def softmax_gradients(g: CudaArray, output: CudaArray, starts: CudaArray, ends: CudaArray) -> CudaArray:
    """(M, D): gradient of the values of which `output` is `softmax_segments`."""
    mean = spread_segments(reduce_segments(g * output, starts, ends, "sum"), starts, ends, output.shape[0])
    return output * (g - mean)


def log_sum_gradients(
    g: CudaArray, values: CudaArray, output: CudaArray, starts: CudaArray, ends: CudaArray
) -> CudaArray:
    """(M, D): gradient of the values of which `output` (K, D) are `log_sums`; 0 in segments that are -inf as a whole."""
    rows = values.shape[0]
    level = operations.elementwise("where", operations.elementwise("isinf", output) & (output < 0), 0.0, output)
    shares = operations.elementwise("exp", values - spread_segments(level, starts, ends, rows))
    return shares * spread_segments(g, starts, ends, rows)


def combine(values: CudaArray, g: CudaArray, starts: CudaArray, ends: CudaArray, how: str) -> CudaArray:
    """(M, D): each row of segment k with row k of `g` (K, D) or (K, 1); `how`: "add", "mul" or "div". 0 in rows of no segment."""
    rows = values.shape[0]
    result = operations.elementwise(how, values, spread_segments(g, starts, ends, rows))
    ones = operations.elementwise("add", zeros((starts.shape[0], 1), values.dtype, values.device_index), 1)
    inside = spread_segments(ones, starts, ends, rows)
    return operations.elementwise("where", inside > 0, result, 0.0)


def squares(values: CudaArray, starts: CudaArray, ends: CudaArray, centered: bool) -> CudaArray:
    """(K, D): the sum of the squares of each segment's rows, of their distances from its mean with `centered`."""
    if centered:
        lengths = (ends - starts).reshape((starts.shape[0], 1))
        lengths = operations.elementwise("maximum", lengths, 1).astype(values.dtype)
        means = reduce_segments(values, starts, ends, "sum") / lengths
        values = values - spread_segments(means, starts, ends, values.shape[0])
    return reduce_segments(values * values, starts, ends, "sum")


def log_sums(values: CudaArray, starts: CudaArray, ends: CudaArray) -> CudaArray:
    """(K, D): the logarithm of the sum of exp of each segment's rows; -inf of none."""
    top = reduce_segments(values, starts, ends, "max")
    level = operations.elementwise("where", operations.elementwise("isinf", top), 0.0, top)
    powers = operations.elementwise("exp", values - spread_segments(level, starts, ends, values.shape[0]))
    return operations.elementwise("log", reduce_segments(powers, starts, ends, "sum")) + level


def segment_gradients(
    g: CudaArray, values: CudaArray, output: CudaArray | None, starts: CudaArray, ends: CudaArray, kind: str
) -> CudaArray:
    """(M, D): gradient of the values of which `output` (K, D) are the segments' "max" or "min"; of "prod" without it."""
    rows, columns = values.shape
    segments = starts.shape[0]
    result = zeros(values.shape, values.dtype, values.device_index)
    if result.size and segments:
        grid, threads, lanes, width = _shape(segments, rows // segments, columns)
        g, values, starts, ends = map(contiguous, (g, values, starts, ends))
        kernels.segment_gradients[values.itemsize](
            grid, threads, g, values, g if output is None else contiguous(output), starts, ends, result, kind == "prod", rows,
            columns, segments, lanes, width, shared=threads * values.itemsize,
        )  # fmt: skip
    return result


def halved(starts: CudaArray, ends: CudaArray, rows: int) -> tuple[Any, ...]:
    """As on the CPU; the host waits for the bounds. Only derivatives of second order of products need it."""
    from dynograd.kernels.segment import segments_cpu

    *lists, longest = segments_cpu.halved(starts.numpy(), ends.numpy(), rows)
    return (*[from_numpy(numbers, starts.device_index) for numbers in lists], longest)


def _pieces(segments: int, rows: int) -> int:
    """Into how many pieces to cut each segment."""
    return max(1, min(rows // segments // _PIECE, _BLOCKS // segments))


def _shape(items: int, mean: int, columns: int) -> tuple[tuple[int, int], int, int, int]:
    """(grid, threads of a block, threads of an item, columns side by side) for items of so many rows; all but the grid powers of 2."""
    width = min(_power(columns), _BLOCK)
    most = kernels.MOST if items < _BLOCKS else _BLOCK
    lanes = max(width, min(_power(-(-mean // _EACH)) * width, most))
    threads = max(lanes, min(_BLOCK, _power(items) * lanes))
    return (-(-items // (threads // lanes)), -(-columns // width)), threads, lanes, width


def _power(count: int) -> int:
    """The power of 2 that is no less, and not 0."""
    return 1 << max(count - 1, 0).bit_length()
