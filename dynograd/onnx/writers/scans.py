"""Running products, extremes and logarithms of sums, along a dim or along rows of segments: a Scan, one place after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from dynograd.onnx.building import onnx_type
from dynograd.onnx.writers.calls import Call, writer

__all__ = ["places_of_extremes_in_segments"]

# Of (the state, the element): the new state.
Step = Callable[[Call, str, str], str]


def _product(call: Call, state: str, element: str) -> str:
    return call.node("Mul", [state, element])


def _log_of_sum(call: Call, state: str, element: str) -> str:
    """log(exp(state) + exp(element)), by the larger one; that itself where it is infinite."""
    larger = call.node("Max", [state, element])
    parts = [call.node("Exp", [call.node("Sub", [name, larger])]) for name in (state, element)]
    result = call.node("Add", [larger, call.node("Log", [call.node("Add", parts)])])
    return call.node("Where", [call.node("IsInf", [larger]), larger, result])


_STEPS: dict[str, tuple[Step, float]] = {"product": (_product, 1), "log of sum": (_log_of_sum, -math.inf)}


@writer("cumprod", how="product")
@writer("logcumsumexp", how="log of sum")
def running(call: Call, how: str) -> str:
    step, first = _STEPS[how]
    axis, name = call.axis(), call.in_result_type("input")
    if not call.rank():
        return name
    state = _filled(call, first, call.dtype, [[*shape[:axis], *shape[axis + 1 :]] for shape in call.shapes()])

    def body(names: Sequence[str]) -> tuple[list[str], list[str]]:
        new = step(call, *names)
        return [new], [new]

    return _scan(call, [(state, call.dtype)], [(name, call.dtype, axis)], body, [call.dtype])[0]


@writer("segment_cumprod", how="product")
@writer("segment_logcumsumexp", how="log of sum")
def running_in_segments(call: Call, how: str) -> str:
    """The state begins anew at the first row of each segment."""
    step, first = _STEPS[how]
    state = _filled(call, first, call.dtype, [list(shape[1:]) for shape in call.shapes("values")])

    def body(names: Sequence[str]) -> tuple[list[str], list[str]]:
        new = step(call, call.node("Where", [names[2], call.number(first), names[0]]), names[1])
        return [new], [new]

    inputs = [(call.input("values"), call.dtype, 0), (_begins(call), numpy.dtype(bool), 0)]
    return _scan(call, [(state, call.dtype)], inputs, body, [call.dtype])[0]


def _begins(call: Call) -> str:
    """Which rows are the first ones of a segment."""
    count = call.squeeze(call.node("Shape", [call.input("values")], start=0, end=1), 0)
    zero, by = call.constant(0, numpy.int64), call.constant(1, numpy.int64)
    places = call.node("Range", [zero, count, by])
    starts = call.cast(call.input("starts"), numpy.int64)
    same = call.cast(call.node("Equal", [call.unsqueeze(places, 1), starts]), numpy.int32)
    return call.cast(call.reduce("ReduceSum", same, [1], False), bool)


def places_of_extremes_in_segments(call: Call, kind: str) -> str:
    """The last place, counted from the first row of the segment, where the extreme so far was; `kind` compares an element with it."""
    dtype, whole = call.dtype_of("values"), numpy.dtype(numpy.int64)
    if dtype.kind == "b":
        raise call.refused(f"of {dtype}")
    shapes = [list(shape[1:]) for shape in call.shapes("values")]
    states = [
        (_filled(call, 0, dtype, shapes), dtype),
        (_filled(call, 0, whole, shapes), whole),
        (call.constant(0, whole), whole),
    ]
    step = call.constant(1, whole)

    def body(names: Sequence[str]) -> tuple[list[str], list[str]]:
        best, place, turn, element, begins = names
        turn = call.node("Where", [begins, call.constant(0, whole), turn])
        is_new = call.node("Or", [begins, call.node(kind, [element, best])])
        best, place = call.node("Where", [is_new, element, best]), call.node("Where", [is_new, turn, place])
        return [best, place, call.node("Add", [turn, step])], [place]

    inputs = [(call.input("values"), dtype, 0), (_begins(call), numpy.dtype(bool), 0)]
    return _scan(call, states, inputs, body, [whole])[0]


@writer("cummax", kind="GreaterOrEqual")
@writer("cummin", kind="LessOrEqual")
def running_extremes(call: Call, kind: str) -> list[str]:
    """The extreme so far, and the last place where it was."""
    axis, name = call.axis(), call.input("input")
    if not call.rank() or call.dtype.kind == "b":
        raise call.refused(f"of a tensor of {call.rank()} dims and {call.dtype}")
    shapes = [[*shape[:axis], *shape[axis + 1 :]] for shape in call.shapes()]
    limits = numpy.iinfo(call.dtype) if call.dtype.kind in "iu" else None
    low, high = (-math.inf, math.inf) if limits is None else (limits.min, limits.max)
    states = [
        (_filled(call, low if kind == "GreaterOrEqual" else high, call.dtype, shapes), call.dtype),
        (_filled(call, 0, numpy.int64, shapes), numpy.dtype(numpy.int64)),
        (call.constant(0, numpy.int64), numpy.dtype(numpy.int64)),
    ]

    def body(names: Sequence[str]) -> tuple[list[str], list[str]]:
        best, place, turn, element = names
        is_new = call.node(kind, [element, best])
        best, place = call.node("Where", [is_new, element, best]), call.node("Where", [is_new, turn, place])
        return [best, place, call.node("Add", [turn, call.constant(1, numpy.int64)])], [best, place]

    return _scan(call, states, [(name, call.dtype, axis)], body, [call.dtype, numpy.dtype(numpy.int64)])


def _filled(call: Call, value: Any, dtype: Any, shapes: Sequence[Sequence[int]]) -> str:
    return call.node("Expand", [call.constant(value, dtype), call.builder.numbers(shapes)])


def _scan(
    call: Call,
    states: Sequence[tuple[str, Any]],
    inputs: Sequence[tuple[str, Any, int]],
    body: Callable[[Sequence[str]], tuple[list[str], list[str]]],
    kinds: Sequence[Any],
) -> list[str]:
    """Writes a Scan; the names of what it collects.

    Args:
        states: (name, dtype) of what it begins with.
        inputs: (name, dtype, axis) of what it goes along.
        body: of the states and one element of each input: the new states, and what is collected, along the axis of the first input.
        kinds: the dtypes of what is collected.
    """
    from onnx import helper

    builder = call.builder
    own = [builder.fresh("state") for _ in states] + [builder.fresh("element") for _ in inputs]
    entries = [*states, *[(name, dtype) for name, dtype, _ in inputs]]
    dtypes = [dtype for _, dtype in entries]
    around, builder.nodes = builder.nodes, []
    new, collected = body(own)
    outputs = [builder.node("Identity", [name]) for name in (*new, *collected)]
    kinds_out = [*[kind for _, kind in states], *kinds]
    takes, gives = [
        [helper.make_tensor_value_info(name, onnx_type(kind), None) for name, kind in zip(names, of)]
        for names, of in ((own, dtypes), (outputs, kinds_out))
    ]
    part = helper.make_graph(builder.nodes, builder.fresh("part"), takes, gives)
    builder.nodes = around
    results = call.nodes_of(
        "Scan",
        [name for name, _ in entries],
        len(outputs),
        body=part,
        num_scan_inputs=len(inputs),
        scan_input_axes=[axis for _, _, axis in inputs],
        scan_output_axes=[inputs[0][2]] * len(collected),
    )
    return results[len(states) :]
