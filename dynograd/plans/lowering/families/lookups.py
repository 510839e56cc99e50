"""Rows picked, written and added by index. Indices are read when the plan runs; what eager would raise for them, `check` raises."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy

from dynograd.kernels.build.launches import Launch
from dynograd.plans.calls import Call
from dynograd.plans.joined_indices import Joined, joined
from dynograd.plans.lowering import layouts
from dynograd.plans.lowering.families.reductions import sum_to
from dynograd.plans.lowering.forms import IndexCheck, Lowered, arguments_of, form
from dynograd.plans.lowering.parts import rules_in_parts

__all__ = ["collected"]

_FULL = slice(None)


class _Indices:
    """Launches that read one index vector, and the flag that they set where it leaves the table."""

    def __init__(self, call: Call, index: Any, negative: bool) -> None:
        self.call, self.negative, self.size = call, negative, 0
        self.outside = numpy.zeros(1, numpy.int64)
        self.launches: list[Launch] = []
        self.read = index
        self.fits = index.dtype == numpy.int64
        if self.fits and not index.flags.c_contiguous:
            copied = layouts.scratch(index.shape, index.dtype)
            put = layouts.copy(copied, index)
            self.fits = put is not None
            self.launches += put or []
            index = copied
        self.index = layouts.flat(index) if self.fits else index

    def pick(self, x: Any, dim: int, out: Any) -> Lowered | None:
        """out = x's slices along `dim` at the index."""
        from dynograd.kernels.index.picks_numba import pick_rows

        x = layouts.row_major(x, self.launches)
        if not self.fits or x is None or x.itemsize not in (1, 2, 4, 8) or out.dtype != x.dtype:
            return None
        target = out if out.flags.c_contiguous else layouts.scratch(out.shape, out.dtype)
        self.size = size = x.shape[dim]
        inner = prod(x.shape[dim + 1 :])
        if out.size:
            kind = numpy.dtype(f"u{x.itemsize}")
            count = prod(x.shape[:dim]) * self.index.size
            low = -size if self.negative else 0
            arguments = (layouts.flat(x, kind), size, inner, self.index, low, layouts.flat(target, kind), self.outside)
            self.launches.append(Launch(pick_rows, arguments, count, layouts.parts_of(out.size, count)))
        if target is not out:
            put = layouts.copy(out, target)
            if put is None:
                return None
            self.launches += put
        return self.lowered()

    def add(self, rows: Any, dim: int, out: Any) -> bool:
        """out's slices along `dim` at the index += rows, one after the other; `out` is row-major."""
        from dynograd.kernels.index import scatters_numba

        rows = layouts.row_major(rows, self.launches)
        floats = out.dtype in (numpy.float32, numpy.float64)
        if not self.fits or rows is None or rows.dtype != out.dtype or not floats or not out.flags.c_contiguous:
            return False
        outer, size, inner = prod(out.shape[:dim]), out.shape[dim], prod(out.shape[dim + 1 :])
        self.size = size
        low = -size if self.negative else 0
        if not rows.size:
            return True
        target = layouts.flat(out).reshape(outer, size, inner)
        source = layouts.flat(rows).reshape(outer, self.index.size, inner)
        parts = layouts.parts_of(rows.size, size)
        if outer == 1 and inner > 1 and parts > 1:
            arguments = (target[0], self.index, source[0], low, self.outside)
            self.launches.append(Launch(scatters_numba.add_rows, arguments, size, parts))
        else:
            arguments = (target, self.index, source, low, self.outside)
            parts = layouts.parts_of(rows.size, outer)
            self.launches.append(Launch(scatters_numba.add_slices, arguments, outer, parts))
        return True

    def lowered(self) -> Lowered:
        return Lowered(self.launches, check=self.check())

    def bounds(self) -> tuple[Any, int, int]:
        return self.read, -self.size * self.negative, self.size

    def check(self) -> IndexCheck:
        return IndexCheck(self.call, self.bounds())


# --- tables -------------------------------------------------------------------------------------------------------------------


