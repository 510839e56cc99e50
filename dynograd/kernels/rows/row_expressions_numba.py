"""CPU kernels of `row_expressions` and `row_spreads`: one Numba function for all results of a region, with rows and widths given at run time.

A row is gone through once for each reduction that others wait for; pieces of one width share a loop. What is the same for the whole row
stands before the loop. Leaves are read by row, by row number (`INDEXED`), or are one vector for all rows.
"""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.kernels.build.compiling_numba import chunked
from dynograd.kernels.formula import formulas
from dynograd.kernels.formula.formulas import Tree
from dynograd.kernels.formula.formulas_numba import to_numba
from dynograd.kernels.rows.row_expressions import Expressions
from dynograd.kernels.rows.row_programs import CHEAP, FUNCTION_WORK
from dynograd.kernels.rows.row_programs_numba import compile_rows

INDEXED, ROWS, VECTOR = "indexed", "rows", "vector"


class RowKernel:
    """A kernel that computes `outputs`, each (its pieces, whether they are added to what is there), of leaves.

    `kinds` says for each leaf how its rows are found. `kernel(leaves, outputs, rows)`: of an INDEXED leaf (array, row numbers), else
    the array; arrays have two dims (a VECTOR one) and are C-contiguous.
    """

    def __init__(self, table: Expressions, outputs: list[tuple[Any, bool]], kinds: dict[int, str], dtype: str) -> None:
        self.table, self.outputs, self.dtype = table, outputs, dtype
        self.sizes: list[int] = []
        below = table.below([expression for pieces, _ in outputs for expression, _ in pieces if expression is not None])
        self.leaves = sorted(table.leaves_in(below))
        self.kinds = {leaf: kinds[leaf] for leaf in self.leaves}
        self._names = {leaf: number for number, leaf in enumerate(self.leaves)}
        self._slices: dict[str, str] = {}
        self.work = sum([sum([width for _, width in pieces]) for pieces, _ in outputs])
        costly = [
            expression
            for expression in below
            if table.varies[expression] and table.nodes[expression][0] not in (*CHEAP, "load")
        ]
        self.work += FUNCTION_WORK * len(costly) * max([width for pieces, _ in outputs for _, width in pieces])
        self.source = self._source(below)
        self.compiled: Any = None
        self.given_sizes = numpy.array([*self.sizes, 0], numpy.int64)

    def compile(self) -> Any:
        """The machine code's wrapper; kernels of the same text may share one."""
        return compile_rows(self.source, "fused_rows", self.dtype, exact=True)  # as the ops alone

    def __call__(self, leaves: dict[int, Any], outputs: list[Any], rows: int) -> None:
        if not rows:
            return
        if self.compiled is None:
            self.compiled = self.compile()
        operands: list[Any] = []
        for leaf, kind in self.kinds.items():
            if kind == INDEXED:
                operands += leaves[leaf]
            else:
                operands.append(leaves[leaf])
        self.compiled(*operands, *outputs, self.given_sizes, count=rows, work=rows * self.work)

    # --- text ------------------------------------------------------------------------------------------------------------------

    def _source(self, expressions: list[int]) -> str:
        table = self.table
        body: list[str] = []
        self._truths: set[str] = set()
        deepest = max([table.depth[expression] for expression in expressions], default=0)
        reductions = [expression for expression in expressions if self._is_reduction(expression)]
        for number in range(deepest + 1):
            body += self._points(
                [
                    expression
                    for expression in expressions
                    if table.depth[expression] == number and not table.varies[expression]
                ]
            )
            body += self._pass(number, [reduction for reduction in reductions if table.depth[reduction] == number + 1])
        heads = []
        for leaf, kind in self.kinds.items():
            name = self._names[leaf]
            if kind == INDEXED:
                heads.append(f"x{name} = a{name}[i{name}[r]]")
            elif kind == ROWS:
                heads.append(f"x{name} = a{name}[r]")
        heads += [f"y{number} = o{number}[r]" for number in range(len(self.outputs))]
        slices = [f"{name} = {text}" for text, name in self._slices.items()]
        parameters = []
        for leaf, kind in self.kinds.items():
            parameters += [f"a{self._names[leaf]}", *([f"i{self._names[leaf]}"] if kind == INDEXED else [])]
        parameters += [f"o{number}" for number in range(len(self.outputs))]
        lines = [f"def fused_rows({', '.join([*parameters, 'sizes', 'start', 'stop'])}):"]
        lines += [f"    n{number} = sizes[{number}]" for number in range(len(self.sizes))]
        lines += ["    for r in range(start, stop):"]
        lines += [f"        {line}" for line in [*heads, *slices, *body]]
        return "\n".join(lines) + "\n"

    def _is_reduction(self, expression: int) -> bool:
        node = self.table.nodes[expression]
        return node[0] in ("sum", "max") and type(node[1]) is tuple

    def _size(self, value: int) -> str:
        """A size by its name, so that kernels of other sizes have the same text."""
        if value == 0:
            return "0"
        if value not in self.sizes:
            self.sizes.append(value)
        return f"n{self.sizes.index(value)}"

    def _slice(self, row: str, offset: int, width: int) -> str:
        text = f"{row}[{self._size(offset)} : {self._size(offset)} + {self._size(width)}]"
        if text not in self._slices:
            self._slices[text] = f"s{len(self._slices)}"
        return self._slices[text]

    def _row(self, leaf: int) -> str:
        return f"{'a' if self.kinds[leaf] == VECTOR else 'x'}{self._names[leaf]}"

    def _points(self, expressions: list[int]) -> list[str]:
        return [
            f"t{expression} = {self._text(expression, 0)}"
            for expression in expressions
            if not self._is_reduction(expression) and not self._is_number(expression)
        ]

    def _is_number(self, expression: int) -> bool:
        return self.table.nodes[expression][0] == "number"

    def _text(self, expression: int, width: int) -> str:
        table = self.table
        node = table.nodes[expression]
        if node[0] == "load":
            return f"{self._slice(self._row(node[1]), node[2], width)}[j]"
        if node[0] == "point":
            return f"{self._row(node[1])}[{self._size(node[2])}]"
        parts = tuple([self._part(child) for child in node[1:]])
        tree = Tree(node[0], parts)
        name = f"t{expression}"
        if formulas.is_truth(tree, self._truths):
            self._truths.add(name)
        return to_numba(tree, self.dtype, self._truths)

    def _part(self, expression: int) -> Tree:
        node = self.table.nodes[expression]
        return formulas.number(node[1]) if node[0] == "number" else formulas.name(f"t{expression}")

    def _value(self, expression: int | None) -> str:
        if expression is None:
            return "zero"
        node = self.table.nodes[expression]
        if node[0] == "number":
            return to_numba(formulas.number(node[1]), self.dtype)
        if f"t{expression}" in self._truths:
            return f"(kind(1) if t{expression} else zero)"
        return f"t{expression}"

    def _pass(self, number: int, reductions: list[int]) -> list[str]:
        """The loops over a row whose elements wait for `number` reductions."""
        table = self.table
        loops: dict[int, list[tuple[int | None, str, Any]]] = {}
        lines: list[str] = []
        for place, (pieces, adds) in enumerate(self.outputs):
            at = 0
            for expression, width in pieces:
                depth = 0 if expression is None else table.depth[expression]
                if depth == number and not (adds and expression is None):
                    loops.setdefault(width, []).append((expression, "+=" if adds else "=", (f"y{place}", at)))
                at += width
        for reduction in reductions:
            head, pieces = table.nodes[reduction][0], table.nodes[reduction][1]
            name = f"t{reduction}"
            lines.append(f"{name} = zero" if head == "sum" else f"{name}_key = ordered(kind(-inf))")
            for expression, width in pieces:
                loops.setdefault(width, []).append((expression, head, name))
        for width, items in loops.items():
            if width == 1:
                lines += [
                    f"{row}[{self._size(at)}] {how} {self._value(expression)}" for expression, how, (row, at) in items
                ]
                continue
            inner: list[str] = []
            roots = [expression for expression, _, _ in items if expression is not None]
            varying = [each for each in table.below(roots) if table.varies[each]]
            inner += [f"t{each} = {self._text(each, width)}" for each in varying]
            for root, how, target in items:
                value = self._value(root)
                if how == "sum":
                    inner.append(f"{target} = plus({target}, {value})")
                elif how == "max":
                    inner += [f"key = ordered({value})", f"{target}_key = key if key > {target}_key else {target}_key"]
                else:
                    row, at = target
                    inner.append(f"{self._slice(row, at, width)}[j] {how} {value}")
            lines += [f"for j in range({self._size(width)}):", *[f"    {line}" for line in inner]]
        lines += [
            f"t{reduction} = unordered(t{reduction}_key)"
            for reduction in reductions
            if table.nodes[reduction][0] == "max"
        ]
        return lines


# --- rows by number ------------------------------------------------------------------------------------------------------------


@chunked(noalias=True)
def copy_rows(out, at, source, index, begin, width, start, stop):
    """`out[r, at : at + width] = source[index[r], begin : begin + width]`."""
    for r in range(start, stop):
        to, of = out[r, at : at + width], source[index[r], begin : begin + width]
        for j in range(width):
            to[j] = of[j]


@chunked(noalias=True)
def add_rows(out, index, source, begin, width, start, stop):
    """`out[index[r]] += source[r, begin : begin + width]` where `index[r]` is not negative, one row after the other; items are all one piece."""
    for r in range(start, stop):
        if index[r] < 0:
            continue
        to, of = out[index[r]], source[r, begin : begin + width]
        for j in range(width):
            to[j] += of[j]
