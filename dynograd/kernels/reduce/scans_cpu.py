"""Running sums, products and extremes along one dim of NumPy arrays; half types are accumulated in float32."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy

from dynograd.arrays import buffers
from dynograd.kernels.build import threads
from dynograd.kernels.build.sizes import COMPILED_PASS
from dynograd.kernels.layout.copies_cpu import contiguous, copied
from dynograd.kernels.reduce.reductions_cpu import widened
from dynograd.kernels.small import few_cpu

_STRETCH = 4096  # elements of a part of a long row: 16 KiB of float32, half of the first cache
_WIDER = {"f": numpy.dtype(numpy.float64), "d": numpy.dtype(numpy.float64), "l": numpy.dtype(numpy.int64)}


def _flip(dim: int) -> tuple:
    return (*(slice(None),) * dim, slice(None, None, -1))


def _accumulate(function: Any, input: Any, dim: int, reverse: bool = False) -> Any:
    if not input.ndim:
        return input.copy()
    out = numpy.empty(input.shape, input.dtype)
    key = _flip(dim) if reverse else ...
    source, target = input[key], out[key]
    if dim == input.ndim - 1 or input.size < 64 * input.shape[dim]:
        function.accumulate(source, dim, None, target)
        return out
    # NumPy goes down each column; whole rows at a time are 5x faster.
    source, target = source.swapaxes(0, dim), target.swapaxes(0, dim)
    target[:1] = source[:1]
    for place in range(1, len(source)):
        function(target[place - 1], source[place], target[place])
    return out


def reversed_along(input: Any, dim: int) -> Any:
    return copied(input[_flip(dim)])


def cumsum(input: Any, dim: int, reverse: bool = False) -> Any:
    """The sum up to each place, or from each place on when `reverse`."""
    if not reverse and input.size < COMPILED_PASS:
        result = few_cpu.cumsum(input, dim)
        if result is not None:
            return result
    wide = _wide_enough(input)
    if _compiles(wide):
        return _running("sum", contiguous(wide), dim, reverse).astype(input.dtype, copy=False)
    return _accumulate(numpy.add, wide, dim, reverse).astype(input.dtype, copy=False)


def _wide_enough(input: Any) -> Any:
    """What is accumulated without a compiled pass: as that, in float64."""
    wide = widened(input)
    return wide.astype(numpy.float64) if wide.size < COMPILED_PASS and wide.dtype.char == "f" else wide


def _compiles(wide: Any) -> bool:
    return wide.size >= COMPILED_PASS and wide.dtype.char in _WIDER


def _running(join: str, x: Any, dim: int, reverse: bool) -> Any:
    from dynograd.kernels.reduce import scans_numba

    outer, n, inner = prod(x.shape[:dim]), x.shape[dim], prod(x.shape[dim + 1 :])
    kind = _WIDER[x.dtype.char]
    result = buffers.empty(x.shape, x.dtype)
    flat, out = x.reshape(-1), result.reshape(-1)
    if inner > 1:
        count = outer * -(-inner // 512)
        first = kind.type(join == "prod")
        scans_numba.columns(join)(flat, n, inner, reverse, first, out, count=count, work=2 * x.size)
        return result
    # products are not cut: one stretch may overflow behind a zero
    abreast = join == "prod" or x.dtype.kind == "f"
    cut = join == "sum" and (abreast or threads.parts(2 * x.size) > 1)  # whole numbers come out the same
    stretches = -(-n // _STRETCH) if cut else 1
    carry = numpy.full(outer * stretches, join == "prod", kind)
    if stretches > 1:
        from dynograd.kernels.reduce.reductions_numba import rows

        lines = contiguous(x[_flip(dim)]).reshape(-1) if reverse else flat
        rows("sum", "same")(lines, n, _STRETCH, stretches, carry, count=carry.size, work=x.size // 2)
        table = carry.reshape(outer, stretches)
        table[:, 1:] = numpy.add.accumulate(table[:, :-1], 1)
        table[:, 0] = 0
    length = n if stretches == 1 else _STRETCH
    run = scans_numba.sums_of_floats if join == "sum" and x.dtype.char == "f" else scans_numba.rows(join, abreast)
    run(flat, n, length, stretches, reverse, carry, out, count=carry.size, work=2 * x.size)
    return result


def cumprod_forward(input: Any, dim: int) -> Any:
    wide = _wide_enough(input)
    if _compiles(wide):
        return _running("prod", contiguous(wide), dim, False).astype(input.dtype, copy=False)
    return _accumulate(numpy.multiply, wide, dim).astype(input.dtype, copy=False)


def cumprod_backward(g: Any, input: Any, output: Any, dim: int) -> Any:
    """By division where there is no zero, else by the recurrence of `ops/reduce/scans.py`."""
    kind = input.dtype
    wide = widened(input)
    if wide.all():
        sums = cumsum(widened(g) * widened(output).conj(), dim, True)
        return (sums / wide.conj()).astype(kind, copy=False)
    if not wide.ndim:
        return g
    lead = (slice(None),) * dim
    decay = numpy.zeros(wide.shape, wide.dtype)
    decay[(*lead, slice(None, -1))] = wide[(*lead, slice(1, None))].conj()
    return (behind_one(widened(output), dim).conj() * recurrence(widened(g), decay, dim)).astype(kind, copy=False)


def behind_one(input: Any, dim: int) -> Any:
    """1, and behind it all elements along `dim` but the last."""
    out = numpy.ones(input.shape, input.dtype)
    lead = (slice(None),) * dim
    out[(*lead, slice(1, None))] = input[(*lead, slice(None, -1))]
    return out


def recurrence(input: Any, decay: Any, dim: int) -> Any:
    """r[k] = input[k] + decay[k] * r[k + 1], from the end on; in NumPy each pass joins stretches of twice the length."""
    wide, factor = widened(input), widened(decay)
    if wide.size >= 256 and wide.dtype.kind == "f" and wide.dtype == factor.dtype:
        from dynograd.kernels.reduce import scans_numba

        x, factor = contiguous(wide), contiguous(factor)
        outer, n, inner = prod(x.shape[:dim]), x.shape[dim], prod(x.shape[dim + 1 :])
        result = buffers.empty(x.shape, x.dtype)
        operands = x.reshape(-1), factor.reshape(-1), n, inner, result.reshape(-1)
        scans_numba.recurrence(*operands, count=outer * inner, work=4 * x.size)
        return result.astype(input.dtype, copy=False)
    out, factor = wide.copy(), factor.copy()
    if not out.ndim:
        return out.astype(input.dtype, copy=False)
    step, size = 1, out.shape[dim]
    lead = (slice(None),) * dim
    while step < size:
        near, far = (*lead, slice(None, -step)), (*lead, slice(step, None))
        out[near] += factor[near] * out[far]
        factor[near] = factor[near] * factor[far]
        factor[(*lead, slice(-step, None))] = 0
        step *= 2
    return out.astype(input.dtype, copy=False)


def cummax(input: Any, dim: int) -> Any:
    """(values, indices) of the largest so far; of equals the last, and NaN stays."""
    return _running_extreme(numpy.maximum, input, dim)


def cummin(input: Any, dim: int) -> Any:
    """(values, indices) of the smallest so far; of equals the last, and NaN stays."""
    return _running_extreme(numpy.minimum, input, dim)


def _running_extreme(function: Any, input: Any, dim: int) -> Any:
    if not input.ndim:
        return input.copy(), numpy.zeros((), numpy.int64)
    wide = widened(input)
    if wide.size >= 64 and wide.dtype.char in _WIDER:
        return _compiled_extreme(function is numpy.maximum, wide, input.dtype, dim)
    values = _accumulate(function, wide, dim)
    hits = (wide == values) | (wide != wide)
    shape = [1] * wide.ndim
    shape[dim] = wide.shape[dim]
    places = numpy.arange(wide.shape[dim], dtype=numpy.int64).reshape(shape)
    indices = _accumulate(numpy.maximum, numpy.where(hits, places, 0), dim)
    return values.astype(input.dtype, copy=False), indices


def _compiled_extreme(largest: bool, wide: Any, kind: Any, dim: int) -> Any:
    from dynograd.kernels.reduce import scans_numba

    x = contiguous(wide)
    outer, n, inner = prod(x.shape[:dim]), x.shape[dim], prod(x.shape[dim + 1 :])
    values, places = buffers.empty(x.shape, x.dtype), buffers.empty(x.shape, numpy.int64)
    flat, out, where = x.reshape(-1), values.reshape(-1), places.reshape(-1)
    if inner == 1:
        scans_numba.extreme_rows(flat, n, largest, out, where, count=outer, work=4 * x.size)
    else:
        count = outer * -(-inner // 512)
        scans_numba.extreme_columns(flat, n, inner, largest, out, where, count=count, work=2 * x.size)
    return values.astype(kind, copy=False), places


def logcumsumexp_forward(input: Any, dim: int) -> Any:
    wide = widened(input)
    if wide.size >= 256 and wide.dtype.kind == "f":
        from dynograd.kernels.reduce.scans_numba import logcumsumexp

        x = contiguous(wide)
        outer, n, inner = prod(x.shape[:dim]), x.shape[dim], prod(x.shape[dim + 1 :])
        result = buffers.empty(x.shape, x.dtype)
        logcumsumexp(x.reshape(-1), n, inner, result.reshape(-1), count=outer * inner, work=32 * x.size)
        return result.astype(input.dtype, copy=False)
    return _accumulate(numpy.logaddexp, _wide_enough(input), dim).astype(input.dtype, copy=False)
