"""The plan of a fused cell: which kernels and products run, forward and backward, for each group and once for all groups.

What needs only `early` operands, those that are there before the first group runs, is the first half: it is done once for all
rows of a flush, its gradients once after the last group. The other half is done group by group. Each half goes stage by stage: a kernel
for the arithmetic, then the products of its results with weights.
"""

from __future__ import annotations

import math
from typing import Any

from dynograd.kernels.rows import row_spreads as rows
from dynograd.kernels.rows.row_spreads import Spread
from dynograd.transforms.autobatch.fuse.tracing import OPERAND, PRODUCT, SEED, SHARED, NotFused, Quantity, Recipe

# Where arrays of a stage come from and go to: (what, which).
LEAF, ROWS_OF, GRADIENT, OUTPUT = "leaf", "rows", "gradient", "output"


class Copy:
    """Rows of a leaf, as they are: `width` elements from `begin` on go to `at`."""

    __slots__ = ("at", "begin", "leaf", "target", "width")

    def __init__(self, target: Any, at: int, leaf: int, begin: int, width: int) -> None:
        self.target, self.at, self.leaf, self.begin, self.width = target, at, leaf, begin, width


class Stage:
    """One kernel, `targets` in the order of its outputs, and copies beside it. `products` follow (or, backward, come before)."""

    def __init__(self, level: int) -> None:
        self.level = level
        self.copies: list[Copy] = []
        self.outputs: list[tuple[Any, bool]] = []
        self.targets: list[Any] = []
        self.products: list[int] = []
        self.kernel: Any = None


class Half:
    """What is done for a group (or once for all): stages forward, and backward in the order in which they run."""

    def __init__(self) -> None:
        self.forward: list[Stage] = []
        self.backward: list[Stage] = []
        # For each operand: where its gradients come from, (stage target, begin).
        self.gradients: dict[int, list[tuple[Any, int]]] = {}


