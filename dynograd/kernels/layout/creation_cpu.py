"""Counted and patterned new arrays."""

from __future__ import annotations

from typing import Any

import numpy

_INT64 = numpy.dtype(numpy.int64)


def counted(start: int, end: int, step: int) -> Any:
    """int64 from `start` in steps up to `end`."""
    return numpy.arange(start, end, step, _INT64)


def arange(start: Any, step: Any, count: int, dtype: Any) -> Any:
    if isinstance(start, int) and isinstance(step, int):
        return (numpy.arange(count, dtype=numpy.int64) * step + start).astype(dtype)
    return (numpy.arange(count, dtype=numpy.float64) * step + start).astype(dtype)


def linspace(start: Any, end: Any, steps: int, dtype: Any) -> Any:
    """From the start up to the middle, from the end down to it: whole numbers are cut off the same way from both sides."""
    if dtype.kind in "iu" and steps > 1:
        places, step = numpy.arange(steps), (end - start) / (steps - 1)
        return numpy.where(places < steps // 2, start + step * places, end - step * places[::-1]).astype(dtype)
    if dtype.kind == "c":
        return numpy.linspace(start, end, steps, dtype=numpy.complex128).astype(dtype)
    if dtype.char == "f" and steps > 1:
        return _linspace_in_float32(start, end, steps)
    numbers = numpy.arange(steps, dtype=numpy.float64)  # as `numpy.linspace` does it, without its questions
    if steps > 1:
        step = (end - start) / (steps - 1)
        if step:
            numbers *= step
        else:
            numbers /= steps - 1
            numbers *= end - start
        numbers += start
        numbers[-1] = end
    else:
        numbers += start
    return numbers.astype(dtype)


def _linspace_in_float32(start: Any, end: Any, steps: int) -> Any:
    """PyTorch's numbers: the step is rounded, and counted from the nearer end."""
    start, end = numpy.float32(start), numpy.float32(end)
    step = numpy.float64((end - start) / numpy.float32(steps - 1))
    numbers = numpy.arange(steps, dtype=numpy.float64)
    before = steps // 2
    numbers[:before] *= step
    numbers[:before] += start
    numbers[before:] -= steps - 1
    numbers[before:] *= step
    numbers[before:] += end
    return numbers.astype(numpy.float32)


def eye(rows: int, columns: int, dtype: Any) -> Any:
    matrix = numpy.zeros((rows, columns), dtype)
    matrix.reshape(-1)[: columns * columns : columns + 1] = 1
    return matrix


def orthogonal(matrix: Any) -> Any:
    """The orthogonal factor of `matrix`, with the sign that makes it uniformly distributed."""
    rows, columns = matrix.shape
    wide = matrix.astype(numpy.float64)
    q, r = numpy.linalg.qr(wide.T if rows < columns else wide)
    q = q * numpy.sign(numpy.diagonal(r))
    return (q.T if rows < columns else q).astype(matrix.dtype)
