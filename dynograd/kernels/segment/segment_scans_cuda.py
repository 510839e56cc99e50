"""What goes along the rows of segments, on CudaArrays (M, D) of float32 and float64; see `segment_scans_simt`."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.kernels.layout.copies_cuda import contiguous, zeros
from dynograd.kernels.segment import segment_scans_simt as kernels

_BLOCK = 128  # threads


def scan_segments(
    values: CudaArray, starts: CudaArray, ends: CudaArray, join: str, backwards: bool = False
) -> CudaArray:
    """(M, D): the running "sum" or "prod" of each segment's rows, from its last row on with `backwards`; 0 in rows of no segment."""
    return _along(kernels.scan_segments, [values], starts, ends, join == "prod", bool(backwards))


def log_scan_segments(values: CudaArray, starts: CudaArray, ends: CudaArray) -> CudaArray:
    """(M, D): the logarithm of the running sum of exp of each segment's rows."""
    return _along(kernels.log_scan_segments, [values], starts, ends)


def recur_segments(
    values: CudaArray, decay: CudaArray, starts: CudaArray, ends: CudaArray, backwards: bool
) -> CudaArray:
    """(M, D): r[k] = given[k] + decay[k] * r[k - 1] along each segment; with `backwards` r[k + 1], from its last row on."""
    return _along(kernels.recur_segments, [values, decay], starts, ends, bool(backwards))


def move_segments(values: CudaArray, starts: CudaArray, ends: CudaArray, step: int, fill: int) -> CudaArray:
    """(M, D): each row `step` rows further along its segment, `fill` where none arrives."""
    return _along(kernels.move_segments, [values], starts, ends, int(step), int(fill))


def running_places(values: CudaArray, starts: CudaArray, ends: CudaArray, largest: bool) -> CudaArray:
    """(M, D) int64: where in its segment the largest (smallest) row so far is."""
    return _along(kernels.running_places, [values], starts, ends, largest, kind=numpy.dtype(numpy.int64))


def _along(
    run: Any, operands: list[CudaArray], starts: CudaArray, ends: CudaArray, *options: Any, kind: Any = None
) -> CudaArray:
    values = operands[0]
    rows, columns = values.shape
    segments = starts.shape[0]
    result = zeros(values.shape, kind or values.dtype, values.device_index)
    if result.size and segments:
        run[values.itemsize](
            (-(-segments * columns // _BLOCK),), _BLOCK, *[contiguous(array) for array in operands], contiguous(starts), contiguous(ends),
            result, *options, rows, columns, segments,
        )  # fmt: skip
    return result
