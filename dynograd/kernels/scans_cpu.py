"""Running sums, products and extremes along one dim of NumPy arrays; half types are accumulated in float32."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.kernels.reductions_cpu import widened


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
    return numpy.array(input[_flip(dim)], order="C")


def cumsum(input: Any, dim: int, reverse: bool) -> Any:
    """The sum up to each place, or from each place on when `reverse`."""
    return _accumulate(numpy.add, widened(input), dim, reverse).astype(input.dtype, copy=False)


def cumprod_forward(input: Any, dim: int) -> Any:
    return _accumulate(numpy.multiply, widened(input), dim).astype(input.dtype, copy=False)


def cumprod_backward(g: Any, input: Any, output: Any, dim: int) -> Any:
    """By division where there is no zero, else by the recurrence of `ops/scans.py`."""
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
    """r[k] = input[k] + decay[k] * r[k + 1], from the end on; each pass joins stretches of twice the length."""
    out, factor = widened(input).copy(), widened(decay).copy()
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
    values = _accumulate(function, wide, dim)
    hits = (wide == values) | (wide != wide)
    shape = [1] * wide.ndim
    shape[dim] = wide.shape[dim]
    places = numpy.arange(wide.shape[dim], dtype=numpy.int64).reshape(shape)
    indices = _accumulate(numpy.maximum, numpy.where(hits, places, 0), dim)
    return values.astype(input.dtype, copy=False), indices


def logcumsumexp_forward(input: Any, dim: int) -> Any:
    return _accumulate(numpy.logaddexp, widened(input), dim).astype(input.dtype, copy=False)
