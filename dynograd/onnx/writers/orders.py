"""Ops that go by the order of elements, along a dim or within rows of segments, and places among sorted ones."""

from __future__ import annotations

import math

import numpy

from dynograd.onnx.writers.calls import Call, writer
from dynograd.onnx.writers.scans import places_of_extremes_in_segments

__all__: list[str] = []

_RUNNING = {"cummax": "GreaterOrEqual", "cummin": "LessOrEqual"}


@writer("searchsorted")
def searchsorted(call: Call) -> str:
    """How many of the sorted elements are below each value."""
    if call.has("sorter"):
        raise call.refused("with a sorter")
    name, sequence = call.input("input"), call.input("sorted_sequence")
    kind = numpy.result_type(call.dtype_of("input"), call.dtype_of("sorted_sequence"))
    name, sequence = call.cast(name, kind), call.cast(sequence, kind)
    rank = call.rank()
    if call.rank("sorted_sequence") > 1:
        sequence = call.unsqueeze(sequence, rank - 1)
    below = call.node("GreaterOrEqual" if call.static("right") else "Greater", [call.unsqueeze(name, rank), sequence])
    return call.cast(call.reduce("ReduceSum", call.cast(below, numpy.int64), [rank], False), call.dtype)


@writer("isin")
def isin(call: Call) -> str:
    rank = call.rank("elements")
    flat = call.node("Reshape", [call.input("test_elements"), call.ints(-1)])
    kind = numpy.result_type(call.dtype_of("elements"), call.dtype_of("test_elements"))
    own = call.unsqueeze(call.cast(call.input("elements"), kind), rank)
    same = call.cast(call.node("Equal", [own, call.cast(flat, kind)]), numpy.int32)
    holds = call.cast(call.reduce("ReduceSum", same, [rank], False), bool)
    return call.node("Not", [holds]) if call.static("invert") else holds


@writer("whole_places")
def whole_places(call: Call) -> str:
    kind = {"lower": "Floor", "higher": "Ceil", "nearest": "Round"}[call.static("rounding")]
    return call.cast(call.node(kind, [call.input("input")]), numpy.int64)


@writer("kthvalue")
def kthvalue(call: Call) -> list[str]:
    k = call.each("k")
    return _at(call, [number - 1 for number in k])