@form("op", "embedding")
def _embedding(call: Call) -> Lowered | None:
    weight, index = call.inputs
    return _Indices(call, index, True).pick(weight, 0, call.outputs[0])


@form("rule", "embedding")
def _embedding_rule(call: Call) -> Lowered | None:
    node, target = call.node, call.outputs[0]
    padding, by_frequency = node.attrs
    if target is None:
        return Lowered()
    return None if by_frequency else _collected(call, [(call.inputs[0], node.indices)], padding, target)


@form("op", "embedding_backward")
def _embedding_backward(call: Call) -> Lowered | None:
    arguments = arguments_of(call)
    return _collected(call, [(arguments["g"], arguments["indices"])], arguments["padding_idx"], call.outputs[0])


def collected(call: Call, padding: int | None) -> Lowered | None:
    """A deferred sum of an embedding's gradients."""
    return _collected(call, list(zip(call.inputs[::2], call.inputs[1::2])), padding, call.outputs[0])


def _collected(call: Call, pairs: list[tuple[Any, Any]], padding: int | None, target: Any) -> Lowered | None:
    zeros = layouts.fill(target, 0)
    if zeros is None:
        return None
    launches = list(zeros)
    bounds = []
    for rows, index in pairs:
        added = _Indices(call, index, True)
        if not added.add(rows.reshape(index.size, rows.shape[-1]) if rows.flags.c_contiguous else rows, 0, target):
            return None
        launches += added.launches
        bounds.append(added.bounds())
    if padding is not None:
        cleared = layouts.fill(target[padding], 0)
        if cleared is None:
            return None
        launches += cleared
    return Lowered(launches, exact=False, check=IndexCheck(call, *bounds))


rules_in_parts("embedding_backward")


# --- x[index] -----------------------------------------------------------------------------------------------------------------


def _dim_of(indices: list[Any], template: tuple) -> int | None:
    """The dim that a lone index array stands for; None for other indices."""
    if len(indices) != 1 or indices[0].dtype != numpy.int64:
        return None
    if type(template[-1]) is not int or any([type(entry) is not slice or entry != _FULL for entry in template[:-1]]):
        return None
    return len(template) - 1


def _places(indices: list[Any], template: tuple, shape: tuple[int, ...]) -> Joined | None:
    """The index arrays as one, of an array of `shape`; None for other indices."""
    dim = _dim_of(indices, template)
    if dim is None:
        return joined(indices, template, shape)
    return Joined([], indices[0], dim, shape, [(indices[0], -shape[dim], shape[dim])])


def _picked_shape(shape: tuple[int, ...], places: Joined) -> tuple[int, ...]:
    """Of what stands at the places in an array of `shape`."""
    return (*shape[: places.dim], *places.index.shape, *shape[places.dim + len(places.bounds) :])


def _indices_of(call: Call, places: Joined) -> _Indices:
    """Those of a lone index array may count from the end."""
    return _Indices(call, places.index, len(places.bounds) == 1)


@form("op", "index")
def _index(call: Call) -> Lowered | None:
    arguments = arguments_of(call)
    x = arguments["input"]
    places = _places(arguments["indices"], arguments["template"], x.shape)
    return None if places is None else _picked(call, x, places, call.outputs[0])


def _picked(call: Call, x: Any, places: Joined, out: Any) -> Lowered | None:
    """out = x at the places."""
    launches = list(places.launches)
    rows = layouts.row_major(x, launches)
    if rows is None:
        return None
    picked = _indices_of(call, places).pick(rows.reshape(places.shape), places.dim, out)
    return None if picked is None else Lowered([*launches, *picked], check=IndexCheck(call, *places.bounds))


@form("rule", "index")
def _index_rule(call: Call) -> Lowered | None:
    node, target = call.node, call.outputs[0]
    if target is None:
        return None
    places = _places(list(node.indices), node.attrs[0], target.shape)
    return None if places is None else _added(call, layouts.fill(target, 0), call.inputs[0], places, target)


