"""Normalisations."""

from __future__ import annotations

import numpy

from dynograd.onnx.writers.calls import Call, writer

__all__: list[str] = []


@writer("layer_norm")
def layer_norm(call: Call) -> str:
    rank = call.static("rank")
    shape = [call.fixed(axis - rank) for axis in range(rank)]
    weight = call.input("weight") if call.has("weight") else call.number(numpy.ones(shape))
    bias = [call.input("bias")] if call.has("bias") else []
    return _first_of(
        call,
        call.node(
            "LayerNormalization", [call.input("input"), weight, *bias], axis=-rank, epsilon=float(call.static("eps"))
        ),
    )


@writer("rms_norm")
def rms_norm(call: Call) -> str:
    name, axes = call.input("input"), [axis - call.static("rank") for axis in range(call.static("rank"))]
    mean = call.reduce("ReduceMean", call.node("Mul", [name, name]), axes, True)
    root = call.node("Sqrt", [call.node("Add", [mean, call.number(call.static("eps"))])])
    result = call.node("Div", [name, root])
    return _first_of(call, call.node("Mul", [result, call.input("weight")]) if call.has("weight") else result)


@writer("group_norm")
def group_norm(call: Call) -> str:
    groups, name = call.static("groups"), call.input("input")
    parts = call.node("Reshape", [name, call.ints(0, groups, -1)])
    ones, zeros = [call.number(numpy.full(groups, value)) for value in (1, 0)]
    parts = call.node("InstanceNormalization", [parts, ones, zeros], epsilon=float(call.static("eps")))
    result = call.reshape(parts, call.shapes())
    for kind, argument in (("Mul", "weight"), ("Add", "bias")):
        if call.has(argument):
            across = call.node("Reshape", [call.input(argument), call.ints(-1, *[1] * (call.rank() - 2))])
            result = call.node(kind, [result, across])
    return _first_of(call, result)


@writer("batch_norm")
def batch_norm(call: Call) -> list[str] | None:
    """With running statistics ONNX's own; with those of the batch by parts."""
    if call.static("training") or not call.has("running_mean"):
        return None
    channels = call.fixed(1)
    parts = [
        call.input(name) if call.has(name) else call.number(numpy.full(channels, value))
        for name, value in (("weight", 1), ("bias", 0))
    ]
    statistics = [call.input("running_mean"), call.input("running_var")]
    name = call.node(
        "BatchNormalization", [call.input("input"), *parts, *statistics], epsilon=float(call.static("eps"))
    )
    return [name, *statistics][: call.count]


def _first_of(call: Call, name: str) -> str:
    if call.count != 1:
        raise call.refused("with statistics as results")
    return name
