"""Ops that change how elements lie: shapes, orders, parts, joins."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.onnx.writers.calls import Call, writer

__all__ = ["whole_index"]

_END = 2**62  # a place behind any last one


@writer("view")
def view(call: Call) -> str:
    return call.reshape(call.input("input"), call.result_shapes())


@writer("expand")
def expand(call: Call) -> str:
    return call.node("Expand", [call.input("input"), call.builder.numbers(call.result_shapes())])


@writer("clone", "to_device")
def copied(call: Call) -> str:
    """The same value: nothing writes into values of a graph."""
    return call.input("input")


@writer("conj")
def conj(call: Call) -> str:
    if call.dtype.kind == "c":
        raise call.refused("of complex numbers")
    return call.input("input")


@writer("to_copy")
def to_copy(call: Call) -> str:
    return call.cast(call.input("input"), call.dtype)


@writer("ones_of")
def ones_of(call: Call) -> str:
    return call.node("Expand", [call.number(1), call.builder.numbers(call.result_shapes())])


@writer("sum_to")
def sum_to(call: Call) -> str:
    rank, shape = call.rank(), call.result_shapes()[0]
    own = call.shapes()[0]
    more = rank - len(shape)
    axes = [axis for axis in range(rank) if axis < more or (shape[axis - more] == 1 and own[axis] != 1)]
    if not axes:
        return call.input("input")
    name = call.reduce("ReduceSum", call.input("input"), axes, True)
    return call.squeeze(name, *range(more))


@writer("permute")
def permute(call: Call) -> str:
    rank = call.rank()
    return call.transpose(call.input("input"), [dim % rank for dim in call.static("dims")])


@writer("cat")
def cat(call: Call) -> str:
    rank = len(call.result_shapes()[0])
    names = call.inputs_in_result_type("tensors")
    shapes = [value.shape for value in call.arguments["tensors"]]
    fitting = [name for name, shape in zip(names, shapes) if len(shape) == rank]  # others are empty, as tensor([])
    return call.node("Concat", fitting, axis=call.static("dim") % rank)


@writer("stack")
def stack(call: Call) -> str:
    axis = call.static("dim") % len(call.result_shapes()[0])
    return call.node(
        "Concat", [call.unsqueeze(name, axis) for name in call.inputs_in_result_type("tensors")], axis=axis
    )


@writer("split_with_sizes")
def split_with_sizes(call: Call) -> list[str]:
    sizes = call.builder.numbers(call.each("split_sizes"))
    return call.nodes_of("Split", [call.input("input"), sizes], call.count, axis=call.axis())


@writer("unbind")
def unbind(call: Call) -> list[str]:
    axis = call.axis()
    name = call.input("input")
    return [call.node("Gather", [name, call.constant(number, numpy.int64)], axis=axis) for number in range(call.count)]


@writer("flip")
def flip(call: Call) -> str:
    return _reversed(call, call.axes("dims"))


@writer("reversed_along")
def reversed_along(call: Call) -> str:
    return _reversed(call, [call.axis()])


def _reversed(call: Call, axes: list[int]) -> str:
    bounds = [call.ints(*[number] * len(axes)) for number in (-1, -_END)]
    return call.node("Slice", [call.input("input"), *bounds, call.ints(*axes), call.ints(*[-1] * len(axes))])


@writer("roll")
def roll(call: Call) -> str:
    name = call.input("input")
    dims = call.axes("dims")
    for number, axis in enumerate(dims):
        sizes = call.dims(axis)
        cuts = [size - shifts[number] % size for size, shifts in zip(sizes, call.each("shifts"))]
        cut, axes = call.builder.number(cuts), call.ints(axis)
        front = call.node("Slice", [name, call.ints(0), cut, axes])
        back = call.node("Slice", [name, cut, call.ints(_END), axes])
        name = call.node("Concat", [back, front], axis=axis)
    return name


@writer("repeat")
def repeat(call: Call) -> str:
    repeats = call.each("repeats")
    name = call.unsqueeze(call.input("input"), *range(len(repeats[0]) - call.rank()))
    return call.node("Tile", [name, call.builder.numbers(repeats)])


@writer("repeat_interleave")
def repeat_interleave(call: Call) -> str:
    axis, times = call.axis(), call.static("repeats")
    shapes = [[*shape[: axis + 1], times, *shape[axis + 1 :]] for shape in call.shapes()]
    name = call.node("Expand", [call.unsqueeze(call.input("input"), axis + 1), call.builder.numbers(shapes)])
    return call.reshape(name, call.result_shapes())


@writer("tril", "triu")
def triangle(call: Call) -> str:
    name = call.input("input")
    is_truth = call.dtype == bool
    if is_truth:
        name = call.cast(name, numpy.float32)
    diagonal = call.builder.scalar(call.each("diagonal"))
    name = call.node("Trilu", [name, diagonal], upper=int(call.op_name == "triu"))
    return call.cast(name, bool) if is_truth else name


@writer("diagonal")
def diagonal(call: Call) -> str:
    """The elements of each matrix, picked at their places in its rows one behind the other."""
    rank = call.rank()
    rows, columns = call.static("dim1") % rank, call.static("dim2") % rank
    offset = call.static("offset")
    sizes = list(zip(call.dims(rows), call.dims(columns)))
    sides = [[height - max(-offset, 0) for height, _ in sizes], [width - max(offset, 0) for _, width in sizes]]
    places = _along_diagonal(call, sides, [width for _, width in sizes], offset)
    others = [axis for axis in range(rank) if axis not in (rows, columns)]
    name = call.transpose(call.input("input"), [*others, rows, columns])
    shapes = [[*[shape[axis] for axis in others], shape[rows] * shape[columns]] for shape in call.shapes()]
    return call.node("Gather", [call.reshape(name, shapes), places], axis=len(others))


def _along_diagonal(call: Call, sides: list[list[int]], widths: list[int], offset: int) -> str:
    """The places of a diagonal's elements in rows one behind the other; there are as many as the shortest side has."""
    zero, step = call.constant(0, numpy.int64), call.constant(1, numpy.int64)
    counts = [min(each) for each in zip(*sides)]
    if len({*counts}) == len({*widths}) == 1:
        first = max(-offset, 0) * widths[0] + max(offset, 0)
        return call.constant(first + numpy.arange(counts[0]) * (widths[0] + 1))
    names = [call.builder.scalar(side) for side in dict.fromkeys(map(tuple, sides))]
    count = names[0] if len(names) == 1 else call.node("Min", names)
    steps = call.node("Range", [zero, count, step])
    by = call.builder.number([width + 1 for width in widths])
    places = call.node("Mul", [steps, by])
    return call.node(
        "Add", [places, call.builder.number([max(-offset, 0) * width + max(offset, 0) for width in widths])]
    )