@form("op", "index_backward")
def _index_backward(call: Call) -> Lowered | None:
    arguments, target = arguments_of(call), call.outputs[0]
    places = _places(arguments["indices"], arguments["template"], target.shape)
    return None if places is None else _added(call, layouts.fill(target, 0), arguments["g"], places, target)


def _added(call: Call, before: list[Launch] | None, g: Any, places: Joined, target: Any) -> Lowered | None:
    """What `before` has written, with g added at the places."""
    if before is None or not target.flags.c_contiguous:
        return None
    added = _indices_of(call, places)
    if not added.add(g, places.dim, target.reshape(places.shape)):
        return None
    launches = [*before, *places.launches, *added.launches]
    return Lowered(launches, exact=False, check=IndexCheck(call, *places.bounds))


@form("op", "index_put_at")
def _index_put(call: Call) -> Lowered | None:
    arguments, target = arguments_of(call), call.outputs[0]
    x, values = arguments["input"], arguments["values"]
    places = _places(arguments["indices"], arguments["template"], x.shape)
    if places is None:
        return None
    before = layouts.copy(target, x)
    if not arguments["accumulate"]:
        return _written(call, before, values, places, target)
    if not isinstance(values, numpy.ndarray) or values.dtype != x.dtype:
        return None
    return _added(call, before, numpy.broadcast_to(values, _picked_shape(x.shape, places)), places, target)


def _written(call: Call, before: list[Launch] | None, values: Any, places: Joined, target: Any) -> Lowered | None:
    """What `before` has written, with the values (None: zeros) at the places; of several for a place the last one stays."""
    from dynograd.kernels.index import scatters_numba

    if not isinstance(values, numpy.ndarray):
        values = numpy.array(values or 0, target.dtype)
    shape = _picked_shape(target.shape, places)
    values = values.reshape(values.shape[max(values.ndim - len(shape), 0) :])  # in front there may be dims of size 1
    written, dim = _indices_of(call, places), places.dim
    source = layouts.row_major(numpy.broadcast_to(values, shape), written.launches)
    size = written.size = places.shape[dim]
    if before is None or source is None or source.dtype != target.dtype or not written.fits:
        return None
    if not target.flags.c_contiguous:
        return None
    if source.size:
        kind = numpy.dtype(f"u{target.itemsize}")
        outer, inner = prod(places.shape[:dim]), prod(places.shape[dim + 1 :])
        into = layouts.flat(target, kind).reshape(outer, size, inner)
        of = layouts.flat(source, kind).reshape(outer, places.index.size, inner)
        arguments = (into, written.index, of, -size * written.negative, written.outside)
        parts = layouts.parts_of(source.size, outer)
        written.launches.append(Launch(scatters_numba.write_slices, arguments, outer, parts))
    return Lowered([*before, *places.launches, *written.launches], check=IndexCheck(call, *places.bounds))


@form("rule", "index_put_at")
def _index_put_rule(call: Call) -> Lowered | None:
    node, g = call.node, call.inputs[0]
    template, accumulate = node.attrs
    g_x, g_values = call.outputs[:2]
    places = _places(list(node.indices), template, g.shape)
    if places is None:
        return None
    launches: list[Launch] = []
    if g_x is not None:
        if accumulate:
            return None
        cleared = _written(call, layouts.copy(g_x, g), None, places, g_x)
        if cleared is None:
            return None
        launches += cleared
        places = places._replace(launches=[])
    if g_values is None:
        return Lowered(launches)
    shape = _picked_shape(g.shape, places)
    whole = g_values if g_values.shape == shape else layouts.scratch(shape, g_values.dtype)
    picked = _picked(call, g, places, whole)
    if picked is None or whole is g_values:
        return None if picked is None else Lowered([*launches, *picked], check=picked.check)
    if not g_values.flags.c_contiguous:
        return None
    summed = sum_to(whole, g_values.reshape(g_values.shape[max(g_values.ndim - len(shape), 0) :]))
    return None if summed is None else Lowered([*launches, *picked, *summed], exact=False, check=picked.check)