@writer("median")
def median(call: Call) -> list[str]:
    if call.static("ignore_nan"):
        raise call.refused("of numbers that are not NaN")
    return _at(call, [(size - 1) // 2 for size in call.dims(call.axis())])


def _at(call: Call, places: list[int]) -> list[str]:
    """The element at a place in ascending order, and the first place where it stands."""
    axis, name = call.axis(), call.input("input")
    count = call.builder.number([place + 1 for place in places])
    smallest = call.nodes_of("TopK", [name, count], 2, axis=axis, largest=0, sorted=1)[0]
    value = call.node("Slice", [smallest, call.ints(-1), call.ints(2**62), call.ints(axis)])
    same = call.cast(call.node("Equal", [name, value]), numpy.int32)
    keepdim = call.static("keepdim")
    index = call.node("ArgMax", [same], axis=axis, keepdims=int(keepdim))
    return [value if keepdim else call.squeeze(value, axis), index]


@writer("median_of_all")
def median_of_all(call: Call) -> str:
    if call.static("ignore_nan"):
        raise call.refused("of numbers that are not NaN")
    flat = call.node("Reshape", [call.input("input"), call.ints(-1)])
    count = call.node("Div", [call.node("Add", [call.node("Shape", [flat]), call.ints(1)]), call.ints(2)])
    smallest = call.nodes_of("TopK", [flat, count], 2, axis=0, largest=0, sorted=1)[0]
    return call.squeeze(call.node("Slice", [smallest, call.ints(-1), call.ints(2**62)]), 0)


@writer("mode")
def mode(call: Call) -> list[str]:
    """Each element is compared with each other one: of those with the most equals the smallest, and the last place where it stands."""
    name, axis, keepdim = call.input("input"), call.axis(), call.static("keepdim")
    if not call.rank():
        return [name, call.constant(0, numpy.int64)]
    kind = numpy.dtype(numpy.int32) if call.dtype == bool else call.dtype
    name = name if kind == call.dtype else call.cast(name, kind)
    same = call.node("Equal", [call.unsqueeze(name, axis + 1), call.unsqueeze(name, axis)])
    counts = call.reduce("ReduceSum", call.cast(same, numpy.int32), [axis + 1], False)
    is_most = call.node("Equal", [counts, call.reduce("ReduceMax", counts, [axis], True)])
    largest = call.constant(math.inf if kind.kind == "f" else numpy.iinfo(kind).max, kind)
    value = call.reduce("ReduceMin", call.node("Where", [is_most, name, largest]), [axis], True)
    own = call.cast(call.node("Equal", [name, value]), numpy.int32)
    index = call.node("ArgMax", [own], axis=axis, keepdims=int(keepdim), select_last_index=1)
    value = value if keepdim else call.squeeze(value, axis)
    return [value if kind == call.dtype else call.cast(value, bool), index]


@writer("segment_places")
def segment_places(call: Call) -> list[str] | str:
    """Rows sorted by their values, and these, which keep that order, by their segments."""
    how, values = call.static("how"), call.input("values")
    if how in _RUNNING:
        return places_of_extremes_in_segments(call, _RUNNING[how])
    if how not in ("ascending", "descending", "largest", "smallest", "kth", "median", "max", "min"):
        raise call.refused(f"of {how}")
    starts, ends = [call.cast(call.input(name), numpy.int64) for name in ("starts", "ends")]
    row_of = _row_of(call, values, starts)
    count = call.node("Shape", [values], start=0, end=1)
    largest = int(how in ("descending", "largest", "max"))
    order = call.nodes_of("TopK", [values, count], 2, axis=0, largest=largest, sorted=1)[1]
    wide = call.node("Expand", [call.unsqueeze(row_of, 1), call.node("Shape", [values])])
    rows = call.node("GatherElements", [wide, order], axis=0)
    by_row = call.nodes_of("TopK", [rows, count], 2, axis=0, largest=0, sorted=1)[1]
    order = call.node("GatherElements", [order, by_row], axis=0)
    if how in ("ascending", "descending"):
        return call.node("Sub", [order, call.unsqueeze(call.node("Gather", [starts, row_of], axis=0), 1)])
    per = call.static("k") if how in ("largest", "smallest") else 1
    places = call.unsqueeze(starts, 1)
    if how == "median":
        middle = call.node("Div", [call.node("Sub", [call.node("Sub", [ends, starts]), call.ints(1)]), call.ints(2)])
        places = call.node("Add", [places, call.unsqueeze(middle, 1)])
    elif how == "kth":
        places = call.node("Add", [places, call.ints(call.static("k"))])
    places = call.node("Reshape", [call.node("Add", [places, call.ints(*range(per))]), call.ints(-1)])
    first = call.node("Expand", [call.unsqueeze(starts, 1), call.constant([1, per], numpy.int64)])
    first = call.unsqueeze(call.node("Reshape", [first, call.ints(-1)]), 1)
    return call.node("Sub", [call.node("Gather", [order, places], axis=0), first])


@writer("segment_gather")
def segment_gather(call: Call) -> str:
    values, per = call.input("values"), call.static("per")
    starts = call.cast(call.input("starts"), numpy.int64)
    places = call.cast(call.input("places"), numpy.int64)
    if per:
        first = call.node("Expand", [call.unsqueeze(starts, 1), call.constant([1, per], numpy.int64)])
        first = call.node("Reshape", [first, call.ints(-1)])
    else:
        first = call.node("Gather", [starts, _row_of(call, values, starts)], axis=0)
    return call.node("GatherElements", [values, call.node("Add", [places, call.unsqueeze(first, 1)])], axis=0)


def _row_of(call: Call, values: str, starts: str) -> str:
    """Which segment each row is in; segments stand one behind the other."""
    count = call.squeeze(call.node("Shape", [values], start=0, end=1), 0)
    zero, by = call.constant(0, numpy.int64), call.constant(1, numpy.int64)
    places = call.unsqueeze(call.node("Range", [zero, count, by]), 1)
    begun = call.cast(call.node("GreaterOrEqual", [places, starts]), numpy.int64)
    return call.node("Sub", [call.reduce("ReduceSum", begun, [1], False), by])
