"""Rows and elements picked by indices."""

from __future__ import annotations

import math
from typing import Any

import numpy

from dynograd.onnx.writers.calls import Call, writer
from dynograd.onnx.writers.layouts import whole_index
from dynograd.onnx.writers.picks import has_mask, picked_by_mask, put_at_mask

__all__: list[str] = []


@writer("embedding")
def embedding(call: Call) -> str:
    return call.node("Gather", [call.input("weight"), call.input("indices")], axis=0)


@writer("gather")
def gather(call: Call) -> str:
    return call.node("GatherElements", [call.input("input"), call.input("index")], axis=call.axis())


@writer("scatter")
def scatter(call: Call) -> str:
    return _scattered(call)


@writer("scatter_number")
def scatter_number(call: Call) -> str:
    return _filled(call, call.static("value"))


@writer("scatter_add")
def scatter_add(call: Call) -> str:
    return _scattered(call, reduction="add")


@writer("scatter_reduce")
def scatter_reduce(call: Call) -> str:
    """Of `prod`, `amax` and `amin`: without `include_self` places that are named begin with what changes nothing."""
    if call.builder.opset < 18:
        raise call.refused("before opset 18")
    kind, reduce = numpy.dtype(call.dtype), call.static("reduce")
    limits = numpy.iinfo(kind) if kind.kind in "iu" else None
    low, high = (-math.inf, math.inf) if limits is None else (limits.min, limits.max)
    reduction, neutral = {"prod": ("mul", 1), "amax": ("max", low), "amin": ("min", high)}[reduce]
    base = None if call.static("include_self") else _filled(call, neutral)
    return _scattered(call, base, reduction=reduction)


@writer("ties")
def ties(call: Call) -> str:
    return call.cast(call.node("Equal", [call.input("input"), call.input("other")]), call.dtype)


@writer("ones_of")
def ones_of(call: Call) -> str:
    return call.node("Expand", [call.number(1), call.builder.numbers(call.result_shapes())])


def _filled(call: Call, number: float) -> str:
    """The input with one number at all places that are named."""
    full = call.node("Expand", [call.number(number), call.builder.numbers(call.shapes("index"))])
    return call.node("ScatterElements", [call.input("input"), call.input("index"), full], axis=call.axis())


def _scattered(call: Call, base: str | None = None, **options: Any) -> str:
    if call.arguments["src"] is None:
        return _filled(call, 0)
    if call.shapes("index") != call.shapes("src"):
        raise call.refused("of more values than indices")
    names = [base or call.input("input"), call.input("index"), call.input("src")]
    return call.node("ScatterElements", names, axis=call.axis(), **options)


@writer("one_hot")
def one_hot(call: Call) -> str:
    count = call.static("num_classes")
    if count < 0:
        raise call.refused("without num_classes, which then depends on values,")
    values = call.constant([0, 1], numpy.int64)
    return call.node("OneHot", [call.input("input"), call.constant(count, numpy.int64), values], axis=-1)


@writer("embedding_backward")
def rows_by_index(call: Call) -> str:
    """A table whose rows are sums of rows; those of `padding_idx` stay 0."""
    g, indices, padding = call.input("g"), call.input("indices"), call.static("padding_idx")
    last = call.rank("indices")
    if padding is not None:
        kept = call.node("Not", [call.node("Equal", [indices, call.constant(padding, call.dtype_of("indices"))])])
        g = call.node("Mul", [g, call.unsqueeze(call.cast(kept, call.dtype), last)])
    zeros = call.node("Expand", [call.number(0), call.builder.numbers(call.result_shapes())])
    return call.node("ScatterND", [zeros, call.unsqueeze(indices, last), g], reduction="add")


@writer("index")
def index(call: Call) -> str:
    """Elements at index arrays: the dims that have these come first, and where they stand together go back to their place."""
    if has_mask(call):
        return picked_by_mask(call)
    axes, name = _indexed(call), call.input("input")
    if len(axes) == 1:
        return call.node("Gather", [name, call.inputs("indices")[0]], axis=axes[0])
    rank = call.rank()
    others = [axis for axis in range(rank) if axis not in axes]
    ahead = [*axes, *others]
    name = call.transpose(name, ahead) if ahead != list(range(rank)) else name
    return _to_place(
        call, call.node("GatherND", [name, _places(call)]), axes, len(_shapes_of_places(call)[0]), rank - len(axes)
    )


