"""Resizing along one dim: the sparse matrix of the kernels, which sizes alone decide, or copies where each place is taken as it is."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy

from dynograd.kernels.build.launches import Launch
from dynograd.kernels.image import interpolations_cpu
from dynograd.plans.calls import Call
from dynograd.plans.lowering import layouts
from dynograd.plans.lowering.forms import Lowered, arguments_of, form

__all__: list[str] = []


@form("op", "resample")
def _resampled(call: Call) -> Lowered | None:
    return _forward(arguments_of(call), call.outputs[0])


@form("op", "resample_back")
def _back(call: Call) -> Lowered | None:
    return _backward(arguments_of(call), call.outputs[0])


@form("rule", "resample", "resample_back")
def _rule(call: Call) -> Lowered | None:
    """The one is the transpose of the other."""
    node, g, target = call.node, call.inputs[0], call.outputs[0]
    if target is None:
        return Lowered()
    dim, _, *others = node.attrs
    arguments = dict(zip(("rule", "align_corners", "scale"), others)) | {"dim": dim}
    if call.name == "resample":
        return _backward(arguments | {"g": g, "size": target.shape[dim]}, target)
    return _forward(arguments | {"input": g, "count": target.shape[dim]}, target)


def _forward(arguments: dict[str, Any], target: Any) -> Lowered | None:
    x, dim, count = arguments["input"], arguments["dim"], arguments["count"]
    how, align, scale = arguments["rule"], arguments["align_corners"], arguments["scale"]
    if how.startswith("nearest") and not how.endswith("antialias"):
        return _taken(x, dim, interpolations_cpu.nearest(x.shape[dim], count, how, scale), target)
    return _weighted(x, dim, interpolations_cpu.matrix(x.shape[dim], count, how, align, scale), target)


def _backward(arguments: dict[str, Any], target: Any) -> Lowered | None:
    g, dim, size = arguments["g"], arguments["dim"], arguments["size"]
    how, align, scale = arguments["rule"], arguments["align_corners"], arguments["scale"]
    return _weighted(g, dim, interpolations_cpu.transposed(size, g.shape[dim], how, align, scale), target)


def _taken(x: Any, dim: int, places: Any, target: Any) -> Lowered | None:
    """Each place several times over: one copy. Else those that are taken, by index."""
    from dynograd.kernels.index.picks_numba import pick_rows

    size, count, inner = x.shape[dim], len(places), prod(x.shape[dim + 1 :])
    if x.dtype != target.dtype or x.itemsize not in (1, 2, 4, 8) or not target.flags.c_contiguous or not target.size:
        return None
    if count % size == 0 and numpy.array_equal(places, numpy.arange(count) // (count // size)):
        shape = (*x.shape[: dim + 1], count // size, *x.shape[dim + 1 :])
        put = layouts.copy(target.reshape(shape), numpy.broadcast_to(numpy.expand_dims(x, dim + 1), shape))
        return None if put is None else Lowered(put)
    before: list[Launch] = []
    rows, kind = layouts.row_major(x, before), numpy.dtype(f"u{x.itemsize}")
    if rows is None:
        return None
    arguments = (
        layouts.flat(rows, kind),
        size,
        inner,
        places,
        0,
        layouts.flat(target, kind),
        numpy.zeros(1, numpy.int64),
    )
    items = prod(x.shape[:dim]) * count
    return Lowered([*before, Launch(pick_rows, arguments, items, layouts.parts_of(target.size, items))])


def _weighted(x: Any, dim: int, matrix: Any, target: Any) -> Lowered | None:
    from dynograd.kernels.image.interpolations_numba import weighted_sums

    starts, places, weights = matrix
    before: list[Launch] = []
    behind: list[Launch] = []
    if x.dtype != target.dtype or x.dtype.name not in ("float32", "float64") or not target.size:
        return None
    rows, whole = layouts.row_major(x, before), layouts.to_be_written(target, behind)
    if rows is None or whole is None:
        return None
    outer, inner = prod(target.shape[:dim]), prod(target.shape[dim + 1 :])
    lines = layouts.flat(rows).reshape(outer, x.shape[dim], inner)
    result = layouts.flat(whole).reshape(outer, target.shape[dim], inner)
    count, work = outer * target.shape[dim], target.size * (4 if inner == 1 else 2)
    arguments = (lines, starts, places, weights.astype(x.dtype), result)
    return Lowered([*before, Launch(weighted_sums, arguments, count, layouts.parts_of(work, count)), *behind])
