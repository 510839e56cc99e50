"""What a fused kernel over rows computes: scalar expressions, each kept once.

`Expressions` is a table: an expression is a number in it, equal ones are one. Expressions are of `j`, the place in a run of a row's
elements (`row_spreads.py` makes whole values of such runs).

    ("load", leaf, offset)      the element `offset + j` of a leaf's row
    ("point", leaf, offset)     the element `offset`, the same for all j
    ("number", value)
    ("sum" | "max", pieces)     over the pieces' elements
    (head, expressions...)      an operator or function of `formulas`

`row_expressions_numba.py` makes kernels of them.
"""

from __future__ import annotations

from typing import Any

from dynograd.kernels.formula import formulas
from dynograd.kernels.formula.formulas import Tree

_LEAVES = ("load", "point", "number")
Piece = tuple[Any, int]  # (expression or None for zeros, width)


class Expressions:
    """The table. `depth` of an expression is how many reductions, one after the other, it waits for."""

    def __init__(self) -> None:
        self.nodes: list[tuple] = []
        self.varies: list[bool] = []
        self.depth: list[int] = []
        self.cost: list[int] = []
        self._known: dict[Any, int] = {}
        self._moved: dict[Any, int] = {}

    def _add(self, key: Any, node: tuple, varies: bool, depth: int, cost: int) -> int:
        result = self._known.get(key)
        if result is None:
            result = self._known[key] = len(self.nodes)
            self.nodes.append(node)
            self.varies.append(varies)
            self.depth.append(depth)
            self.cost.append(cost)
        return result

    def load(self, leaf: int, offset: int) -> int:
        node = ("load", leaf, offset)
        return self._add(node, node, True, 0, 0)

    def point(self, leaf: int, offset: int) -> int:
        node = ("point", leaf, offset)
        return self._add(node, node, False, 0, 0)

    def number(self, value: Any) -> int:
        return self._add(("number", repr(value)), ("number", value), False, 0, 0)

    def reduce(self, head: str, pieces: tuple[Piece, ...]) -> int:
        node = (head, pieces)
        return self._add(node, node, False, 1 + max([self.depth[expression] for expression, _ in pieces]), 8)

    def apply(self, head: str, *parts: int) -> int:
        """An operator or function on expressions, with what needs no arithmetic done at once."""
        nodes = self.nodes
        if head == "number":
            raise AssertionError("numbers are made by number()")
        if all([nodes[part][0] == "number" for part in parts]):
            folded = formulas.simplify(Tree(head, tuple([formulas.number(nodes[part][1]) for part in parts])))
            if folded.head == "number":
                return self.number(folded.parts[0])
        if len(parts) == 2:
            left, right = parts
            if head in ("*", "/", "**") and self._is(right, 1):
                return left
            if head == "*" and self._is(left, 1):
                return right
            if head in ("+", "-") and self._is(right, 0):
                return left
            if head == "+" and self._is(left, 0):
                return right
            if head in ("+", "*") and left > right:  # one form for both orders
                parts = right, left
        elif head == "neg" and nodes[parts[0]][0] == "neg":
            return nodes[parts[0]][1]
        node = (head, *parts)
        varies = any([self.varies[part] for part in parts])
        return self._add(
            node, node, varies, max([self.depth[part] for part in parts]), 1 + sum([self.cost[part] for part in parts])
        )

    def _is(self, expression: int, value: float) -> bool:
        node = self.nodes[expression]
        return node[0] == "number" and not isinstance(node[1], bool) and node[1] == value

    def tree(self, tree: Tree, names: dict[str, int]) -> int:
        """A formula's tree; `names` are the expressions that its names stand for."""
        if tree.head == "name":
            return names[tree.parts[0]]
        if tree.head == "number":
            return self.number(tree.parts[0])
        return self.apply(tree.head, *[self.tree(part, names) for part in tree.parts])

    def moved(self, expression: int, offset: int) -> int:
        """The expression at `j + offset`."""
        if not offset or not self.varies[expression]:
            return expression
        return self._rebuilt(expression, offset, False)

    def at(self, expression: int, place: int) -> int:
        """The expression at `place`, the same for all j."""
        return self._rebuilt(expression, place, True) if self.varies[expression] else expression

    def _rebuilt(self, expression: int, offset: int, fixed: bool) -> int:
        if not self.varies[expression]:
            return expression
        key = expression, offset, fixed
        point = self._moved.get(key)
        if point is None:
            node = self.nodes[expression]
            if node[0] == "load":
                point = (self.point if fixed else self.load)(node[1], node[2] + offset)
            else:
                point = self.apply(node[0], *[self._rebuilt(child, offset, fixed) for child in node[1:]])
            self._moved[key] = point
        return point

    def leaves_in(self, expressions: Any) -> set[int]:
        """The leaves that are read."""
        result: set[int] = set()
        for expression in self.below(expressions):
            node = self.nodes[expression]
            if node[0] in ("load", "point"):
                result.add(node[1])
        return result

    def below(self, expressions: Any) -> list[int]:
        """These and all that they are made of, parts first."""
        seen: set[int] = set()
        waiting = list(expressions)
        while waiting:
            expression = waiting.pop()
            if expression not in seen:
                seen.add(expression)
                waiting += self.parts(expression)
        return sorted(seen)

    def parts(self, expression: int) -> list[int]:
        node = self.nodes[expression]
        if node[0] in _LEAVES:
            return []
        if node[0] in ("sum", "max") and type(node[1]) is tuple:
            return [expression for expression, _ in node[1]]
        return list(node[1:])
