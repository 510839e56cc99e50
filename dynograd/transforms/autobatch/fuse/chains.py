"""Running fused cells: all calls of a form in one flush are a chain, run group by group and differentiated as a whole.

A chain has a place for every row of the flush. Its first half (what needs no state) is computed once for all rows when the first group
runs; each group then gathers its operands by row number, multiplies and runs one kernel, whose results go straight to the arenas. Groups
that need only each other run in one call, level by level. Going back, each group leaves the gradients of its products in the chain's
rows; when all have, the weights get theirs by one product.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy

from dynograd.autograd.nodes import OutputNode
from dynograd.tensor.tensor import wrap
from dynograd.transforms.autobatch.fuse.chain_nodes import GroupNode, edges_of, node_of
from dynograd.transforms.autobatch.fuse.level_nodes import LevelsSlab, levels_node
from dynograd.transforms.autobatch.fuse.levels import Levels, levels_of
from dynograd.transforms.autobatch.fuse.operands import rows_of
from dynograd.transforms.autobatch.fuse.plans import Plan
from dynograd.transforms.autobatch.fuse.spans import Chain, Span
from dynograd.transforms.autobatch.group.rows import SlabNode, new_node, slab_of

_MOST_LEVELS = 256  # in one call: `create_graph` goes back through each of them for all


class Running:
    """A chain while its groups run. The tape keeps the chain, and nothing of this, so that graphs have no cycles.

    Args:
        buckets: all of it, those of `levels` first.
        levels: groups of which each needs only what is done already and those before it.
        users: of each bucket, those of `buckets` that take rows of it.
    """

    def __init__(
        self,
        recorder: Any,
        form: Any,
        plan: Plan,
        buckets: list[Any],
        levels: list[list[Any]],
        users: dict[Any, list[Any]],
        codes: Any,
    ) -> None:
        self.recorder, self.codes, self.users = recorder, codes, users
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
        self.ahead: dict[Any, list[list[Any]]] = {}  # by the first bucket of a level, the levels that run in one call
        self._look_ahead(levels)

    def joined(self, buckets: list[Any]) -> list[list[Any]]:
        """The levels that run in one call, the first of which is `buckets`; none where these run alone."""
        if buckets[0] not in self.ahead:
            self._look_ahead(levels_of(buckets, self.users))
        result = self.ahead[buckets[0]]
        return result if len(result) > 1 and set(result[0]) == set(buckets) else []

    def _look_ahead(self, levels: list[list[Any]]) -> None:
        """Finds which of these levels, the first of which runs now, can run in one call: all rows of an operand lie in one arena."""
        for level in levels:
            self.ahead[level[0]] = []
        at = self.starts[levels[0][0]]
        for bucket in itertools.chain.from_iterable(levels):
            if self.starts[bucket] != at:  # rows of levels lie behind one another
                return
            at += bucket.count()
        if len(levels) == 1:
            return
        recorder, form = self.recorder, self.chain.form
        flush = recorder.arenas
        for bucket in itertools.chain.from_iterable(levels):
            for port, arena in zip(bucket.ports, flush[form], strict=True):
                port.arena = arena  # where its rows will be; which ones is noted when they are
                flush.note_port(recorder, port)
        columns = [number for number, shared in enumerate(levels[0][0].shared) if shared is None]
        own = [place for place, number in enumerate(columns) if number in self.own]
        first = self.starts[levels[0][0]]
        starts = [self.starts[level[0]] - first for level in levels]
        arenas = flush.arena_numbers[self.codes[own, first : self._behind(levels[-1])] >> 32]
        lowest, highest = (extreme.reduceat(arenas, starts, axis=1) for extreme in (numpy.minimum, numpy.maximum))
        alike = ((lowest == highest) & (lowest >= 0)).all(0)
        same = [False, *(lowest[:, 1:] == lowest[:, :-1]).all(0).tolist()]
        run: list[list[Any]] = []
        for level, known, goes_on in zip(levels, alike.tolist(), same, strict=True):
            if not known or not goes_on or len(run) == _MOST_LEVELS:
                run = []
            if known:
                run.append(level)
                self.ahead[run[0][0]] = run

    def _behind(self, buckets: list[Any]) -> int:
        """The row behind the last one of neighbours."""
        return self.starts[buckets[-1]] + buckets[-1].count()

    def run(self, buckets: list[Any]) -> None:
        """Runs neighbours of the chain as one group and fills their ports."""
        span, outputs, bases = self._span(buckets)
        for stage in self.chain.plan.second.forward:
            span.run_forward(stage, _flat(outputs))
        node = None
        if self._wants_grad():
            node = new_node(GroupNode, (self.node, *edges_of(span.operands)), None)
            node.span, node.weights = span, [tensor.tensor.array for tensor in self.chain.recipe.shared]
        self._fill(buckets, outputs, bases, node, SlabNode)
        self._note(buckets)

    def run_levels(self, groups: list[list[Any]]) -> None:
        """Runs groups in one call and fills their ports; one after the other where several threads make that quicker."""
        buckets = list(itertools.chain.from_iterable(groups))
        begin = self.starts[buckets[0]]
        span, outputs, bases = self._span(buckets)
        starts = [*[self.starts[group[0]] - begin for group in groups], span.count]
        arenas = self.recorder.arenas[self.chain.form]
        levels = Levels(span, starts, arenas, bases)
        if not levels.worthwhile():
            for arena, base in reversed([*zip(arenas, bases, strict=True)]):
                arena.filled = base
            for group in groups:
                self.run(group)
            return
        levels.run_forward(_flat(outputs))
        node = levels_node(levels, self.node) if self._wants_grad() else None
        self._fill(buckets, outputs, bases, node, LevelsSlab)
        for group in groups:
            self._note(group)

    def _wants_grad(self) -> bool:
        return self.node is not None and any([kind.grad for kind in self.chain.form.kinds])

    def _span(self, buckets: list[Any]) -> tuple[Span, list[Any], list[int]]:
        """The rows of neighbours with their operands, their places in the arenas, and where these begin."""
        recorder, form = self.recorder, self.chain.form
        start = self.starts[buckets[0]]
        stop = self._behind(buckets)
        outputs, bases = [], []
        arenas = recorder.arenas[form]
        for arena in arenas:
            bases.append(arena.filled)
            arena.filled += stop - start
            outputs.append(arena.array[bases[-1] : arena.filled])
        at = 0
        for bucket in buckets:
            for port, arena, base in zip(bucket.ports, arenas, bases, strict=True):
                port.arena, port.base_row, port.offset = arena, base, at
                recorder.arenas.note_port(recorder, port)
            at += bucket.count()
        operands = rows_of(recorder, form, buckets[0].shared, self.codes[:, start:stop], stop - start, self.own)
        return Span(self.chain, start, stop, operands, {}), outputs, bases

    def _fill(self, buckets: list[Any], outputs: list[Any], bases: list[int], node: Any, kind_of_slab: Any) -> None:
        slabs = []
        for number, (array, kind, base) in enumerate(zip(outputs, self.chain.form.kinds, bases, strict=True)):
            tensor = wrap(array)
            if node is not None and kind.grad:
                tensor.node, tensor._requires_grad = OutputNode(node, number), True
            slab = slab_of(tensor, kind_of_slab)
            if slab is not None:
                slab.start = base
            slabs.append((tensor, slab))
        for bucket in buckets:
            for port, (tensor, slab) in zip(bucket.ports, slabs, strict=True):
                port.slab, port.one, port.slab_node = tensor, False, slab
            bucket.done = True

    def _note(self, buckets: list[Any]) -> None:
        """Tells the report of a group, and forgets its calls."""
        form, report = self.chain.form, self.recorder.report
        sources = dict.fromkeys([source.form for bucket in buckets for source in bucket.sources])
        report.note_group(form, sum([bucket.count() for bucket in buckets]), sources)
        report.fused[form] += 1
        for bucket in buckets:
            bucket.columns, bucket.sources, bucket.by_row, bucket.numbers, bucket.ports = [], {}, None, None, ()


def _flat(outputs: list[Any]) -> list[Any]:
    """Of two dims, as kernels take them."""
    return [output.reshape(len(output), -1) if output.size else output.reshape(len(output), 1) for output in outputs]
