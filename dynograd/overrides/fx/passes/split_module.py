"""Splits a graph into modules that run one after the other."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

from dynograd.nn.module import Module
from dynograd.overrides.fx.graph import Graph
from dynograd.overrides.fx.graph_module import GraphModule, _copy_attr
from dynograd.overrides.fx.node import Node, map_arg

__all__ = ["split_module"]


def split_module(
    m: GraphModule,
    root_m: Module,
    split_callback: Callable[[Node], int],
    qualname_map: dict[str, str] | None = None,
    keep_original_order: bool | None = False,
    keep_original_node_name: bool = False,
) -> GraphModule:
    """A module of submodules `submod_0`, `submod_1`, ...: `split_callback` says of each node in which one it runs.

    Raises:
        ValueError: a part would need what itself gives to a later one, so that no order runs them.

    >>> from dynograd.fx.passes.split_module import split_module
    >>> traced = dynograd.fx.symbolic_trace(lambda x: (x + 1) * 2)
    >>> parts = split_module(traced, traced, lambda node: int(node.name == "mul"))
    >>> [name for name, _ in parts.named_children()], parts(tensor([1.0]))
    (['submod_0', 'submod_1'], tensor([4.]))
    """
    inner = [node for node in m.graph.nodes if node.op not in ("placeholder", "output", "get_attr")]
    part_of = {node: split_callback(node) for node in inner}
    order = _ordered(part_of)
    graphs = {part: Graph() for part in order}
    inside: dict[Any, dict[Node, Node]] = {part: {} for part in order}
    inputs: dict[Any, list[Node]] = {part: [] for part in order}
    outputs: dict[Any, list[Node]] = {part: [] for part in order}

    def read_in(part: Any, node: Node) -> Node:
        if node not in inside[part]:
            if node.op == "get_attr":
                inside[part][node] = graphs[part].node_copy(node)
            else:
                first = [each for each in graphs[part].nodes if each.op != "placeholder"]
                with (
                    graphs[part].inserting_before(first[0] if first else None)
                    if first
                    else graphs[part].inserting_after()
                ):
                    inside[part][node] = graphs[part].placeholder(node.name)
                inputs[part].append(node)
        return inside[part][node]

    for node in inner:
        part = part_of[node]
        inside[part][node] = graphs[part].node_copy(node, functools.partial(read_in, part))
        if any([part_of.get(user, part) != part or user.op == "output" for user in node.users]):
            outputs[part].append(node)
        if qualname_map is not None and node.op == "call_module":
            qualname_map[f"submod_{part}.{node.target}"] = str(node.target)
    whole, values = Graph(), {}
    attributes: dict[str, Any] = {}
    for node in m.graph.nodes:
        if node.op == "placeholder":
            values[node] = whole.node_copy(node)
    for part in order:
        results = [inside[part][node] for node in outputs[part]]
        graphs[part].output(results[0] if len(results) == 1 else tuple(results))
        attributes[f"submod_{part}"] = GraphModule(root_m, graphs[part])
        called = whole.call_module(f"submod_{part}", tuple([values[node] for node in inputs[part]]))
        for place, node in enumerate(outputs[part]):
            values[node] = called if len(results) == 1 else whole.call_function(operator.getitem, (called, place))
    holder = Module()
    for name, module in attributes.items():
        holder.add_module(name, module)
    for node in m.graph.output_node().all_input_nodes:
        if node.op == "get_attr":
            values[node] = whole.get_attr(str(node.target))
            _copy_attr(root_m, holder, str(node.target))
    whole.output(map_arg(m.graph.output_node().args[0], lambda node: values[node]))
    return GraphModule(holder, whole)


def _ordered(part_of: dict[Node, Any]) -> list[Any]:
    """The parts in an order in which each has what it reads."""
    needs: dict[Any, set] = {part: set() for part in part_of.values()}
    for node, part in part_of.items():
        needs[part] |= {part_of[read] for read in node.all_input_nodes if part_of.get(read, part) != part}
    order: list[Any] = []
    while needs:
        ready = [part for part, before in needs.items() if before <= set(order)]
        if not ready:
            raise ValueError(
                f"split_module: parts {', '.join(map(str, needs))} need each other's values, so no order runs them."
            )
        order.append(ready[0])
        del needs[ready[0]]
    return order
