"""Levels: groups of a chain whose operands are rows of arenas run in one compiled call, forward and backward.

A program is made of a plan's second half once; `Levels` is one run of it: several groups, one after the other, each with rows of those
before it among its operands.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy

from dynograd.arrays import buffers
from dynograd.transforms.autobatch.fuse.plans import GRADIENT, ROWS_OF, Plan
from dynograd.transforms.autobatch.fuse.spans import Span, kernel_of, ready
from dynograd.transforms.autobatch.fuse.tracing import OPERAND

_NARROW = 96  # rows of a level on average, up to which one thread takes no longer than several would


def users_of(buckets: list[Any]) -> dict[Any, list[Any]]:
    """For each bucket that has not run, those of `buckets` that take rows of it."""
    users: dict[Any, list[Any]] = {}
    for bucket in buckets:
        for source in bucket.sources:
            if not source.done:
                users.setdefault(source, []).append(bucket)
    return users


def levels_of(buckets: list[Any], users: dict[Any, list[Any]]) -> list[list[Any]]:
    """`buckets`, which can run now, and level by level those of `users_of` that need nothing else but what has run."""
    levels, placed = [buckets], set(buckets)
    for level in levels:  # grows while it is read
        following: dict[Any, None] = {}
        for bucket in level:
            for user in users.get(bucket, ()):
                if user not in following and all([source.done or source in placed for source in user.sources]):
                    following[user] = None
        if following:
            levels.append([*following])
            placed.update(following)
    return levels


class Levels:
    """Rows of a chain in levels. `starts` is where each level begins, in rows of the span, and its number of rows.

    Args:
        bases: where the rows of each output begin in its arena.
    """

    def __init__(self, span: Span, starts: list[int], arenas: list[Any], bases: list[int]) -> None:
        from dynograd.kernels.rows.row_levels_numba import Shares

        self.span, self.starts, self.arenas, self.bases = span, starts, arenas, bases
        plan = span.chain.plan
        sources = []
        self.inside: dict[
            int, Any
        ] = {}  # by operand: the arena's rows of those that come from these levels, -1 for others
        for number, operand in span.operands.items():
            of = [base for arena, base in zip(arenas, bases, strict=True) if arena is operand.arena]
            if not of:
                continue
            places = operand.index - of[0]  # outputs in one arena lie behind one another
            within = (places >= 0) & (places < len(of) * span.count)
            if not within.any():
                continue
            sources.append(numpy.where(within, places % span.count, -1))
            if span.chain.form.inputs[number].grad:
                self.inside[number] = numpy.where(within, operand.index, -1)
                operand.back = numpy.where(within, -1, operand.index)
        self.shares = Shares(numpy.array(sources), numpy.array(starts))
        self.multiplications = _multiplications(plan)

    def worthwhile(self) -> bool:
        """Whether threads of their own for rows that hang together do as well as several threads for each level."""
        return 2 * self.shares.largest <= self.span.count or self.span.count <= _NARROW * (len(self.starts) - 1)

    def gradients_of(self, output: int) -> Any:
        """Those of an output's rows in the running pass."""
        base = self.bases[output]
        return self.arenas[output].buffer_of_pass()[base : base + self.span.count]

    def run_forward(self, outputs: list[Any]) -> None:
        span = self.span
        chain = span.chain
        program = _program(chain.plan, "forward", _forward)
        for number in _products(chain.plan.second.forward):
            result = chain.recipe.products[number].result
            span.results[number] = buffers.empty((span.count, math.prod(result.shape)), chain.recipe.dtype)
        arrays = [ready(self._forward_array(key, outputs)) for key in program.keys]
        program.run(arrays, self.shares.cuts(self.multiplications), 0, len(self.starts) - 1)

    def _forward_array(self, key: Any, outputs: list[Any]) -> Any:
        what, of = key
        span = self.span
        if what == "to":
            return span.place(of, outputs)
        if what == "result":
            return span.results[of]
        return self._array(what, of, None)

    def backward(self, back: Any) -> Any:
        """`run(low, high)` computes the gradients of levels `low` to `high`, after those above; `back` has those of the outputs."""
        span = self.span
        plan = span.chain.plan
        targets = tuple(self.inside)
        program = _program(plan, targets, lambda program, plan: _backward(program, plan, targets))
        for key in _temporary(plan):
            back.arrays[key] = buffers.empty((span.count, plan.widths[key]), plan.recipe.dtype)
        arrays = [ready(self._array(what, of, back)) for what, of in program.keys]
        cuts = self.shares.cuts(self.multiplications)
        return lambda low, high: program.run(arrays, cuts, low, high)

    def _array(self, what: str, of: Any, back: Any) -> Any:
        span = self.span
        chain = span.chain
        if what == "g":
            return back.given(of)
        if what == "leaf":
            return span.leaf(of, back)
        if what == "rows":
            return span.operand(of)[0]
        if what == "index":
            return span.operand(of)[1]
        if what == "panels":
            return chain.panels_of(*of)
        if what == "bias":
            return chain.shared[of] if of is not None else numpy.empty(0, chain.recipe.dtype)
        if what == "inside":
            return self.inside[of]
        assert what == "buffer"
        arena = span.operands[of].arena
        return arena.buffer_of_pass().reshape(len(arena.array), -1)


