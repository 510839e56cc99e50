"""Sorting, selecting and searching along one dim: rows are brought into one piece, whatever dim they lie along."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.kernels.build.launches import Launch
from dynograd.kernels.formula import formulas
from dynograd.kernels.sort.sorting_cpu import IMAGES, LONGER, NONE, PLACES
from dynograd.ops.index.lookups import inserted_at
from dynograd.ops.index.sorting import sort_along
from dynograd.ops.layout.views import reshaped
from dynograd.plans.calls import Call
from dynograd.plans.lowering import layouts, loops
from dynograd.plans.lowering.forms import Lowered, arguments_of, form
from dynograd.plans.lowering.parts import op_in_parts

__all__: list[str] = []

_ROUNDED = {
    name: formulas.parse(f"{function}(x)")
    for name, function in (("lower", "floor"), ("higher", "ceil"), ("nearest", "round"))
}


class _Rows:
    """The operand with `dim` last, in one piece."""

    def __init__(self, x: Any, dim: Any) -> None:
        self.before: list[Launch] = []
        self.behind: list[Launch] = []
        self.dim = dim
        self.fits = bool(
            isinstance(x, numpy.ndarray)
            and x.ndim
            and x.size
            and x.dtype.char in IMAGES
            and isinstance(dim, int)
            and x.shape[dim] < LONGER  # longer rows are sorted in parts
        )
        rows = layouts.row_major(numpy.moveaxis(x, dim, -1), self.before) if self.fits else None
        self.fits = self.fits and rows is not None
        if rows is not None:
            self.size, self.count, self.work = rows.shape[-1], rows.size // rows.shape[-1], rows.size
            signed, keys, self.highest, self.infinity = IMAGES[x.dtype.char]
            self.x = layouts.flat(rows)
            self.operands = (self.x, self.x.view(signed), keys)

    def place(self, target: Any, keepdim: bool = True) -> numpy.ndarray | None:
        """Where rows of results are written, as a vector; they are moved to the target behind; None where no kernel does it."""
        whole = layouts.to_be_written(numpy.moveaxis(target, self.dim, -1) if keepdim else target, self.behind)
        self.fits = self.fits and whole is not None
        return None if whole is None else layouts.flat(whole)

    def order(self, descending: bool, values: Any, places: Any) -> Launch:
        """Sorts; `values` may be None."""
        from dynograd.kernels.sort.sorting_numba import order_of_rows

        results = (self.x[:0] if values is None else values, places)
        arguments = (*self.operands, PLACES, self.size, NONE, NONE, self.highest, self.infinity, descending, *results)
        return Launch(order_of_rows, arguments, self.count, layouts.parts_of(8 * self.work, self.count))

    def lowered(self, launch: Launch) -> Lowered | None:
        return Lowered([*self.before, launch, *self.behind]) if self.fits else None


@form("op", "sort", "argsort")
def _sort(call: Call) -> Lowered | None:
    arguments = arguments_of(call)
    rows = _Rows(arguments["input"], arguments["dim"])
    if not rows.fits:
        return None
    *values, places = [rows.place(output) for output in call.outputs]
    return rows.lowered(rows.order(bool(arguments["descending"]), values[0] if values else None, places))


@form("op", "topk")
def _top(call: Call) -> Lowered | None:
    from dynograd.kernels.sort.sorting_numba import top_of_rows

    arguments = arguments_of(call)
    k, largest = arguments["k"], bool(arguments["largest"])
    rows = _Rows(arguments["input"], arguments["dim"])
    if not rows.fits or not k or not arguments["sorted"]:
        return None
    if k > 16 and 16 * k > rows.size:  # all are sorted
        whole = [layouts.scratch((rows.count, rows.size), output.dtype) for output in call.outputs]
        for output, ordered in zip(call.outputs, whole):
            target = numpy.moveaxis(output, rows.dim, -1)
            put = layouts.copy(target, ordered[:, :k].reshape(target.shape))
            if put is None:
                return None
            rows.behind += put
        return rows.lowered(rows.order(largest, *[layouts.flat(ordered) for ordered in whole]))
    results = [rows.place(output) for output in call.outputs]
    operands = (*rows.operands, rows.size, NONE, NONE, k, rows.highest, rows.infinity, largest, *results)
    return rows.lowered(Launch(top_of_rows, operands, rows.count, layouts.parts_of(rows.work, rows.count)))


@form("op", "kthvalue", "median", "median_of_all")
def _kth(call: Call) -> Lowered | None:
    """Of medians the kernel finds the place itself: NaN wins, or does not count."""
    from dynograd.kernels.sort.sorting_numba import kth_of_rows

    arguments = arguments_of(call)
    x, outputs, keepdim = arguments["input"], list(call.outputs), bool(arguments.get("keepdim"))
    if call.name == "median_of_all":
        if not isinstance(x, numpy.ndarray) or not x.flags.c_contiguous:
            return None
        x, arguments["dim"] = x.reshape(-1), 0
        outputs.append(layouts.scratch((), numpy.int64))
    rows = _Rows(x, arguments["dim"])
    if not rows.fits:
        return None
    k, rule = (arguments["k"] - 1, 0) if call.name == "kthvalue" else (0, 2 if arguments["ignore_nan"] else 1)
    results = [rows.place(output, keepdim) for output in outputs]
    operands = (*rows.operands, rows.size, NONE, NONE, k, rule, rows.highest, rows.infinity, *results)
    return rows.lowered(Launch(kth_of_rows, operands, rows.count, layouts.parts_of(4 * rows.work, rows.count)))


@form("op", "searchsorted")
def _searched(call: Call) -> Lowered | None:
    """Places in one sorted row, or in one for each row of values."""
    from dynograd.kernels.index.searches_numba import LANES, search

    arguments, out = arguments_of(call), call.outputs[0]
    table, values = arguments["sorted_sequence"], arguments["input"]
    arrays = all([isinstance(array, numpy.ndarray) and array.size for array in (table, values)])
    if not arrays or arguments["sorter"] is not None or table.dtype != values.dtype or table.dtype.char not in IMAGES:
        return None
    before: list[Launch] = []
    behind: list[Launch] = []
    table, values = layouts.row_major(table, before), layouts.row_major(values, before)
    target = layouts.to_be_written(out, behind)
    if table is None or values is None or target is None:
        return None
    count, size = values.shape[-1] if table.ndim > 1 else values.size, table.shape[-1]
    table, values, target = [layouts.flat(array) for array in (table, values, target)]
    rows = values.size // count
    if table.size not in (size, rows * size):
        return None
    operands = (
        table.reshape(-1, size),
        values.reshape(rows, count),
        bool(arguments["right"]),
        target.reshape(rows, count),
    )
    blocks, work = rows * -(-count // LANES), (max(size.bit_length(), 1) + 2) * values.size
    return Lowered([*before, Launch(search, operands, blocks, layouts.parts_of(work, blocks)), *behind])


@op_in_parts("isin")
def _contained(elements: Any, test_elements: Any, invert: bool) -> object:
    """Where an element is among the others, it belongs in front of one of them, and behind one."""
    if elements.dtype != test_elements.dtype:
        raise TypeError("isin: elements of another dtype are compared one by one")
    ordered = sort_along(reshaped(test_elements, (-1,)), 0, False)[0]
    first, last = [inserted_at(ordered, elements, None, right, False) for right in (False, True)]
    return (first == last) | (elements != elements) if invert else (first != last) & (elements == elements)


@form("op", "whole_places")
def _whole_places(call: Call) -> Lowered | None:
    """Of quantiles: rounded, as whole numbers."""
    arguments, out = arguments_of(call), call.outputs[0]
    x = arguments["input"]
    if not isinstance(x, numpy.ndarray) or x.dtype.name not in ("float32", "float64"):
        return None
    rounded = layouts.scratch(x.shape, x.dtype)
    launches = loops.launches_of("rounded", [_ROUNDED[arguments["rounding"]]], [rounded], {"x": x})
    numbers = layouts.converted(rounded, out.dtype)
    put = None if numbers is None else layouts.copy(out, numbers[0])
    return None if launches is None or numbers is None or put is None else Lowered([*launches, *numbers[1], *put])