@writer("diagonal_backward")
def diagonal_backward(call: Call) -> str:
    """Zeros with elements at the places of a diagonal."""
    rank = len(call.result_shapes()[0])
    rows, columns, offset = call.static("dim1") % rank, call.static("dim2") % rank, call.static("offset")
    others = [axis for axis in range(rank) if axis not in (rows, columns)]
    shapes = call.result_shapes()
    counts = [shape[-1] for shape in call.shapes("g")]
    places = _along_diagonal(call, [counts], [shape[columns] for shape in shapes], offset)
    flat = [[shape[rows] * shape[columns], *[shape[axis] for axis in others]] for shape in shapes]
    zeros = call.node("Expand", [call.number(0), call.builder.numbers(flat)])
    last = len(others)
    values = call.transpose(call.in_result_type("g"), [last, *range(last)])
    filled = call.node("ScatterND", [zeros, call.unsqueeze(places, 1), values])
    wide = [[shape[rows], shape[columns], *[shape[axis] for axis in others]] for shape in shapes]
    ahead = [rows, columns, *others]
    return call.transpose(call.reshape(filled, wide), [ahead.index(axis) for axis in range(rank)])


@writer("unfold")
def unfold(call: Call) -> str:
    axis = call.axis("dimension")
    counts = [(length - call.static("size")) // call.static("step") + 1 for length in call.dims(axis)]
    name = call.node("Gather", [call.input("input"), _windows(call, counts)], axis=axis)
    rank = call.rank() + 1
    return call.transpose(name, [*range(axis + 1), *range(axis + 2, rank), axis + 1])


def _windows(call: Call, counts: list[int]) -> str:
    """(windows, size): the places that are in each window."""
    zero, by = call.constant(0, numpy.int64), call.constant(1, numpy.int64)
    numbers = call.node("Range", [zero, call.builder.scalar(counts), by])
    starts = call.node("Mul", [numbers, call.constant(call.static("step"), numpy.int64)])
    return call.node("Add", [call.unsqueeze(starts, 1), call.constant(numpy.arange(call.static("size")))])


@writer("unfold_backward")
def unfold_backward(call: Call) -> str:
    """Zeros with what each window has added at its places."""
    rank = call.rank("g") - 1
    axis = call.static("dimension") % rank
    places = call.unsqueeze(_windows(call, call.dims(axis, "g")), 2)
    others = [each for each in range(rank) if each != axis]
    zeros = [[shape[axis], *[shape[each] for each in others]] for shape in call.result_shapes()]
    names = [call.node("Expand", [call.number(0), call.builder.numbers(zeros)]), places]
    windows = call.transpose(call.input("g"), [axis, rank, *others])
    name = call.node("ScatterND", [*names, windows], reduction="add")
    return call.transpose(name, [[axis, *others].index(each) for each in range(rank)])


@writer("basic_index")
def basic_index(call: Call) -> str:
    """Slices first, then dims that an index takes away, then new ones."""
    items = [whole_index(index, call.rank()) for index in call.each("index")]
    name, axis, after = call.input("input"), 0, 0
    gone: list[int] = []
    new: list[int] = []
    bounds: list[list[Any]] = []
    for parts in zip(*items):
        part = parts[0]
        if part is None:
            new.append(after)
            after += 1
            continue
        if isinstance(part, slice):
            after += 1
            if part != slice(None):
                bounds.append([axis, *_slice(parts, call.dims(axis))])
        else:
            sizes = call.dims(axis)
            starts = list(parts) if len(set(parts)) == 1 else [place % size for place, size in zip(parts, sizes)]
            stops = [_END if start == -1 else start + 1 for start in starts]
            bounds.append([axis, starts, stops, [1] * len(parts)])
            gone.append(axis)
        axis += 1
    if bounds:
        columns = list(zip(*bounds))
        begin, end, by = [call.builder.numbers(list(zip(*column))) for column in columns[1:]]
        name = call.node("Slice", [name, begin, end, call.ints(*columns[0]), by])
    return call.unsqueeze(call.squeeze(name, *gone), *new)


def whole_index(index: tuple[Any, ...], rank: int) -> list[Any]:
    """An index with a slice for each dim that it leaves out."""
    items = list(index)
    count = len([item for item in items if item is not None and item is not Ellipsis])
    place = next((number for number, item in enumerate(items) if item is Ellipsis), len(items))
    return [*items[:place], *[slice(None)] * (rank - count), *items[place + 1 :]]


def _slice(parts: tuple[slice, ...], sizes: list[int]) -> list[list[int]]:
    """Starts, stops and steps at each size."""
    steps = [part.step or 1 for part in parts]
    columns = [[getattr(part, name) for part in parts] for name in ("start", "stop")]
    usual = (0, _END) if steps[0] > 0 else (-1, -_END)
    for column, default in zip(columns, usual):
        for place, (value, size) in enumerate(zip(column, sizes)):
            if value is None:
                column[place] = default
            elif len(set(column)) > 1 and value < 0:
                column[place] = value + size
    return [*columns, steps]
