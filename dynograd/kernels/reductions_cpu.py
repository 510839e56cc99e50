"""Reductions on NumPy arrays. Half types are summed in float32."""

from __future__ import annotations

from typing import Any

import numpy

_halves = {numpy.dtype(numpy.float16).num}
_add_reduce = numpy.add.reduce


def sum(input: Any, dim: Any, keepdim: bool) -> Any:
    kind = input.dtype
    if kind.kind == "V" or kind.num in _halves:
        return _add_reduce(input.astype(numpy.float32), dim, None, None, keepdim).astype(kind)
    return _add_reduce(input, dim, None, None, keepdim)


def sum_to(input: Any, shape: tuple[int, ...]) -> Any:
    lead = input.ndim - len(shape)
    if lead > 0:
        input = sum(input, 0 if lead == 1 else tuple(range(lead)), False)
    dims = tuple([place for place, size in enumerate(shape) if size == 1 and input.shape[place] != 1])
    return sum(input, dims, True) if dims else input
