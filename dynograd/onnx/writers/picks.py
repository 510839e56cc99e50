"""Ops whose results are as large as values say: places of nonzero elements, elements at a mask, distinct ones, counts, repeated rows."""

from __future__ import annotations

import numpy

from dynograd.arrays import ndarray
from dynograd.onnx.writers.calls import Call, writer

__all__ = ["has_mask", "picked_by_mask", "put_at_mask"]


@writer("nonzero")
def nonzero(call: Call) -> str:
    return _places(call, call.input("input"))


def _places(call: Call, name: str) -> str:
    return call.transpose(call.node("NonZero", [name]), (1, 0))


@writer("repeat_rows")
def repeat_rows(call: Call) -> str:
    """Row i of the result is the row of the input behind whose end it does not lie."""
    repeats = call.cast(call.input("repeats"), numpy.int64)
    zero, step = call.constant(0, numpy.int64), call.constant(1, numpy.int64)
    ends = call.node("CumSum", [repeats, zero])
    total = call.squeeze(call.reduce("ReduceSum", repeats, [0], True), 0)
    places = call.unsqueeze(call.node("Range", [zero, total, step]), 1)
    behind = call.cast(call.node("GreaterOrEqual", [places, ends]), numpy.int64)
    return call.node("Gather", [call.input("input"), call.reduce("ReduceSum", behind, [1], False)], axis=call.axis())


@writer("bincount")
def bincount(call: Call) -> str:
    """The sums of the columns of one-hot rows, of as many numbers as the largest asks for."""
    name = call.cast(call.input("input"), numpy.int64)
    least = call.ints(call.static("minlength"))
    largest = call.reduce("ReduceMax", call.node("Concat", [name, call.ints(-1)], axis=0), [0], True)
    depth = call.node("Max", [call.node("Add", [largest, call.ints(1)]), least])
    rows = call.node("OneHot", [name, depth, call.constant([0, 1], call.dtype)], axis=-1)
    if call.has("weights"):
        rows = call.node("Mul", [rows, call.unsqueeze(call.in_result_type("weights"), 1)])
    return call.reduce("ReduceSum", rows, [0], False)


@writer("unique")
def unique(call: Call) -> list[str]:
    """Values, where each element went, and counts."""
    dim, name = call.static("dim"), call.input("input")
    if call.static("consecutive"):
        return _runs(call, name)
    options = {} if dim is None else {"axis": call.axis()}
    is_truth = call.dtype.kind == "b"
    values, _, inverse, counts = call.nodes_of(
        "Unique", [call.cast(name, numpy.int8) if is_truth else name], 4, sorted=1, **options
    )
    values = call.cast(values, bool) if is_truth else values
    return [values, call.reshape(inverse, call.shapes()) if dim is None else inverse, counts][: call.count]


def _runs(call: Call, name: str) -> list[str]:
    """Of each run of equal elements the first, where each element went, and how long the runs are."""
    if call.static("dim") is not None:
        raise call.refused("of consecutive slices")
    flat = call.node("Reshape", [name, call.ints(-1)])
    behind, before = [call.node("Slice", [flat, *ends]) for ends in _neighbours(call)]
    differs = call.node("Not", [call.node("Equal", [behind, before])])
    some = call.node("Slice", [call.node("Shape", [flat]), call.ints(0), call.ints(1)])
    first = call.node("Expand", [call.constant(True), call.node("Min", [some, call.ints(1)])])
    begins = call.node("Concat", [first, differs], axis=0)
    places = call.squeeze(call.node("NonZero", [begins]), 0)
    steps = call.node("CumSum", [call.cast(begins, numpy.int64), call.constant(0, numpy.int64)])
    inverse = call.reshape(call.node("Sub", [steps, call.ints(1)]), call.shapes())
    ends = call.node("Slice", [call.node("Concat", [places, some], axis=0), call.ints(1), call.ints(2**62)])
    return [call.node("Gather", [flat, places], axis=0), inverse, call.node("Sub", [ends, places])][: call.count]


def _neighbours(call: Call) -> tuple[list[str], list[str]]:
    """Starts and ends of all elements but the first, and of all but the last."""
    return [call.ints(1), call.ints(2**62)], [call.ints(0), call.ints(-1)]


def has_mask(call: Call) -> bool:
    """Whether an index is a mask.

    Raises:
        OnnxError: there are other index arrays beside it.
    """
    indices = call.arguments["indices"]
    kinds = [index.dtype.kind if isinstance(index, ndarray) else index.dtype.numpy.kind for index in indices]
    if "b" in kinds and len(kinds) > 1:
        raise call.refused("by a mask beside other index arrays")
    return "b" in kinds


def _order(call: Call) -> tuple[int, list[int], int]:
    """The first dim that the mask is of, all dims with those of the mask first, and how many the mask has."""
    start = next(place for place, entry in enumerate(call.static("template")) if type(entry) is int)
    count = len(call.arguments["indices"][0].shape)
    own = list(range(start, start + count))
    return start, [*own, *[axis for axis in range(call.rank()) if axis not in own]], count


def picked_by_mask(call: Call) -> str:
    """Elements, or slices, where a mask is true."""
    start, ahead, count = _order(call)
    name = call.transpose(call.input("input"), ahead) if start else call.input("input")
    name = call.node("GatherND", [name, _places(call, call.inputs("indices")[0])])
    rest = list(range(1, call.rank() - count + 1))
    return call.transpose(name, [*rest[:start], 0, *rest[start:]]) if start else name


def put_at_mask(call: Call) -> str:
    """A copy with values where a mask is true: one for all, or one for each place."""
    start, ahead, count = _order(call)
    mask = call.inputs("indices")[0]
    places = _places(call, mask)
    values = call.input("values") if call.has("values") else call.number(0)
    others = [axis for axis in range(call.rank()) if axis in ahead[count:]]
    sizes = [[shape[axis] for axis in others] for shape in call.shapes()]
    parts = [call.node("Shape", [places], start=0, end=1)]
    parts = [call.builder.numbers([each[:start] for each in sizes]), *parts] if start else parts
    parts = [*parts, call.builder.numbers([each[start:] for each in sizes])] if len(others) > start else parts
    values = call.node("Expand", [values, call.node("Concat", parts, axis=0)])
    values = call.transpose(values, [start, *[axis for axis in range(len(others) + 1) if axis != start]])
    options = {"reduction": "add"} if call.static("accumulate") else {}
    name = call.node("ScatterND", [call.transpose(call.input("input"), ahead), places, values], **options)
    return call.transpose(name, [ahead.index(axis) for axis in range(call.rank())])
