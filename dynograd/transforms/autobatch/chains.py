"""Running fused cells: all calls of a form in one flush are a chain, run group by group and differentiated as a whole.

A chain has a place for every row of the flush. Its first half (what needs no state) is computed once for all rows when the first group
runs; each group then gathers its operands by row number, multiplies and runs one kernel, whose results go straight to the arenas. Going
back, each group leaves the gradients of its products in the chain's rows; when all have, the weights get theirs by one product.
"""

from __future__ import annotations

from typing import Any

from dynograd.autograd.nodes import OutputNode
from dynograd.tensor import wrap
from dynograd.transforms.autobatch.chain_nodes import GroupNode, edges_of, node_of
from dynograd.transforms.autobatch.operands import rows_of
from dynograd.transforms.autobatch.plans import Plan
from dynograd.transforms.autobatch.rows import new_node, slab_of
from dynograd.transforms.autobatch.spans import Chain, Span

__all__ = ["Running"]


class Running:
    """A chain while its groups run. The tape keeps the chain, and nothing of this, so that graphs have no cycles."""

    def __init__(self, recorder: Any, form: Any, plan: Plan, buckets: list[Any], codes: Any) -> None:
        self.recorder, self.codes = recorder, codes
        self.starts: dict[Any, int] = {}
        rows = 0
        for bucket in buckets:
            self.starts[bucket] = rows
            rows += bucket.count()
        early = {}
        if plan.early:
            early = rows_of(recorder, form, buckets[0].shared, codes, rows, sorted(plan.early))
        self.chain = Chain(form, plan, rows, early)
        self.own = [number for number in range(len(form.inputs)) if number not in plan.early]
        self.node = node_of(self.chain) if form.grad else None
        everything = Span(self.chain, 0, rows, {}, self.chain.results)
        for stage in plan.first.forward:
            everything.run_forward(stage, [])

    def run(self, buckets: list[Any]) -> None:
        """Runs neighbours of the chain as one group and fills their ports."""
        chain, recorder = self.chain, self.recorder
        form, plan = chain.form, chain.plan
        start = self.starts[buckets[0]]
        stop = self.starts[buckets[-1]] + buckets[-1].count()
        operands = rows_of(recorder, form, buckets[0].shared, self.codes[:, start:stop], stop - start, self.own)
        span = Span(chain, start, stop, operands, {})
        count, outputs, bases = stop - start, [], []
        arenas = recorder.arenas[form]
        for arena in arenas:
            base = arena.filled
            arena.filled = base + count
            bases.append(base)
            outputs.append(arena.array[base : base + count])
        flat = [one.reshape(count, -1) if one.size else one.reshape(count, 1) for one in outputs]
        for stage in plan.second.forward:
            span.run_forward(stage, flat)
        node = None
        if form.grad and any([kind.grad for kind in form.kinds]):
            node = new_node(GroupNode, (self.node, *edges_of(operands)), None)
            node.span, node.weights = span, [one.tensor.array for one in chain.recipe.shared]
        slabs = []
        for number, (array, kind, arena, base) in enumerate(zip(outputs, form.kinds, arenas, bases, strict=True)):
            made = wrap(array)
            if node is not None and kind.grad:
                made.node, made._requires_grad = OutputNode(node, number), True
            slab = slab_of(made)
            if slab is not None:
                slab.start = base
            slabs.append((made, slab, arena, base))
        at = 0
        sources = {source.form for bucket in buckets for source in bucket.sources}
        for bucket in buckets:
            for port, (made, slab, arena, base) in zip(bucket.ports, slabs, strict=True):
                port.slab, port.one, port.offset, port.slab_node = made, False, at, slab
                port.arena, port.base_row = arena, base
                recorder.arenas.note_port(recorder, port)
            at += bucket.count()
            bucket.done = True
            bucket.columns, bucket.sources, bucket.by_row, bucket.numbers, bucket.ports = [], set(), None, None, ()
        recorder.report.note_group(form, count, sources)
        recorder.report.fused[form] += 1
