"""Variance and standard deviation of NumPy arrays, in two passes (mean, then squared distances), in float32 for half types."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.kernels.reductions_cpu import count_of, widened

_REAL = {"F": numpy.dtype(numpy.float32), "D": numpy.dtype(numpy.float64)}


def var_forward(input: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    return _variance(input, dim, correction, keepdim).astype(_REAL.get(input.dtype.char, input.dtype), copy=False)


def std_forward(input: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    return numpy.sqrt(_variance(input, dim, correction, keepdim)).astype(
        _REAL.get(input.dtype.char, input.dtype), copy=False
    )


def _variance(input: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    wide = widened(input)
    count = count_of(input.shape, dim)
    mean = numpy.add.reduce(wide, dim, None, None, True)
    mean = mean / wide.dtype.type(count or 1)
    distance = wide - mean
    if wide.dtype.kind == "c":
        squares = distance.real * distance.real
        squares += distance.imag * distance.imag
    else:
        squares = numpy.multiply(distance, distance, distance if distance.ndim else None)
    total = numpy.add.reduce(squares, dim, None, None, keepdim)
    freedom = max(count - correction, 0)
    if freedom:
        return total / total.dtype.type(freedom)
    with numpy.errstate(divide="ignore", invalid="ignore"):
        return total / total.dtype.type(0)