class Plan:
    """How the recipe runs when the operands in `early` are there before the first group."""

    def __init__(self, recipe: Recipe, early: frozenset[int]) -> None:
        self.recipe, self.early = recipe, early
        self.seeds: dict[Any, Quantity] = {}
        self.inputs = list(
            dict.fromkeys([product.input for product in recipe.products])
        )  # what weights multiply, each once
        self.widths: dict[Any, int] = {}  # of what stages write
        self.lasting: set[Any] = set()  # of these, what has a place for all rows: it outlives its group
        self.shared_sums: dict[
            int, list[tuple[Any, int]]
        ] = {}  # of shared vectors: (target, begin) whose columns are summed
        self.written: set[Any] = set()
        self.summed: set[Any] = set()
        self.aliases: dict[Any, Any] = {}  # gradients of products that are those of other products: `x @ v + h @ w`
        self.programs: dict[Any, Any] = {}  # of levels that run in one call
        self.first, self.second = Half(), Half()
        self.half_of_product = [self._is_early(product.input) for product in recipe.products]
        last = max([quantity.level for quantity in recipe.quantities], default=0)
        for half, early_half in ((self.first, True), (self.second, False)):
            for level in range(last + 1):
                self._add_forward(half, early_half, level)
        for half, early_half in ((self.second, False), (self.first, True)):
            for level in range(last, -1, -1):
                self._add_backward(half, early_half, level)

    def _is_early(self, quantity: Quantity) -> bool:
        return bool(self.early) and quantity.uses <= self.early

    # --- forward ---------------------------------------------------------------------------------------------------------------

    def _goals(self, early_half: bool, level: int) -> list[tuple[Any, Quantity]]:
        """What the kernel of a stage computes."""
        recipe = self.recipe
        goals: list[tuple[Any, Quantity]] = []
        for number, operand in enumerate(self.inputs):
            if operand.level == level and self._is_early(operand) == early_half:
                goals.append(((ROWS_OF, number), operand))
        for quantity, kept in recipe.stored.items():
            if quantity.level == level and self._is_early(quantity) == early_half:
                goals.append(((LEAF, kept.leaf), quantity))
        if not early_half:
            goals += [
                ((OUTPUT, number), output) for number, output in enumerate(recipe.outputs) if output.level == level
            ]
        return goals

    def _add_forward(self, half: Half, early_half: bool, level: int) -> None:
        stage = Stage(level)
        for target, quantity in self._goals(early_half, level):
            if target[0] != OUTPUT:
                self.widths[target] = math.prod(quantity.shape)
                self.lasting.add(target)
            if not self._copies(stage, target, quantity.value):
                stage.outputs.append((quantity.value.pieces(), False))
                stage.targets.append(target)
        for number, product in enumerate(self.recipe.products):
            if product.input.level == level and self.half_of_product[number] == early_half:
                stage.products.append(number)
        if stage.outputs or stage.copies or stage.products:
            half.forward.append(stage)

    def _copies(self, stage: Stage, target: Any, value: Spread) -> bool:
        """Whether only rows of operands are put together: no kernel is compiled for that."""
        recipe = self.recipe
        result, at = [], 0
        for expression, width in value.pieces():
            node = ("zero",) if expression is None else recipe.table.nodes[expression]
            if not _is_run(node, width) or recipe.leaves[node[1]][0] != OPERAND:
                return False
            result.append(Copy(target, at, node[1], node[2], width))
            at += width
        stage.copies += result
        return True

    # --- backward --------------------------------------------------------------------------------------------------------------

    def seed(self, key: Any, shape: tuple[int, ...]) -> Quantity:
        """The leaf that holds a gradient that comes from outside a stage."""
        seed = self.seeds.get(key)
        if seed is None:
            seed = self.seeds[key] = self.recipe.leaf(SEED, key, shape, False)
        return seed

    def _add_backward(self, half: Half, early_half: bool, level: int) -> None:
        recipe, table = self.recipe, self.recipe.table
        stage = Stage(level)
        gradients: dict[Quantity, Spread] = {}
        for target, quantity in self._goals(early_half, level):
            if not quantity.grad:
                continue
            if target[0] == ROWS_OF:
                fed = [
                    number
                    for number, product in enumerate(recipe.products)
                    if product.input is quantity and (GRADIENT, product.result.leaf) in self.written
                ]
                if not fed:
                    continue
                stage.products += fed
            elif target[0] == LEAF and (GRADIENT, target[1]) not in self.written:
                continue
            key = (GRADIENT, target[1]) if target[0] == LEAF else target
            result = rows.added(table, gradients.get(quantity), self.seed(key, quantity.shape).value)
            assert result is not None
            gradients[quantity] = result
        leaves: dict[Quantity, Spread] = {}
        while gradients:
            quantity = max(gradients, key=lambda each: each.number)
            g = gradients.pop(quantity)
            if quantity.leaf is not None:
                leaves[quantity] = g
                continue
            if quantity.rule is None:
                continue
            for operand, part in zip(quantity.inputs, quantity.rule(g), strict=True):
                if part is not None and operand.grad and not rows.is_zero(part):
                    total = rows.added(table, gradients.get(operand), part)
                    assert total is not None
                    gradients[operand] = total
        for quantity in sorted(leaves, key=lambda each: each.number):
            self._deliver(half, early_half, stage, quantity, leaves[quantity])
        if stage.outputs or stage.products:
            half.backward.append(stage)

    def _deliver(self, half: Half, early_half: bool, stage: Stage, leaf: Quantity, g: Spread) -> None:
        """Where a leaf's gradient goes."""
        recipe = self.recipe
        kind, of = recipe.leaves[leaf.leaf]  # type: ignore[index]
        pieces = rows.merged(recipe.table, g.pieces())
        size = math.prod(leaf.shape)
        target: Any
        if kind == OPERAND:
            alone = pieces[0] if len(pieces) == 1 else (None, 0)
            node = recipe.table.nodes[alone[0]] if alone[0] is not None else ("zero",)
            early = of in self.early
            if _is_run(node, alone[1]) and recipe.leaves[node[1]][0] == SEED and early == early_half:
                half.gradients.setdefault(of, []).append((recipe.leaves[node[1]][1], node[2]))
                return
            target = (OPERAND, of, stage.level, early_half)
            owner = self.first if early else self.second
            owner.gradients.setdefault(of, []).append((target, 0))
            if early:
                self.lasting.add(target)
        elif kind == SHARED:
            for other, (known, adds) in zip(stage.targets, stage.outputs, strict=True):
                if known == list(pieces) and not adds and other in self.lasting:
                    self.summed.add(other)
                    self.shared_sums.setdefault(leaf.leaf, []).append((other, 0))  # type: ignore[arg-type]
                    return
            target = (SHARED, leaf.leaf, stage.level, early_half)
            self.shared_sums.setdefault(leaf.leaf, []).append((target, 0))  # type: ignore[arg-type]
            self.lasting.add(target)
        else:
            target = (GRADIENT, leaf.leaf)
            self.lasting.add(target)
            for other, (known, adds) in zip(stage.targets, stage.outputs, strict=True):
                alike = other[0] == GRADIENT and known == list(pieces) and not adds
                if alike and kind == PRODUCT and target not in self.written:
                    self.aliases[target] = other
                    self.written.add(target)
                    self.summed |= {target, other}
                    return
        self.widths[target] = size
        adds = target in self.written
        if adds and target in self.summed:
            raise NotFused("a product is used before and after others")
        self.written.add(target)
        stage.outputs.append((list(pieces), adds))
        stage.targets.append(target)


def _is_run(node: tuple, width: int) -> bool:
    """Whether an expression is `width` elements of a leaf, one after the other."""
    return node[0] == "load" or (node[0] == "point" and width == 1)
