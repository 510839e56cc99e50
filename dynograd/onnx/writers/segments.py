"""Ops on rows of ragged tensors, whose values lie behind one another."""

from __future__ import annotations

import math

import numpy

from dynograd.onnx.writers.calls import Call, writer

__all__: list[str] = []


@writer("segment_sum")
def segment_sum(call: Call) -> str:
    """A product with the matrix (rows, values) that is 1 where a value is in a row."""
    flat = call.node("Flatten", [call.in_result_type("values")], axis=1)
    return call.reshape(call.node("MatMul", [call.cast(_within(call), call.dtype), flat]), call.result_shapes())


@writer("segment_extreme")
def segment_extreme(call: Call) -> str:
    """The largest or smallest value of each row, with infinities in the place of those of other rows."""
    is_largest = call.static("which") == "max"
    mask = call.unsqueeze(_within(call), *range(2, call.rank("values") + 1))
    others = call.number(-math.inf if is_largest else math.inf)
    values = call.node("Where", [mask, call.unsqueeze(call.input("values"), 0), others])
    return call.reduce("ReduceMax" if is_largest else "ReduceMin", values, [1], False)


def _within(call: Call) -> str:
    """(rows, values): which value is in which row."""
    count = call.squeeze(call.node("Shape", [call.input("values")], start=0, end=1), 0)
    places = call.node("Range", [call.constant(0, numpy.int64), count, call.constant(1, numpy.int64)])
    starts, ends = [call.unsqueeze(call.cast(call.input(name), numpy.int64), 1) for name in ("starts", "ends")]
    return call.node("And", [call.node("GreaterOrEqual", [places, starts]), call.node("Less", [places, ends])])
