"""Running sums, products and extremes along one dim of CudaArrays; half types are accumulated in float32."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import operations
from dynograd.kernels.elementwise.loops_cuda import triton_type
from dynograd.kernels.layout.copies_cuda import contiguous
from dynograd.kernels.reduce import scans_triton as device
from dynograd.kernels.reduce.reducing_cuda import computed, cut, first_of, in_three, reduced, tiles, widened

_INT64, _INT32 = numpy.dtype(numpy.int64), numpy.dtype(numpy.int32)
_TILE = 2048  # elements that a program scans at a time
_TOPS = 128  # segments before its own that a program looks at at a time


def reversed_along(input: Any, dim: int) -> Any:
    return _flipped(input, dim).copy()


def _flipped(input: Any, dim: int) -> Any:
    return input[(*(slice(None),) * dim, slice(None, None, -1))]


def cumsum(input: Any, dim: int, reverse: bool = False) -> Any:
    """The sum up to each place, or from each place on when `reverse`."""
    return _running("sum", input, dim, reverse)


def cumprod_forward(input: Any, dim: int) -> Any:
    return _running("prod", input, dim, False)


def _running(op: str, input: Any, dim: int, reverse: bool) -> Any:
    if not input.ndim:
        return input.copy()
    x = contiguous(input)
    outer, n, inner = in_three(x.shape, dim % x.ndim)
    result = cuda_arrays.empty(x.shape, x.dtype, x.device_index)
    compute = _compute(x.dtype)
    rows, block, blocks, programs = tiles(outer, n, inner, _TILE // (2 if compute.itemsize == 8 else 1))
    # products are not cut: one segment may overflow behind a zero
    segment, splits = cut(n, block, programs) if op == "sum" and inner == 1 else (n, 1)
    carry = result
    if splits > 1:
        carry = _starts(x, outer, n, segment, splits, reverse, compute)
    device.running(
        (programs, splits), x, carry, result, outer, n, inner, blocks, splits, segment,
        REVERSE=reverse, OP=op, CARRIED=splits > 1, ACC=triton_type(compute), INNER=inner > 1, ROWS=rows, BLOCK=block,
    )  # fmt: skip
    return result


def _starts(x: Any, outer: int, n: int, segment: int, splits: int, reverse: bool, compute: Any) -> Any:
    """(outer, splits): the sum of what stands before each segment, counted from the end when `reverse`."""
    rows = x.reshape((outer, n))
    whole = (splits - 1) * segment
    sums = cuda_arrays.empty((outer, splits), compute, x.device_index)
    sums[:, 0] = 0
    if reverse:
        body = rows[:, n - whole :]
        result = reduced("sum", body.reshape((outer, splits - 1, segment)), 2, False, compute, compute)
        result = _flipped(result, 1)
    else:
        result = reduced("sum", rows[:, :whole].reshape((outer, splits - 1, segment)), 2, False, compute, compute)
    sums[:, 1:] = result
    return _running("sum", sums, 1, False)


def _compute(kind: Any) -> Any:
    if kind.kind in "iub":
        return _INT64 if kind.itemsize == 8 else _INT32
    return computed(kind)


def cumprod_backward(g: Any, input: Any, output: Any, dim: int) -> Any:
    """By the recurrence of `ops/reduce/scans.py`, which is right with zeros too; the host does not wait to find out whether there are."""
    if not input.ndim:
        return g
    dim %= input.ndim
    wide = widened(input)
    decay = cuda_arrays.empty(wide.shape, wide.dtype, wide.device_index)
    lead = (slice(None),) * dim
    decay[(*lead, slice(None, -1))] = wide[(*lead, slice(1, None))]
    decay[(*lead, slice(-1, None))] = 0
    result = behind_one(widened(output), dim) * recurrence(widened(g), decay, dim)
    return result.astype(input.dtype, copy=False)


def behind_one(input: Any, dim: int) -> Any:
    """1, and behind it all elements along `dim` but the last."""
    result = cuda_arrays.empty(input.shape, input.dtype, input.device_index)
    lead = (slice(None),) * dim
    result[(*lead, slice(None, 1))] = 1
    result[(*lead, slice(1, None))] = input[(*lead, slice(None, -1))]
    return result


def recurrence(input: Any, decay: Any, dim: int) -> Any:
    """r[k] = input[k] + decay[k] * r[k + 1], from the end on."""
    if not input.ndim:
        return input.copy()
    x, factors = (contiguous(operand) for operand in (input, decay))
    outer, n, inner = in_three(x.shape, dim % x.ndim)
    result = cuda_arrays.empty(x.shape, x.dtype, x.device_index)
    rows, block, blocks, programs = tiles(outer, n, inner, _TILE // 2)
    device.recurrence(
        (programs,), x, factors, result, outer, n, inner, blocks,
        ACC=triton_type(computed(x.dtype)), INNER=inner > 1, ROWS=rows, BLOCK=block,
    )  # fmt: skip
    return result


def cummax(input: Any, dim: int) -> Any:
    """(values, indices) of the largest so far; of equals the last, and NaN stays."""
    return _running_extreme(True, input, dim)


def cummin(input: Any, dim: int) -> Any:
    """(values, indices) of the smallest so far; of equals the last, and NaN stays."""
    return _running_extreme(False, input, dim)


def _running_extreme(largest: bool, input: Any, dim: int) -> Any:
    places = cuda_arrays.empty(input.shape, _INT64, input.device_index)
    if not input.ndim:
        operations.fill(places, 0)
        return input.copy(), places
    x = contiguous(input)
    outer, n, inner = in_three(x.shape, dim % x.ndim)
    result = cuda_arrays.empty(x.shape, x.dtype, x.device_index)
    compute = _compute(x.dtype)
    rows, block, blocks, programs = tiles(outer, n, inner, _TILE // 2)
    segment, splits = cut(n, block, programs) if inner == 1 else (n, 1)
    tops, top_places = result, places
    if splits > 1:
        tops, top_places = (cuda_arrays.empty((outer, splits), kind, x.device_index) for kind in (compute, _INT32))
    for phase in (0,) if splits == 1 else (1, 2):
        device.running_extreme(
            (programs, splits), x, tops, top_places, result, places, outer, n, inner, blocks, splits, segment,
            FIRST=first_of("max" if largest else "min", compute), GREATEST=largest, PHASE=phase, TOPS=_TOPS, ACC=triton_type(compute),
            INNER=inner > 1, ROWS=rows, BLOCK=block,
        )  # fmt: skip
    return result, places


def logcumsumexp_forward(input: Any, dim: int) -> Any:
    if not input.ndim:
        return input.copy()
    x = contiguous(input)
    outer, n, inner = in_three(x.shape, dim % x.ndim)
    result = cuda_arrays.empty(x.shape, x.dtype, x.device_index)
    compute = computed(x.dtype)
    rows, block, blocks, programs = tiles(outer, n, inner, _TILE // (4 if compute.itemsize == 8 else 2))
    segment, splits = cut(n, block, programs) if inner == 1 else (n, 1)
    tops = totals = result
    if splits > 1:
        tops, totals = (cuda_arrays.empty((outer, splits), compute, x.device_index) for _ in range(2))
    for phase in (0,) if splits == 1 else (1, 2):
        device.running_logarithm(
            (programs, splits), x, tops, totals, result, outer, n, inner, blocks, splits, segment,
            PHASE=phase, TOPS=_TOPS, ACC=triton_type(compute), INNER=inner > 1, ROWS=rows, BLOCK=block,
        )  # fmt: skip
    return result
