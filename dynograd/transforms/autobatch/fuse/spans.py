"""Spans: some rows of a chain (a group's, or all), and the running of a plan's stages on them."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.arrays import buffers
from dynograd.kernels import kernel
from dynograd.transforms.autobatch.fuse.operands import Rows
from dynograd.transforms.autobatch.fuse.plans import LEAF, OUTPUT, ROWS_OF, Plan, Stage
from dynograd.transforms.autobatch.fuse.tracing import OPERAND, PRODUCT, SHARED, STORED


class Chain:
    """What the calls of one form in one flush have in common: memory for all their rows, and the plan that they follow."""

    def __init__(self, form: Any, plan: Plan, rows: int, early: dict[int, Rows]) -> None:
        self.form, self.plan, self.recipe, self.rows, self.early = form, plan, plan.recipe, rows, early
        self.shared = [ready(tensor.tensor.array) for tensor in self.recipe.shared]
        self.arrays: dict[Any, Any] = {}  # what lasts, for all rows
        self.results: dict[int, Any] = {}  # products of the first half
        self.last_pass: Any = None
        self.panels: dict[tuple[int, bool], Any] = {}
        self.turned: dict[int, Any] = {}  # weights as groups multiply with them, in one piece of memory
        for target in plan.lasting:
            if target[0] in (ROWS_OF, LEAF):
                self.arrays[target] = buffers.empty((rows, plan.widths[target]), self.recipe.dtype)

    def weight_of(self, number: int, count: int) -> Any:
        """A weight for `x @ weight.T` of `count` rows; one that many groups use is laid out so that its transposed is contiguous."""
        result = self.turned.get(number)
        if result is None:
            result = self.shared[number]
            if self.rows >= _TURNED * count:
                result = self.turned[number] = numpy.ascontiguousarray(result.T).T
        return result

    def panels_of(self, number: int, turned: bool) -> Any:
        """A weight laid out for the products of levels."""
        from dynograd.kernels.recurrent.recurrent_products_numba import panels_of

        panel = self.panels.get((number, turned))
        if panel is None:
            panel = self.panels[number, turned] = panels_of(self.shared[number], turned)
        return panel


_TURNED = 16  # so many groups of one size pay for the copy


class Span:
    """Rows `start` to `stop` of a chain, as kernels see them: a group, or the whole."""

    __slots__ = ("chain", "operands", "results", "start", "stop")

    def __init__(self, chain: Chain, start: int, stop: int, operands: dict[int, Rows], results: dict[int, Any]) -> None:
        self.chain, self.start, self.stop, self.operands, self.results = chain, start, stop, operands, results

    @property
    def count(self) -> int:
        return self.stop - self.start

    def leaf(self, number: int, backward: Any) -> Any:
        """A leaf as kernels take it; `backward` finds the gradients."""
        chain = self.chain
        kind, of = chain.recipe.leaves[number]
        if kind == OPERAND:
            return self.operand(of)
        if kind == SHARED:
            return chain.shared[chain.recipe.shared.index(of)].reshape(-1)
        if kind == PRODUCT:
            if of in self.results:
                return self.results[of]
            return chain.results[of][self.start : self.stop]
        if kind == STORED:
            return chain.arrays[LEAF, number][self.start : self.stop]
        return backward.given(of)

    def operand(self, number: int) -> tuple[Any, Any]:
        operand = self.operands.get(number)
        if operand is not None:
            return operand.array, operand.index
        operand = self.chain.early[number]
        return operand.array, operand.index[self.start : self.stop]

    def read_again(self, stages: list[Stage]) -> list[Any]:
        """The rows of operands that the kernels of these stages read."""
        recipe, result = self.chain.recipe, []
        used = [
            expression
            for stage in stages
            for pieces, _ in stage.outputs
            for expression, _ in pieces
            if expression is not None
        ]
        for leaf in recipe.table.leaves_in(used):
            kind, number = recipe.leaves[leaf]
            if kind == OPERAND:
                array, index = self.operand(number)
                result += [array[row] for row in numpy.unique(index).tolist()]
        return result

    def place(self, target: Any, outputs: list[Any]) -> Any:
        """Where the kernels of these rows write."""
        return outputs[target[1]] if target[0] == OUTPUT else self.chain.arrays[target][self.start : self.stop]

    def run_forward(self, stage: Stage, outputs: list[Any]) -> None:
        chain = self.chain
        for copy in stage.copies:
            array, index = self.operand(chain.recipe.leaves[copy.leaf][1])
            copied = _kernels().copy_rows
            copied(
                self.place(copy.target, outputs),
                copy.at,
                array,
                index,
                copy.begin,
                copy.width,
                count=self.count,
                work=self.count * copy.width,
            )
        self.run_kernel(stage, [self.place(target, outputs) for target in stage.targets], None)
        for number in stage.products:
            product = chain.recipe.products[number]
            rows = chain.arrays[ROWS_OF, chain.plan.inputs.index(product.input)][self.start : self.stop]
            weight = chain.shared[product.weight]
            bias = None if product.bias is None else chain.shared[product.bias]
            operands = rows.reshape(-1, weight.shape[0 if product.plain else 1])
            turned = weight.T if product.plain else chain.weight_of(product.weight, self.count)
            result = kernel("matmuls", "linear_forward", operands)(operands, turned, bias)
            self.results[number] = result.reshape(self.count, -1)

    def run_kernel(self, stage: Stage, outputs: list[Any], backward: Any) -> None:
        if not stage.outputs:
            return
        chain = self.chain
        kernel_of(chain.recipe, stage)(
            {leaf: self.leaf(leaf, backward) for leaf in stage.kernel.leaves}, outputs, self.count
        )


def _kernels() -> Any:
    from dynograd.kernels.rows import row_expressions_numba

    return row_expressions_numba


_known: dict[Any, Any] = {}


def kernel_of(recipe: Any, stage: Stage) -> Any:
    """The compiled kernel of a stage that has outputs."""
    if stage.kernel is not None:
        return stage.kernel
    module = _kernels()
    kinds = {
        number: module.INDEXED if kind == OPERAND else module.VECTOR if kind == SHARED else module.ROWS
        for number, (kind, _) in enumerate(recipe.leaves)
    }
    row_kernel = module.RowKernel(recipe.table, stage.outputs, kinds, recipe.dtype.name)
    key = row_kernel.source, row_kernel.dtype
    if key not in _known:
        _known[key] = row_kernel.compile()
    row_kernel.compiled = _known[key]
    stage.kernel = row_kernel
    return row_kernel


def ready(array: Any) -> Any:
    """An array as kernels take it: in one piece, and not read-only."""
    if array.flags.c_contiguous and array.flags.writeable and array.flags.aligned:
        return array
    return numpy.array(array, order="C")
