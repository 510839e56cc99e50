"""Levels of rows in one compiled call: kernels and products run level after level, where rows of a level use those of the levels before.

A `LevelProgram` is a list of steps (copies of rows, kernels of `row_expressions_numba`, products with weights in panels, sums by row
number), each over the rows of one level at a time. Rows that have nothing to do with each other (other trees, other sequences) may be
computed by other threads: each thread goes through all levels of its rows, and waits for nobody.
"""

from __future__ import annotations

import inspect
from typing import Any

import numba
import numpy as np

from dynograd.kernels.build import addresses_numba, threads
from dynograd.kernels.build.compiling_numba import compile_source, compiled
from dynograd.kernels.recurrent.recurrent_products_numba import product_of_rows
from dynograd.kernels.rows.row_expressions_numba import add_rows, copy_rows

# Multiplications that cost as much as the simple operation `threads.parts` counts.
_PER_OPERATION = 16


class LevelProgram:
    """Steps over the rows of each level. Arrays are named by keys; `run(arrays, ...)` is given them in the order of `keys`.

    Steps are called by address, so that the loop around them is compiled quickly, and serves other programs with steps of the same form.
    """

    def __init__(self, backward: bool) -> None:
        self.backward = backward
        self.keys: list[Any] = []
        self._numbers: list[int] = []
        self._sizes: list[Any] = []  # of kernels
        self._steps: list[tuple[Any, list[str]]] = []  # functions, and the names of what they are called with
        self._compiled: Any = None
        self._prepared: Any = None  # numbers, and addresses of the functions

    def copy(self, out: Any, at: int, source: Any, index: Any, begin: int, width: int) -> None:
        """`out[r, at : at + width] = source[index[r], begin : begin + width]`."""
        names = [self._array(out), self._number(at), self._array(source), self._array(index)]
        self._steps.append((copy_rows.serial, [*names, self._number(begin), self._number(width)]))

    def add(self, out: Any, index: Any, source: Any, begin: int, width: int) -> None:
        """`out[index[r]] += source[r, begin : begin + width]`, where `index[r]` is not negative."""
        names = [self._array(out), self._array(index), self._array(source)]
        self._steps.append((add_rows.serial, [*names, self._number(begin), self._number(width)]))

    def product(self, rows: Any, panels: Any, bias: Any, out: Any, lead: int, add: bool) -> None:
        """`out = rows @ panels + bias`, or added to `out`; each row of the level has `lead` rows of the product. An empty bias is none."""
        names = [self._array(rows), self._array(panels), self._array(bias), self._array(out)]
        self._steps.append((_linear_rows, [*names, self._number(lead), self._number(int(add))]))

    def kernel(self, kernel: Any, leaves: list[Any], outputs: list[Any]) -> None:
        """A RowKernel on the keys of its leaves (two of one that is read by row number)."""
        self._sizes.append(kernel.given_sizes)
        names = [self._array(leaf) for leaf in (*leaves, *outputs)]
        self._steps.append((kernel.compiled.serial, [*names, f"sizes{len(self._sizes) - 1}"]))

    def _array(self, key: Any) -> str:
        if key not in self.keys:
            self.keys.append(key)
        return f"a{self.keys.index(key)}"

    def _number(self, value: int) -> str:
        if value not in self._numbers:
            self._numbers.append(value)
        return f"numbers[{self._numbers.index(value)}]"

    def run(self, arrays: list[Any], cuts: Any, low: int, high: int) -> None:
        """Levels `low` to `high` (backward: from the last of them to the first); `cuts` are those of `Shares`.

        `arrays` are C-contiguous, writable and aligned, so that their number of dims and dtype decide about machine code.
        """
        if self._compiled is None:
            self._prepare(arrays)
        parts = cuts.shape[1] - 1
        self._compiled(*arrays, *self._sizes, *self._prepared, cuts, low, high, count=parts, work=0, parts=parts)

    def _prepare(self, arrays: list[Any]) -> None:
        names = {f"a{number}": numba.typeof(array) for number, array in enumerate(arrays)}
        names |= {f"sizes{number}": numba.typeof(size) for number, size in enumerate(self._sizes)}
        addresses = []
        for function, operands in self._steps:
            kinds = tuple([names.get(name, numba.int64) for name in (*operands, "first", "last")])
            addresses.append(addresses_numba.address_of(function, kinds))
        self._prepared = np.array(self._numbers, np.int64), np.array(addresses, np.int64)
        source = self._source([*names])
        if source not in _known:
            key = inspect.getsource(addresses_numba)  # which `call` is made from
            _known[source] = compile_source(source, "row_levels", {"call": addresses_numba.call}, chunk=True, key=key)
        self._compiled = _known[source]

    def _source(self, names: list[str]) -> str:
        levels = "range(high - 1, low - 1, -1)" if self.backward else "range(low, high)"
        lines = [
            f"def row_levels({', '.join(names)}, numbers, steps, cuts, low, high, start, stop):",
            "    for part in range(start, stop):",
            f"        for level in {levels}:",
            "            first, last = cuts[level, part], cuts[level, part + 1]",
            "            if first < last:",
        ]
        for place, (_, operands) in enumerate(self._steps):
            lines.append(f"                call(steps[{place}], ({', '.join(operands)}, first, last))")
        return "\n".join(lines) + "\n"


