"""How an op is written: by its writer, by its formula, or by the ops that it is made of."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy

from dynograd.onnx.building import Builder
from dynograd.onnx.constants import differing_line
from dynograd.onnx.picking import values_in
from dynograd.onnx.places import PLACES
from dynograd.onnx.records import records_at
from dynograd.onnx.writers.calls import WRITERS, Call
from dynograd.onnx.writers.complexes import RULES, is_complex, write_complex
from dynograd.onnx.writers.elementwise import is_writable, write_elementwise
from dynograd.onnx.writers.matrices import ALGORITHMS
from dynograd.ops.op import Op
from dynograd.plans.reporting.graphs import Node, Value
from dynograd.tensor.tensor import Tensor

__all__ = ["form_of", "write_call"]


def form_of(op: Op) -> str:
    """How an op leaves: "writer", "formula", "parts", or "refused"."""
    if op.kind == "composed" or op.function in PLACES.handlers:
        return "parts"
    if op.name in WRITERS or op.name in ALGORITHMS or (op.name in RULES and op.kind != "elementwise"):
        return "writer"
    if op.kind == "elementwise":
        return "formula" if is_writable(op) else "refused"
    return "parts" if op.decomposition is not None else "refused"


def write_call(builder: Builder, nodes: Sequence[Node]) -> list[str]:
    """Writes one op, given at each recorded size; the names of its results."""
    if is_complex(nodes[0]):
        return write_complex(builder, nodes)
    call, op = Call(builder, nodes), nodes[0].op
    assert op is not None
    if op.name in WRITERS:
        names = WRITERS[op.name](call)
        if names is not None:
            return [names] if isinstance(names, str) else list(names)
    if op.name in ALGORITHMS:
        return _by_parts(call, ALGORITHMS[op.name])
    if op.kind == "elementwise":
        return [write_elementwise(call, op)]
    if op.decomposition is None or {"starts", "ends"} <= call.arguments.keys():  # parts may follow from these values
        raise call.refused("")
    return _by_parts(call, op.decomposition)


def _by_parts(call: Call, function: Callable[..., object]) -> list[str]:
    """Records what an op is made of, with tensors of the same sizes in the place of its own, and writes that."""
    builder, tensors = call.builder, values_in(call.arguments)
    samples = [_filled(node, 0) for node in call.nodes]
    parts = [functools.partial(_parts, function, node) for node in call.nodes]
    names = [builder.name(value) for value in tensors]
    graphs = records_at(parts, samples, call.op_name)
    for number in (1, 2) if any([value.dtype.numpy.kind in "iu" for value in tensors]) else ():
        try:
            other = records_at(parts[:1], [_filled(call.nodes[0], number)], call.op_name)[0]
        except IndexError:  # 1 is no index of a dim of size 1
            continue
        if differing_line(graphs[0], other) is not None:
            raise call.refused("whose parts depend on values of its arguments")
    builder.within += 1
    try:
        builder.write(graphs, names)
    finally:
        builder.within -= 1
    return [builder.name(value) for value in graphs[0].results]


def _filled(node: Node, number: int) -> list[Tensor]:
    """Tensors of the sizes of a node's, with one number throughout."""
    return [Tensor.wrap(numpy.full(value.shape, number, value.dtype.numpy)) for value in values_in(node.arguments)]


def _parts(function: Callable[..., object], node: Node, *tensors: Tensor) -> object:
    """The op by its parts, of these tensors in the place of those of a node."""
    remaining = iter(tensors)
    return function(**{name: _replaced(value, remaining) for name, value in node.arguments.items()})


def _replaced(value: Any, tensors: Iterator[Tensor]) -> object:
    if isinstance(value, Value):
        return next(tensors)
    return type(value)([_replaced(part, tensors) for part in value]) if isinstance(value, (tuple, list)) else value
