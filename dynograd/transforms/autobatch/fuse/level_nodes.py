"""Levels on the tape: one node for all of them, whose way back is one compiled call.

Rows of a level send gradients to rows of the levels before without the tape's knowing. So whoever asks for the gradient of a row (a hook,
`retain_grad`, `autograd.grad` of it) is answered by the levels' node, when it has all of it.
"""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.autograd.nodes import Hooks, Node, OutputNode, asked
from dynograd.base import devices
from dynograd.ops.op import registry
from dynograd.transforms.autobatch.fuse.chain_nodes import (
    Arrived,
    Backward,
    GroupNode,
    edges_of,
    gradients_of,
    pass_of,
    through_ops,
)
from dynograd.transforms.autobatch.fuse.levels import Levels
from dynograd.transforms.autobatch.fuse.plans import OUTPUT
from dynograd.transforms.autobatch.group.rows import BUFFERED, RowParts, SlabNode, add_rows, new_node, run_hooks


class Sink(Node):
    """Where the gradients of all rows of an output go, for those who ask for some of them."""

    __slots__ = ()


class LevelsSlab(SlabNode):
    """Between levels and those who use their rows. What comes goes to the buffer of the arena, where the way back adds to it."""

    __slots__ = ()

    def apply(self, g: Any) -> Any:
        levels, number = self._node().levels, self.edges[0].attrs
        for which, part in g.parts:
            if which is not BUFFERED:
                add_rows(levels.gradients_of(number), which, part)
        return (Arrived(),)

    def collector(self) -> Node:
        return self._node().sinks[self.edges[0].attrs]

    def hooks_of(self, row: Any) -> Hooks:
        hooks: Hooks = self._node().row_hooks[self.edges[0].attrs].setdefault(row, Hooks())
        return hooks

    def _node(self) -> LevelsNode:
        return self.edges[0].edges[0]


def levels_node(levels: Levels, chain_node: Any) -> Any:
    """The node of levels that have run."""
    span = levels.span
    sinks = [new_node(Sink, (), None) for _ in levels.bases]
    node = new_node(LevelsNode, (chain_node, *edges_of(span.operands), *sinks), None)
    node.span, node.weights = span, [shared.tensor.array for shared in span.chain.recipe.shared]
    node.levels, node.sinks, node.row_hooks = levels, sinks, [{} for _ in sinks]
    return node


class LevelsNode(GroupNode):
    """`edges` are the chain's node, the slabs of operands from outside, and the sinks."""

    __slots__ = ("levels", "row_hooks", "sinks")

    def apply(self, g: Any) -> Any:
        span, levels = self.span, self.levels
        half = span.chain.plan.second
        back = Backward(span, pass_of(span), {})
        totals = {}
        for number, kind in enumerate(span.chain.form.kinds):
            if kind.grad:
                total = totals[number] = levels.gradients_of(number)
                back.arrays[OUTPUT, number] = total.reshape(span.count, max(1, kind.size))
        run, high = levels.backward(back), len(levels.starts) - 1
        for level, hooked in self._hooked():
            run(level + 1, high)
            for number, hooks in hooked.items():
                run_hooks(totals[number], hooks)
            high = level + 1
        run(0, high)
        gradients = gradients_of(span.operands, back.of_operands(half, span.operands))
        return (Arrived(), *gradients, *self._to_sinks(totals))

    def _to_sinks(self, totals: dict[int, Any]) -> list[Any]:
        edges = asked.edges
        return [
            RowParts([(None, totals[number])]) if edges is not None and edge in edges and number in totals else None
            for number, edge in enumerate(self.sinks)
        ]

    def _hooked(self) -> list[tuple[int, dict[int, dict[int, Hooks]]]]:
        """Levels whose rows have hooks, from the last one on, with the hooks by output and row."""
        by_key: dict[int, dict[int, dict[int, Hooks]]] = {}
        for number, hooks in enumerate(self.row_hooks):
            for row, ones in hooks.items():
                level = int(numpy.searchsorted(self.levels.starts, row, "right")) - 1
                by_key.setdefault(level, {}).setdefault(number, {})[row] = ones
        return sorted(by_key.items(), reverse=True)

    def apply_graph(self, g: Any) -> Any:
        levels, span = self.levels, self.span
        starts = levels.starts
        own: dict[Any, int] = {}  # slabs over these rows, by way of which later levels use them
        by_arena: dict[Any, list[Any]] = {}
        for number, (arena, base, kind) in enumerate(
            zip(levels.arenas, levels.bases, span.chain.form.kinds, strict=True)
        ):
            if kind.grad:
                slab = new_node(
                    LevelsSlab, (OutputNode(self, number),), ((span.count, *kind.shape), kind.dtype, devices.cpu)
                )
                slab.row_hooks, slab.start = None, base
                own[slab] = number
                by_arena.setdefault(arena, []).append(slab)
        operands = {number: operand.beside(by_arena) for number, operand in span.operands.items()}
        totals, arrived, sums = dict(g.parts), Arrived(), dict.fromkeys(self.edges[1 : -len(self.sinks)])
        hooked = dict(self._hooked())
        for level in range(len(starts) - 2, -1, -1):
            for number, hooks in hooked.get(level, {}).items():
                if number in totals:
                    totals[number] = run_hooks(totals[number], hooks)
            start, stop = starts[level], starts[level + 1]
            parts = {
                number: registry["basic_index"].function(total, (slice(start, stop),))
                for number, total in totals.items()
            }
            sent, by_number = through_ops(span, operands, start, stop, parts)
            arrived += Arrived(sent)
            for number, operand in operands.items():
                for edge, part in operand.give_graph(by_number.get(number), start, stop):
                    if edge in own:
                        summed_tensor = edge.summed_tensor(part)
                        totals[own[edge]] = totals[own[edge]] + summed_tensor if own[edge] in totals else summed_tensor
                    else:
                        sums[edge] = part if sums[edge] is None else sums[edge] + part
        return (arrived, *sums.values(), *self._to_sinks(totals))
