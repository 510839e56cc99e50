"""Which groups of cells run as chains: those that follow one another, of bodies that have rules, on the CPU, in one float dtype.

Chains round in another way than ops one by one. So the rule looks at the calls that are about to run and at nothing else: neither at
what ran before, nor at the time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from itertools import chain
from typing import Any

import numpy

from dynograd.kernels.build.batch_invariance import batch_invariant
from dynograd.transforms.autobatch.fuse import lowering  # noqa: F401 - its rules
from dynograd.transforms.autobatch.fuse.chains import Running
from dynograd.transforms.autobatch.fuse.levels import levels_of, users_of
from dynograd.transforms.autobatch.fuse.operands import codes_of
from dynograd.transforms.autobatch.fuse.plans import Plan
from dynograd.transforms.autobatch.fuse.tracing import NotFused, Recipe, trace
from dynograd.transforms.autobatch.record.watching import same, tensors_in

LEVELS = 4
"""Groups of one cell, one after the other in a flush, from which on its cells are chains. LSTMCell, Tree-LSTM and a gate of H = 128, 1 to 500 calls
a group, with backward and without: chains take 1.1 to 1.6 of the time for one group, 0.9 to 1.2 for two, 0.75 to 1.0 for four, 0.5 to 0.75 for eight."""
_MOST_TRACES = 8
_lock = threading.RLock()  # recipes grow while plans are made of them


class Fusing:
    """What is known of a cell's form: why it is not fused, or its recipe and the plans made of it."""

    __slots__ = ("form", "plans", "recipe", "refused", "seen", "traces")

    def __init__(self, form: Any) -> None:
        self.form, self.traces = form, 0
        self.refused: str | None = None
        self.recipe: Recipe | None = None
        self.seen: list[Any] | None = None
        self.plans: dict[frozenset[int], Plan] = {}
        if form.blocks:
            self.refused = "it draws random numbers"
        elif any([operand.device.type != "cpu" for operand in (*form.inputs, *form.kinds)]):
            self.refused = "it is not on the CPU"
        elif any([not operand.size for operand in (*form.inputs, *form.kinds)]):
            self.refused = "an argument or a result has no elements"

    def ready(self) -> bool:
        """Whether chains may run now; traces the body when that is due."""
        if self.refused is not None or batch_invariant():
            return False
        with _lock:
            return self._traced()

    def _traced(self) -> bool:
        cell = self.form.cell
        result = cell.watched()
        if result is None:
            self.refused = "it can reach too many objects to watch them"
            return False
        if self.recipe is not None and same(result, self.seen) and self._same_kinds():
            return True
        self.traces += 1
        if self.traces > _MOST_TRACES:
            self.refused = "what it reads besides its arguments changes again and again"
            return False
        try:
            self.recipe, self.plans, self.seen = trace(self.form, tensors_in(result)), {}, cell.watched()
            self.plan(frozenset())
        except NotFused as error:
            self.refused, self.recipe = str(error), None
            return False
        except MemoryError:  # it says nothing of the call: traced anew the next time
            self.recipe = None
            raise
        except Exception as error:  # of the body itself: its ops will say so when they run
            self.refused = f"tracing it failed ({type(error).__name__}: {str(error)[:80]})"
            self.recipe = None
            return False
        return same(result, self.seen)

    def _same_kinds(self) -> bool:
        assert self.recipe is not None
        return all(
            [
                (shared.tensor.array.shape, shared.tensor.array.dtype, bool(shared.tensor._requires_grad))
                == shared.kind
                for shared in self.recipe.shared
            ]
        )

    def plan(self, early: frozenset[int]) -> Plan:
        plan = self.plans.get(early)
        if plan is None:
            with _lock:
                assert self.recipe is not None
                plan = self.plans[early] = Plan(self.recipe, early)
        return plan


def are_levels(buckets: Iterable[Any]) -> bool:
    """Whether so many groups of a cell follow one another that chains pay; `buckets` are those of cells."""
    generations: dict[Any, set[int]] = {}
    for bucket in buckets:
        generations.setdefault((bucket.form, bucket.shared), set()).add(bucket.generation)
    return any([len(numbers) >= LEVELS for numbers in generations.values()])


def chain_for(recorder: Any, buckets: list[Any], waiting: list[Any]) -> Running | None:
    """The chain of all waiting calls like these, which come first in it; None where their ops run one by one."""
    form, shared = buckets[0].form, buckets[0].shared
    fusing = form.fusing
    if form not in recorder.arenas or not fusing.ready():
        return None
    own = set(buckets)
    others = [
        bucket
        for bucket in waiting
        if bucket.form is form and bucket.shared == shared and not bucket.done and bucket not in own
    ]
    users = users_of(others)
    levels = levels_of(buckets, users)
    whole = [*dict.fromkeys([*chain.from_iterable(levels), *others])]
    codes = codes_of(whole)
    early = _early(recorder, whole[0].shared, codes) if len(whole) > len(buckets) else frozenset()
    try:
        plan = fusing.plan(early)
    except NotFused as error:
        fusing.refused = str(error)
        return None
    return Running(recorder, form, plan, whole, levels, users, codes)


def _early(recorder: Any, shared: tuple, codes: Any) -> frozenset[int]:
    """The operands that are there for all calls already; none, where that is all of them."""
    done = numpy.array([port.whole.bucket.done for port in recorder.ports], bool)
    there = done[codes >> 32].all(1).tolist()
    if all(there):
        return frozenset()
    own = [number for number, shared in enumerate(shared) if shared is None]
    return frozenset([number for number, known in zip(own, there, strict=True) if known])


def run_chained(recorder: Any, buckets: list[Any]) -> bool:
    """Runs a group of cells as part of a chain; False where its ops must run one by one."""
    form = buckets[0].form
    fusing = form.fusing
    flush = recorder.arenas
    key = form, buckets[0].shared
    if flush.has_levels is None:
        flush.has_levels = are_levels([bucket for bucket in flush.waiting if bucket.form.run_chained is not None])
    chain = flush.chains.get(key)
    if chain is False or not flush.has_levels:
        return False
    if chain is None or any([bucket not in chain.starts for bucket in buckets]):
        chain = flush.chains[key] = chain_for(recorder, buckets, flush.waiting) or False
        if chain is False:
            if fusing.refused is not None:
                recorder.report.note_refused(
                    form.label, f"its ops run one by one, on all rows of a group ({fusing.refused})"
                )
            return False
    levels = chain.joined(buckets)
    if levels:
        chain.run_levels(levels)
        return True
    run: list[Any] = []
    end = -1
    for bucket in buckets:
        if run and chain.starts[bucket] != end:
            chain.run(run)
            run = []
        run.append(bucket)
        end = chain.starts[bucket] + bucket.count()
    chain.run(run)
    return True
