"""The record of a compiled function as a graph of `fx`."""

from __future__ import annotations

import itertools
import operator
import re
from typing import Any

from dynograd.overrides.fx.graph import Graph
from dynograd.overrides.fx.graph_module import GraphModule
from dynograd.overrides.fx.node import Argument, Node
from dynograd.plans.reporting.graphs import DRAWN, Value
from dynograd.plans.reporting.graphs import Graph as Record
from dynograd.plans.reporting.graphs import Node as Step

__all__ = ["from_record"]


def from_record(graph: Record, freeze: bool = False) -> GraphModule:
    """A module that runs the ops of a compiled function's record: those of a forward pass.

    Its placeholders are the tensors that are others in each call, in the order in which the program came to them. Parameters and constants are its
    attributes, and shared with the program's modules. Ops get the sizes and other arguments of the record.

    Args:
        graph: `graph()` of a compiled function, or one of its `graphs()`.
        freeze: tensors that the program makes within the function (zeros, masks, positions) become constants, as they were in the recorded call.
    Returns:
        A `GraphModule`; each node's `meta` has "line", "shape" and "dtype".
    Raises:
        ValueError: the record has a backward pass, the step of an optimizer, an op that draws random numbers, or, without `freeze`, tensors that
            the program makes within the function.

    >>> layer = dynograd.nn.Linear(2, 1)
    >>> model = dynograd.compile(lambda x: layer(x).relu())
    >>> results = [model(dynograd.ones(3, 2)) for _ in range(3)]
    >>> module = dynograd.fx.from_record(model.graph())
    >>> [str(node.target) for node in module.graph.nodes if node.op in ("placeholder", "get_attr")]
    ['x', 'layer.weight', 'layer.bias']
    >>> bool((module(dynograd.ones(3, 2)) == results[0]).all())
    True
    """
    _refuse(graph, freeze)
    attributes = {
        value: value.tensor if value.stays else value.example for value in graph.inputs if value.kind != "argument"
    }
    written, nodes = Graph(), dict[Value, Node]()
    for value in sorted(graph.inputs, key=attributes.__contains__):  # arguments first
        path = _path(value)
        nodes[value] = written.get_attr(path) if value in attributes else written.placeholder(path.replace(".", "_"))
    for step in graph.nodes:
        if step.kind == "write":  # whoever reads the new value says so
            continue
        node = _written(written, step, nodes)
        node.meta["line"] = step.line
        for place, value in enumerate(step.results):
            nodes[value] = written.call_function(operator.getitem, (node, place)) if step.gives_several else node
            nodes[value].meta["line"] = step.line
    for value, node in nodes.items():
        node.meta.update(shape=value.shape, dtype=value.dtype)
    written.output(_in_nodes(graph.result, nodes))
    tensors = {_path(value): tensor for value, tensor in attributes.items()}
    return GraphModule(tensors, written, re.sub(r"\W+", "_", graph.name))


def _refuse(graph: Record, freeze: bool) -> None:
    for node in graph.nodes:
        place = f"node {node.name} ({node.line})"
        if node.kind in ("backward", "step", "grad", "differentiate", "flag", "place", "function"):
            raise ValueError(
                f"from_record: expected the record of a forward pass, got one with the {place}. Compile the model instead of the step."
            )
        if DRAWN in node.arguments.values():
            raise ValueError(
                f"from_record: expected a record without random numbers, got one with the {place}. Call eval() of the model before it is recorded."
            )
    for value in graph.inputs:
        if value.kind == "new" and not freeze:
            raise ValueError(
                f"from_record: {value!r}, {value.type}, is made within {graph.name}, or is no argument of it, and another tensor in each call. "
                f"Make it once outside, hand it in, or say freeze=True: it becomes a constant."
            )


def _path(value: Value) -> str:
    return re.sub(r"[^\w.]+", "_", value.name).strip("_.")


def _written(written: Graph, step: Step, nodes: dict[Value, Node]) -> Node:
    arguments = _in_nodes(step.arguments, nodes)
    if step.op is None:
        return written.call_method("detach", tuple(arguments.values()))
    leading = list(itertools.takewhile(step.op.array_names.__contains__, step.op.parameter_names))
    args = tuple([arguments.pop(name) for name in leading])
    usual = step.op.signature.parameters
    kwargs = {name: value for name, value in arguments.items() if value is not usual[name].default}
    return written.call_function(step.op.function, args, kwargs)


def _in_nodes(value: Any, nodes: dict[Value, Node]) -> Argument:
    if isinstance(value, Value):
        return nodes[value]
    if isinstance(value, dict):
        return {key: _in_nodes(element, nodes) for key, element in value.items()}
    if isinstance(value, (list, tuple)):
        return getattr(value, "_make", type(value))([_in_nodes(element, nodes) for element in value])
    return value
