"""Replaces each part of a graph that does what a pattern does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from dynograd.nn.module import Module
from dynograd.overrides.fx._symbolic_trace import symbolic_trace
from dynograd.overrides.fx.graph import Graph
from dynograd.overrides.fx.graph_module import GraphModule, _copy_attr, _has_attr
from dynograd.overrides.fx.node import Node

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]


class Match(NamedTuple):
    """Where the pattern was met: the node of its result, and the node of the graph for each node of the pattern."""

    anchor: Node
    nodes_map: dict[Node, Node]


class ReplacedPatterns(NamedTuple):
    """A `Match`, and the nodes that stand in its place."""

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


def replace_pattern(
    gm: GraphModule, pattern: Callable | GraphModule, replacement: Callable | GraphModule
) -> list[Match]:
    """Puts `replacement` in the place of every part of the graph that does what `pattern` does, where the parts do not overlap.

    Both are functions (or modules) of the same inputs, and are traced. Inner values of a part that something else reads keep it as it is.

    Args:
        gm: the module, which is changed.
        pattern, replacement: functions or modules.
    Returns:
        A list of `Match`.

    >>> def f(x, y):
    ...     return dynograd.relu(x + y)
    >>> traced = dynograd.fx.symbolic_trace(lambda a, b: f(a, b) * 2)
    >>> len(dynograd.fx.replace_pattern(traced, f, lambda x, y: dynograd.maximum(x, -y)))
    1
    >>> traced(tensor([1.0]), tensor([2.0]))
    tensor([2.])
    """
    return [Match(each.anchor, each.nodes_map) for each in replace_pattern_with_filters(gm, pattern, replacement)]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: Callable | Graph | GraphModule,
    replacement: Callable | Graph | GraphModule | None = None,
    match_filters: list[Callable] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable | None = None,
) -> list[ReplacedPatterns]:
    """As `replace_pattern`.

    Args:
        match_filters: functions of (match, graph, graph of the pattern); all must be True of a part that is replaced.
        ignore_literals: whether numbers in the pattern stand for any.
        replacement_callback: gives the replacement for a match, in place of `replacement`.
    """
    pattern_graph = _graph_of(pattern)
    replaced: list[ReplacedPatterns] = []
    taken: set[Node] = set()
    for anchor in list(gm.graph.nodes):
        match = _match(pattern_graph, anchor, ignore_literals)
        if match is None or taken & set(match.nodes_map.values()) - _inputs_of(pattern_graph, match):
            continue
        if not all([allowed(match, gm.graph, pattern_graph) for allowed in match_filters or []]):
            continue
        if replacement_callback is not None:
            new = _graph_of(replacement_callback(match, gm.graph, pattern_graph))
        else:
            assert replacement is not None
            new = _graph_of(replacement)
        inside = [match.nodes_map[node] for node in pattern_graph.nodes if node.op not in ("placeholder", "output")]
        taken.update(inside)
        replaced.append(_put(gm, pattern_graph, match, new, inside))
        for other in (pattern, replacement):
            _take_attributes(gm, other)
    gm.recompile()
    return replaced


def _graph_of(program: Any) -> Graph:
    if isinstance(program, Graph):
        return program
    return program.graph if isinstance(program, GraphModule) else symbolic_trace(program).graph


def _take_attributes(gm: GraphModule, program: Any) -> None:
    """Modules and tensors of the replacement that the graph reads now."""
    if not isinstance(program, Module):
        return
    for node in gm.graph.nodes:
        if node.op in ("call_module", "get_attr"):
            assert isinstance(node.target, str)
            if not _has_attr(gm, node.target) and _has_attr(program, node.target):
                _copy_attr(program, gm, node.target)


def _inputs_of(pattern: Graph, match: Match) -> set[Node]:
    values = [match.nodes_map.get(node) for node in pattern.nodes if node.op == "placeholder"]
    return {value for value in values if isinstance(value, Node)}


def _match(pattern: Graph, anchor: Node, ignore_literals: bool) -> Match | None:
    """The part of the graph that ends with `anchor`, where it does what the pattern does."""
    result = pattern.output_node().args[0]
    ends = list(result) if isinstance(result, (list, tuple)) else [result]
    if not ends or not isinstance(ends[-1], Node):
        return None
    nodes: dict[Node, Node] = {}

    def same(expected: Any, got: Any) -> bool:
        if isinstance(expected, Node):
            return (isinstance(got, Node) and same_node(expected, got)) or (
                expected.op == "placeholder" and nodes.setdefault(expected, got) == got
            )
        if isinstance(got, Node):
            return False
        if isinstance(expected, (list, tuple)) and isinstance(got, (list, tuple)):
            return len(expected) == len(got) and all([same(first, other) for first, other in zip(expected, got)])
        if isinstance(expected, dict) and isinstance(got, dict):
            return expected.keys() == got.keys() and all([same(expected[key], got[key]) for key in expected])
        if isinstance(expected, slice) and isinstance(got, slice):
            return all([same(getattr(expected, name), getattr(got, name)) for name in ("start", "stop", "step")])
        return ignore_literals or (type(expected) is type(got) and expected == got)

    def same_node(expected: Node, got: Node) -> bool:
        if expected in nodes:
            return nodes[expected] is got
        if expected.op == "placeholder":
            nodes[expected] = got
            return True
        if expected.op != got.op or expected.target != got.target or len(expected.args) != len(got.args):
            return False
        nodes[expected] = got
        return same(expected.args, got.args) and same(expected.kwargs, got.kwargs)

    def ends_from(remaining: list[Any]) -> bool:
        """Whether the other results of the pattern are found too, each in some node of the graph."""
        missing = next((end for end in remaining if end not in nodes), None)
        if missing is None:
            return True
        before = dict(nodes)
        for candidate in anchor.graph.nodes:
            if candidate not in nodes.values() and same_node(missing, candidate) and ends_from(remaining):
                return True
            nodes.clear()
            nodes.update(before)
        return False

    if not same_node(ends[-1], anchor) or not all([isinstance(end, Node) for end in ends]):
        return None
    if not ends_from([end for end in ends if end.op != "placeholder"]):
        return None
    inside = {nodes[node] for node in nodes if node.op != "placeholder"}
    results = {nodes[end] for end in ends if isinstance(end, Node)}
    for node in inside - results:
        if any([user not in inside for user in node.users]):
            return None
    match = Match(anchor, nodes)
    return match if _place_of(pattern, match) is not None else None


def _place_of(pattern: Graph, match: Match) -> Node | None:
    """The node before which a replacement may stand: behind the inputs and before all that reads the results; None where there is none."""
    inside = {node for expected, node in match.nodes_map.items() if expected.op != "placeholder"}
    inputs = _inputs_of(pattern, match)
    place, before_inputs = None, len(inputs)
    for node in match.anchor.graph.nodes:
        reads = node not in inside and bool(inside & {*node.all_input_nodes})
        if reads and before_inputs:
            return None
        if not before_inputs and place is None and (reads or node is match.anchor):
            place = node
        before_inputs -= node in inputs
    return place


def _put(gm: GraphModule, pattern: Graph, match: Match, new: Graph, inside: list[Node]) -> ReplacedPatterns:
    inputs = [node for node in pattern.nodes if node.op == "placeholder"]
    values: dict[Node, Any] = {}
    for expected, node in zip(inputs, [node for node in new.nodes if node.op == "placeholder"]):
        if expected in match.nodes_map:
            values[node] = match.nodes_map[expected]
    before = set(gm.graph.nodes)
    place = _place_of(pattern, match)
    assert place is not None
    with gm.graph.inserting_before(place):
        result = gm.graph.graph_copy(new, values)
    written = [node for node in gm.graph.nodes if node not in before]
    old = pattern.output_node().args[0]
    olds = list(old) if isinstance(old, (list, tuple)) else [old]
    news = list(result) if isinstance(result, (list, tuple)) else [result]
    for expected, replacement in zip(olds, news):
        if isinstance(expected, Node) and expected.op != "placeholder":
            match.nodes_map[expected].replace_all_uses_with(replacement)
    for node in reversed(inside):
        if not node.users:
            gm.graph.erase_node(node)
    return ReplacedPatterns(match.anchor, match.nodes_map, written)
