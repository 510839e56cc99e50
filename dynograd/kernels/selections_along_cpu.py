"""One element per place along a dim, and back: gathers whose indices have been checked, and that name no element twice or may."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.kernels.reductions_cpu import is_half


def take_along(input: Any, index: Any, dim: int) -> Any:
    """input[..., index[..., k, ...], ...]; sizes other than that of `dim` are equal."""
    return numpy.take_along_axis(input, index, dim)


def put_along(g: Any, index: Any, dim: int, size: int, distinct: bool) -> Any:
    """Zeros with `size` elements along `dim` that hold `g` at `index`, or the sum of what falls together."""
    shape = (*g.shape[:dim], size, *g.shape[dim + 1 :])
    if distinct:
        out = numpy.zeros(shape, g.dtype)
        if out.size and g.size:
            numpy.put_along_axis(out, index, g, dim)
        return out
    wide = numpy.float32 if is_half(g.dtype) else g.dtype
    out = numpy.zeros((*shape[:dim], *shape[dim + 1 :], size), wide)
    rows = numpy.arange(out.size // size if size else 0, dtype=numpy.int64).reshape((*out.shape[:-1], 1)) * size
    numpy.add.at(out.reshape(-1), rows + numpy.moveaxis(index, dim, -1), numpy.moveaxis(g, dim, -1).astype(wide, copy=False))
    return numpy.moveaxis(out, -1, dim).astype(g.dtype, order="C", copy=False)
