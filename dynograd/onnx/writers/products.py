"""Matrix products, softmax and attention."""

from __future__ import annotations

import math

import numpy

from dynograd.onnx.writers.calls import Call, writer

__all__: list[str] = []


@writer("matmul")
def matmul(call: Call) -> str:
    return call.node("MatMul", [call.input("input"), call.input("other")])


@writer("linear")
def linear(call: Call) -> str:
    name, weight = call.input("input"), call.input("weight")
    bias = [call.input("bias")] if call.has("bias") else []
    if call.rank() == 2 and call.rank("weight") == 2:
        return call.node("Gemm", [name, weight, *bias], transB=1)
    if call.rank("weight") == 2:
        weight = call.transpose(weight, (1, 0))
    product = call.node("MatMul", [name, weight])
    return call.node("Add", [product, *bias]) if bias else product


@writer("softmax", kind="Softmax")
@writer("log_softmax", kind="LogSoftmax")
def softmax(call: Call, kind: str) -> str:
    return call.node(kind, [call.input("input")], axis=call.axis())


@writer("scaled")
def scaled(call: Call) -> str:
    return call.node("Mul", [call.input("input"), call.number(call.static("factor"))])


@writer("identity_like")
def identity_like(call: Call) -> str:
    return call.node("EyeLike", [call.input("input")])


@writer("cross")
def cross(call: Call) -> str:
    axis, a, b = call.axis(), call.input("input"), call.input("other")

    def turned(name: str, order: tuple[int, ...]) -> str:
        return call.node("Gather", [name, call.constant(order, numpy.int64)], axis=axis)

    left = call.node("Mul", [turned(a, (1, 2, 0)), turned(b, (2, 0, 1))])
    right = call.node("Mul", [turned(a, (2, 0, 1)), turned(b, (1, 2, 0))])
    return call.node("Sub", [left, right])


@writer("scaled_dot_product_attention")
def attention(call: Call) -> list[str]:
    """softmax(query @ key.T * scale + mask) @ value; a query that may look at nothing gives 0."""
    if call.static("p"):
        raise call.refused("with dropout")
    query, key, value = call.input("query"), _shared_heads(call, "key"), _shared_heads(call, "value")
    rank = call.rank("key")
    turned = call.transpose(key, [*range(rank - 2), rank - 1, rank - 2])
    scores = call.node("MatMul", [call.node("Mul", [query, call.number(call.static("scale"))]), turned])
    lowest, allowed = call.number(-math.inf), ""
    if call.has("mask"):
        allowed = mask = call.input("mask")
        if call.dtype_of("mask").kind == "b":
            scores = call.node("Where", [mask, scores, lowest])
        else:
            scores = call.node("Add", [scores, mask])
            allowed = call.node("Greater", [mask, lowest])
    if call.static("causal"):
        shapes = list(zip(call.dims(-2, "query"), call.dims(-2, "key")))
        ones = call.node("Expand", [call.constant(1, numpy.float32), call.builder.numbers(shapes)])
        scores = call.node("Where", [call.cast(call.node("Trilu", [ones], upper=0), bool), scores, lowest])
    weights = call.node("Softmax", [scores], axis=-1)
    if allowed:
        sees = call.reduce("ReduceMax", call.cast(allowed, numpy.int32), [call.rank("mask") - 1], True)
        weights = call.node("Where", [call.cast(sees, bool), weights, call.number(0)])
    return [call.node("MatMul", [weights, value])] * call.count


def _shared_heads(call: Call, name: str) -> str:
    """Keys or values with each head repeated for the group of query heads that shares it."""
    own, rank = call.input(name), call.rank(name)
    if rank < 3 or call.dims(-3, name) == call.dims(-3, "query"):
        return own
    times = call.fixed(-3, "query") // call.fixed(-3, name)
    wide = [[*shape[:-2], times, *shape[-2:]] for shape in call.shapes(name)]
    shapes = [[*shape[:-3], shape[-3] * times, *shape[-2:]] for shape in call.shapes(name)]
    return call.reshape(call.node("Expand", [call.unsqueeze(own, rank - 2), call.builder.numbers(wide)]), shapes)


@writer("binary_cross_entropy")
def yes_no_entropy(call: Call) -> str:
    """(target - 1) * log(1 - input) - target * log(input), with logarithms of at least -100."""
    own, target, lowest = call.in_result_type("input"), call.in_result_type("target"), call.number(-100)
    no, yes = [
        call.node("Max", [call.node("Log", [name]), lowest]) for name in (call.node("Sub", [call.number(1), own]), own)
    ]
    parts = [call.node("Mul", [call.node("Sub", [target, call.number(1)]), no]), call.node("Mul", [target, yes])]
    return call.node("Sub", parts)