@writer("index_put_at")
def index_put_at(call: Call) -> str:
    """A copy with values at index arrays."""
    if has_mask(call):
        return put_at_mask(call)
    axes, name, rank = _indexed(call), call.input("input"), call.rank()
    others = [axis for axis in range(rank) if axis not in axes]
    ahead = [*axes, *others]
    places = _shapes_of_places(call)
    start = axes[0] if _are_together(axes) else 0
    shapes = [[shape[axis] for axis in others] for shape in call.shapes()]
    wide = [[*own[:start], *place, *own[start:]] for own, place in zip(shapes, places)]
    values = call.input("values") if call.has("values") else call.number(0)
    values = call.node("Expand", [values, call.builder.numbers(wide)])
    middle = range(start, start + len(places[0]))
    values = call.transpose(values, [*middle, *[axis for axis in range(len(wide[0])) if axis not in middle]])
    options = {"reduction": "add"} if call.static("accumulate") else {}
    name = call.node("ScatterND", [call.transpose(name, ahead), _places(call), values], **options)
    return call.transpose(name, [ahead.index(axis) for axis in range(rank)])


def _indexed(call: Call) -> list[int]:
    """The dims that have an index array."""
    return [axis for axis, entry in enumerate(call.static("template")) if type(entry) is int]


def _are_together(axes: list[int]) -> bool:
    return axes == list(range(axes[0], axes[0] + len(axes)))


def _shapes_of_places(call: Call) -> list[tuple[int, ...]]:
    """The shape that index arrays have together, at each size."""
    return [numpy.broadcast_shapes(*[tuple(index.shape) for index in indices]) for indices in call.each("indices")]


def _places(call: Call) -> str:
    """Index arrays beside each other in a new last dim."""
    shapes = _shapes_of_places(call)
    names, template = call.inputs("indices"), call.static("template")
    arrays = [names[entry] for entry in template if type(entry) is int]
    wide = [
        call.unsqueeze(call.node("Expand", [name, call.builder.numbers(shapes)]), len(shapes[0])) for name in arrays
    ]
    return call.node("Concat", wide, axis=len(shapes[0]))


def _to_place(call: Call, name: str, axes: list[int], count: int, others: int) -> str:
    """The `count` dims of index arrays, which stand first, where the dims were that had these."""
    if not _are_together(axes) or not axes[0]:
        return name
    rest = list(range(count, count + others))
    return call.transpose(name, [*rest[: axes[0]], *range(count), *rest[axes[0] :]])


@writer("basic_put")
def basic_put(call: Call) -> str:
    """A copy with a value at a basic index: at the places along the dims that are not taken whole, for all of the others."""
    rank = call.rank()
    indices = [whole_index(index, rank) for index in call.each("index")]
    if None in indices[0]:
        raise call.refused("at an index with new dims")
    own = [axis for axis, entry in enumerate(indices[0]) if entry != slice(None)]
    ahead = [*own, *[axis for axis in range(rank) if axis not in own]]
    if not own:
        return call.node("Expand", [call.input("value"), call.builder.numbers(call.shapes())])
    places = [_taken(call, axis, [index[axis] for index in indices]) for axis in own]
    counts = dict(zip(own, [sizes for _, sizes in places]))
    gone = [axis for axis in own if not isinstance(indices[0][axis], slice)]
    wide = [
        [counts[axis][number] if axis in counts else size for axis, size in enumerate(shape) if axis not in gone]
        for number, shape in enumerate(call.shapes())
    ]
    value = call.in_result_type("value") if call.has("value") else call.number(0)
    value = call.unsqueeze(call.node("Expand", [value, call.builder.numbers(wide)]), *gone)
    grid = _grid(call, [name for name, _ in places], list(zip(*[counts[axis] for axis in own])))
    names = [call.transpose(call.input("input"), ahead), grid, call.transpose(value, ahead)]
    return call.transpose(call.node("ScatterND", names), [ahead.index(axis) for axis in range(rank)])


def _taken(call: Call, axis: int, entries: list[Any]) -> tuple[str, list[int]]:
    """The places that an index takes along a dim, and how many they are at each size."""
    sizes = call.dims(axis)
    taken = [numpy.atleast_1d(numpy.arange(size)[entry]) for size, entry in zip(sizes, entries)]
    counts = [len(each) for each in taken]
    if all([numpy.array_equal(each, taken[0]) for each in taken]):
        return call.constant(taken[0], numpy.int64), counts
    starts = [
        entry.indices(size)[0] if isinstance(entry, slice) else int(entry) % size for size, entry in zip(sizes, entries)
    ]
    steps = [(entry.step or 1) if isinstance(entry, slice) else 1 for entry in entries]
    zero, by = call.constant(0, numpy.int64), call.constant(1, numpy.int64)
    name = call.node("Range", [zero, call.builder.scalar(counts), by])
    name = name if {*steps} == {1} else call.node("Mul", [name, call.builder.scalar(steps)])
    return call.node("Add", [name, call.builder.number(starts)]), counts


def _grid(call: Call, names: list[str], counts: list[Any]) -> str:
    """All combinations of places along some dims: (counts, dims)."""
    rank = len(names)
    wide = []
    for number, name in enumerate(names):
        own = call.unsqueeze(name, *[axis for axis in range(rank) if axis != number])
        wide.append(call.unsqueeze(call.node("Expand", [own, call.builder.numbers(counts)]), rank))
    return call.node("Concat", wide, axis=rank)