def _program(plan: Plan, key: Any, write: Any) -> Any:
    from dynograd.kernels.rows.row_levels_numba import LevelProgram

    program = plan.programs.get(key)
    if program is None:
        program = LevelProgram(key != "forward")
        write(program, plan)
        plan.programs[key] = program
    return program


def _forward(program: Any, plan: Plan) -> None:
    recipe = plan.recipe
    for stage in plan.second.forward:
        for quantity in stage.copies:
            number = recipe.leaves[quantity.leaf][1]
            program.copy(
                ("to", quantity.target),
                quantity.at,
                ("rows", number),
                ("index", number),
                quantity.begin,
                quantity.width,
            )
        _add_kernel(program, plan, stage, [("to", target) for target in stage.targets])
        for number in stage.products:
            product = recipe.products[number]
            rows = ROWS_OF, plan.inputs.index(product.input)
            panels = ("panels", (product.weight, not product.plain))
            lead = math.prod(product.input.shape[:-1])
            program.product(("to", rows), panels, ("bias", product.bias), ("result", number), lead, False)


def _backward(program: Any, plan: Plan, targets: tuple[int, ...]) -> None:
    recipe = plan.recipe
    written = set()
    for stage in plan.second.backward:
        for number in stage.products:
            product = recipe.products[number]
            rows = ROWS_OF, plan.inputs.index(product.input)
            panels = ("panels", (product.weight, product.plain))
            lead = math.prod(product.input.shape[:-1])
            g = ("g", (GRADIENT, product.result.leaf))
            program.product(g, panels, ("bias", None), ("g", rows), lead, rows in written)
            written.add(rows)
        _add_kernel(program, plan, stage, [("g", target) for target in stage.targets])
    for number in targets:
        size = max(1, math.prod(recipe.operands[number].shape))
        for target, begin in plan.second.gradients.get(number, ()):
            program.add(("buffer", number), ("inside", number), ("g", target), begin, size)


def _add_kernel(program: Any, plan: Plan, stage: Any, outputs: list[Any]) -> None:
    if not stage.outputs:
        return
    kernel = kernel_of(plan.recipe, stage)
    leaves: list[Any] = []
    for leaf in kernel.leaves:
        kind, of = plan.recipe.leaves[leaf]
        leaves += [("rows", of), ("index", of)] if kind == OPERAND else [("leaf", leaf)]
    program.kernel(kernel, leaves, outputs)


def _temporary(plan: Plan) -> Iterator[Any]:
    """What the way back writes that does not outlive it."""
    for stage in plan.second.backward:
        for number in stage.products:
            yield ROWS_OF, plan.inputs.index(plan.recipe.products[number].input)
        yield from [target for target in stage.targets if target not in plan.lasting]


def _products(stages: list[Any]) -> list[int]:
    return [number for stage in stages for number in stage.products]


def _multiplications(plan: Plan) -> int:
    """Of one row, forward; those of arithmetic count for little."""
    multiplications = 0
    for number in _products(plan.second.forward):
        product = plan.recipe.products[number]
        multiplications += math.prod(product.input.shape) * product.result.shape[-1]
    return multiplications
