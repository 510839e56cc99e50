"""Counted and patterned new arrays."""

from __future__ import annotations

from typing import Any

import numpy


def arange(start: Any, step: Any, count: int, dtype: Any) -> Any:
    if isinstance(start, int) and isinstance(step, int):
        return (numpy.arange(count, dtype=numpy.int64) * step + start).astype(dtype)
    return (numpy.arange(count, dtype=numpy.float64) * step + start).astype(dtype)


def linspace(start: Any, end: Any, steps: int, dtype: Any) -> Any:
    """From the start up to the middle, from the end down to it: whole numbers are cut off the same way from both sides."""
    if dtype.kind in "iu" and steps > 1:
        places, step = numpy.arange(steps), (end - start) / (steps - 1)
        return numpy.where(places < steps // 2, start + step * places, end - step * places[::-1]).astype(dtype)
    made = numpy.linspace(start, end, steps, dtype=numpy.complex128 if dtype.kind == "c" else numpy.float64)
    return made.astype(dtype)


def eye(rows: int, columns: int, dtype: Any) -> Any:
    return numpy.eye(rows, columns).astype(dtype)


def orthogonal(matrix: Any) -> Any:
    """The orthogonal factor of `matrix`, with the sign that makes it uniformly distributed."""
    rows, columns = matrix.shape
    wide = matrix.astype(numpy.float64)
    q, r = numpy.linalg.qr(wide.T if rows < columns else wide)
    q = q * numpy.sign(numpy.diagonal(r))
    return (q.T if rows < columns else q).astype(matrix.dtype)
