"""Reductions, extremes, orders and running sums."""

from __future__ import annotations

import math

import numpy

from dynograd.onnx.writers.calls import Call, writer

__all__: list[str] = []


@writer("sum", kind="ReduceSum")
@writer("mean", kind="ReduceMean")
@writer("prod", kind="ReduceProd")
@writer("amax", kind="ReduceMax")
@writer("amin", kind="ReduceMin")
@writer("logsumexp", kind="ReduceLogSumExp")
def reduction(call: Call, kind: str) -> str:
    name, axes, keepdim = call.in_result_type("input"), call.axes(), call.static("keepdim")
    if not axes:
        return call.node("Identity", [name])
    return call.reduce(kind, name, axes, keepdim)


@writer("any", kind="ReduceMax")
@writer("all", kind="ReduceMin")
def truths(call: Call, kind: str) -> str:
    name = call.cast(call.cast(call.input("input"), bool), numpy.int32)
    return call.cast(call.reduce(kind, name, call.axes(), call.static("keepdim")), bool)


@writer("not_nan")
def not_nan(call: Call) -> str:
    if call.dtype_of("input").kind != "f":
        return call.node("Expand", [call.number(1), call.builder.numbers(call.result_shapes())])
    return call.cast(call.node("Not", [call.node("IsNaN", [call.input("input")])]), call.dtype)


@writer("count_nonzero")
def count_nonzero(call: Call) -> str:
    name = call.cast(call.cast(call.input("input"), bool), numpy.int64)
    return call.reduce("ReduceSum", name, call.axes(), False)


@writer("max", kind="Max")
@writer("min", kind="Min")
def extremes(call: Call, kind: str) -> list[str]:
    name, axis, keepdim = call.input("input"), call.axis(), call.static("keepdim")
    return [
        call.reduce(f"Reduce{kind}", name, [axis], keepdim),
        call.node(f"Arg{kind}", [name], axis=axis, keepdims=int(keepdim)),
    ]


@writer("argmax", kind="ArgMax")
@writer("argmin", kind="ArgMin")
def places_of_extremes(call: Call, kind: str) -> str:
    name, keepdim = call.input("input"), call.static("keepdim")
    if call.static("dim") is None:
        flat = call.node("Reshape", [name, call.ints(-1)])
        place = call.node(kind, [flat], axis=0, keepdims=0)
        return call.reshape(place, call.result_shapes()) if keepdim else place
    return call.node(kind, [name], axis=call.axis(), keepdims=int(keepdim))


@writer("var", "std")
def spread(call: Call) -> str:
    name, axes, keepdim = call.input("input"), call.axes(), call.static("keepdim")
    correction = call.static("correction")
    off = call.node("Sub", [name, call.reduce("ReduceMean", name, axes, True)])
    squares = call.reduce("ReduceSum", call.node("Mul", [off, off]), axes, keepdim)
    counts = [math.prod([shape[axis] for axis in axes]) for shape in call.shapes()]
    count = call.cast(call.builder.scalar(counts), call.dtype)
    variance = call.node("Div", [squares, call.node("Sub", [count, call.number(correction)])])
    return call.node("Sqrt", [variance]) if call.op_name == "std" else variance


@writer("vector_norm")
def vector_norm(call: Call) -> str:
    name, p, axes, keepdim = call.input("input"), call.static("p"), call.axes(), call.static("keepdim")
    if p in (1, 2):
        return call.reduce(f"ReduceL{int(p)}", name, axes, keepdim)
    absolute = call.node("Abs", [name])
    if p in (math.inf, -math.inf):
        return call.reduce("ReduceMax" if p > 0 else "ReduceMin", absolute, axes, keepdim)
    if p == 0:
        return call.reduce("ReduceSum", call.cast(call.cast(name, bool), call.dtype), axes, keepdim)
    powers = call.reduce("ReduceSum", call.node("Pow", [absolute, call.number(p)]), axes, keepdim)
    return call.node("Pow", [powers, call.number(1 / p)])


@writer("absolute_power", "signed_power")
def power(call: Call) -> str:
    name = call.input("input")
    result = call.node("Pow", [call.node("Abs", [name]), call.number(call.static("exponent"))])
    return result if call.op_name == "absolute_power" else call.node("Mul", [call.node("Sign", [name]), result])


@writer("cumsum")
def cumsum(call: Call) -> str:
    return call.node("CumSum", [call.in_result_type("input"), call.constant(call.axis(), numpy.int64)])


@writer("sum_onwards")
def sum_onwards(call: Call) -> str:
    return call.node("CumSum", [call.in_result_type("input"), call.constant(call.axis(), numpy.int64)], reverse=1)


@writer("sort")
def sort(call: Call) -> list[str]:
    return _ordered(call, call.dims(call.axis()), call.static("descending"))


@writer("argsort")
def argsort(call: Call) -> str:
    return _ordered(call, call.dims(call.axis()), call.static("descending"))[1]


@writer("topk")
def topk(call: Call) -> list[str]:
    return _ordered(call, call.each("k"), call.static("largest"))


def _ordered(call: Call, counts: list[int], descending: bool) -> list[str]:
    count = call.builder.number(counts)
    options = {"largest": int(descending), "sorted": 1}
    return call.nodes_of("TopK", [call.input("input"), count], 2, axis=call.axis(), **options)