_known: dict[str, Any] = {}


@compiled
def _linear_rows(rows, panels, bias, out, lead, add, first, last):
    """out[first:last] = rows[first:last] @ panels + bias (empty: none), or `add`ed to it, where a row is `lead` rows of the product."""
    inner, columns = rows.shape[1] // lead, out.shape[1] // lead
    result = out.reshape(out.shape[0] * lead, columns)
    if bias.size > 0:
        for row in range(first * lead, last * lead):
            to = result[row]
            for column in range(columns):
                to[column] = bias[column]
    operands = rows.reshape(rows.shape[0] * lead, inner)
    product_of_rows(operands, panels, result, first * lead, last * lead, add != 0 or bias.size > 0)


class Shares:
    """Which rows of each level each thread computes: rows that have anything to do with each other are one thread's.

    Args:
        sources: (columns, rows) of the rows that each row uses, -1 where it is none of these.
        starts: where each level begins, and the number of rows.

    Attributes:
        largest: of the rows that hang together, most of all, how many there are.
    """

    def __init__(self, sources: Any, starts: Any) -> None:
        self.starts = starts
        self.first_of = np.empty(sources.shape[1], np.int64)  # the first row of all that hang together with a row
        self.sizes = np.zeros(sources.shape[1], np.int64)
        _connect(sources, self.first_of, self.sizes)
        self.largest = int(self.sizes.max(initial=0))
        self._cuts: dict[int, Any] = {}

    def cuts(self, multiplications: int) -> Any:
        """(levels, parts + 1): part p has the rows cuts[level, p] to cuts[level, p + 1]. `multiplications`: of one row."""
        parts = threads.parts(len(self.sizes) * multiplications // _PER_OPERATION)
        cut = self._cuts.get(parts)
        if cut is None:
            cut = np.empty((len(self.starts) - 1, parts + 1), np.int64)
            if not _cut(self.first_of, self.sizes, self.starts, cut):
                cut = np.stack([self.starts[:-1], self.starts[1:]], 1)
            self._cuts[parts] = cut
        return cut


@compiled
def _root(parents, row):
    while parents[row] != row:
        parents[row] = parents[parents[row]]
        row = parents[row]
    return row


@compiled
def _connect(sources, first_of, sizes):
    """For each row the first one that hangs together with it, and for each such first row how many do."""
    count = first_of.size
    for row in range(count):
        first_of[row] = row
    for column in range(sources.shape[0]):
        for row in range(count):
            if sources[column, row] >= 0:
                first, other = _root(first_of, row), _root(first_of, sources[column, row])
                first_of[max(first, other)] = min(first, other)
    for row in range(count):
        first_of[row] = first_of[first_of[row]]  # that of an earlier row is a root
        sizes[first_of[row]] += 1


@compiled
def _cut(first_of, sizes, starts, cuts):
    """Fills `cuts`; False where the rows of a level do not lie in the order of the parts."""
    parts = cuts.shape[1] - 1
    part_of = np.empty(sizes.size, np.int64)
    before = 0
    for row in range(sizes.size):
        if first_of[row] == row:
            part_of[row] = min((before + sizes[row] // 2) * parts // sizes.size, parts - 1)
            before += sizes[row]
    for level in range(starts.size - 1):
        part = 0
        cuts[level, 0] = starts[level]
        for row in range(starts[level], starts[level + 1]):
            mine = part_of[first_of[row]]
            if mine < part:
                return False
            while part < mine:
                part += 1
                cuts[level, part] = row
        while part < parts:
            part += 1
            cuts[level, part] = starts[level + 1]
    return True
