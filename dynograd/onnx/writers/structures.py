"""Branches and loops as ONNX's If, Loop and Scan, whose bodies are graphs within the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from dynograd.onnx.building import Builder, onnx_type
from dynograd.onnx.records import Body, Structure

__all__ = ["write_structure"]

Part = Any  # onnx.GraphProto


def write_structure(builder: Builder, structures: Sequence[Structure], operands: list[str]) -> list[str]:
    """Writes a structure, given at each recorded size, of operands with these names; the names of its results."""
    bodies = [list(each) for each in zip(*[structure.bodies for structure in structures])]
    count = len(structures[0].results)
    if structures[0].kind == "If":
        parts = [_part(builder, body, operands[1:], []) for body in bodies]
        holds = _truth(builder, operands[0])
        return builder.nodes_of("If", [holds], count, then_branch=parts[0], else_branch=parts[1])
    if structures[0].kind == "Loop":
        holds = _truth(builder, _inline(builder, bodies[1], operands)[0])
        body = _part(builder, bodies[0], *_inputs(builder, bodies[0], ["turn", "holds"]), goes_on=bodies[1])
        return builder.nodes_of("Loop", ["", holds, *operands], count, body=body)
    options = structures[0].options
    own = len(operands) - options["states"]
    body = _part(builder, bodies[0], *_inputs(builder, bodies[0], []))
    outputs = [int(options["reverse"])] * (count - options["states"])
    return builder.nodes_of(
        "Scan",
        operands,
        count,
        body=body,
        num_scan_inputs=own,
        scan_input_axes=[options["axis"]] * own,
        scan_input_directions=[int(options["reverse"])] * own,
        **({"scan_output_directions": outputs} if outputs else {}),
    )


def _truth(builder: Builder, name: str) -> str:
    """A tensor of one element as a truth without dims."""
    return builder.cast(builder.node("Reshape", [name, builder.constant(numpy.zeros(0), numpy.int64)]), bool)


def _inline(builder: Builder, bodies: Sequence[Body], names: Sequence[str]) -> list[str]:
    """Writes a body among the nodes around it."""
    builder.write([body.record for body in bodies], names)
    return [builder.name(value) for value in bodies[0].record.results]


def _inputs(builder: Builder, bodies: Sequence[Body], before: list[str]) -> tuple[list[str], list[Any]]:
    """Names of a body's own inputs, and what declares them (behind those of the turn of a loop, and of whether it goes on)."""
    from onnx import helper

    kinds = {"turn": numpy.int64, "holds": numpy.bool_}
    declared = [helper.make_tensor_value_info(builder.fresh(name), onnx_type(kinds[name]), []) for name in before]
    values = [value for value in bodies[0].record.graph.inputs if value.kind == "argument"]
    values.sort(key=lambda value: builder.place_of(value))
    names = [builder.fresh("state") for _ in values]
    shapes = [[None] * len(value.shape) for value in values]
    infos = [
        helper.make_tensor_value_info(name, onnx_type(value.dtype.numpy), shape)
        for name, value, shape in zip(names, values, shapes)
    ]
    return names, [*declared, *infos]


def _part(
    builder: Builder, bodies: Sequence[Body], names: Sequence[str], inputs: list[Any], goes_on: Sequence[Body] = ()
) -> Part:
    """A body as a graph; that of a loop says first whether it goes on."""
    from onnx import helper

    around, builder.nodes = builder.nodes, []
    results = _inline(builder, bodies, names)
    kinds = [value.dtype.numpy for value in bodies[0].record.results]
    if goes_on:
        results = [_truth(builder, _inline(builder, goes_on, results)[0]), *results]
        kinds = [numpy.dtype(bool), *kinds]
    outputs = [builder.node("Identity", [name]) for name in results]
    infos = [helper.make_tensor_value_info(name, onnx_type(kind), None) for name, kind in zip(outputs, kinds)]
    part = helper.make_graph(builder.nodes, builder.fresh("part"), inputs, infos)
    builder.nodes = around
    return part
