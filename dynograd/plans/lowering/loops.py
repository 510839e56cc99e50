"""Formulas of arrays as launches of one compiled loop, whatever the arrays' layouts.

The kernels are those of large eager calls (`generator_numba.row_kernel`): each element is computed alone and as written, so results have
the bits of eager's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from dynograd.kernels.build.launches import Launch
from dynograd.kernels.elementwise.loops_cpu import COSTLY, LEFT_TO_NUMPY, Loop
from dynograd.kernels.formula import formulas
from dynograd.kernels.formula.formulas import Tree, is_truth
from dynograd.plans.lowering import layouts

__all__ = ["REMAINDERS", "launches_of", "loop_of", "rounds"]

_ROW = 1 << 12  # elements of a row of a flat array, as in `loops_cpu`
_DIMS = 3  # of a row kernel: two that rows lie in, and the row
_PER_ELEMENT = 2  # a simple operation in cache takes half of what `threads.parts` supposes
_BOOL = numpy.dtype(numpy.bool_)
# What eager leaves to NumPy, whose vector code is faster where arrays are large; remainders are exact.
REMAINDERS: dict[str, str] = {name: f"{name}_of_any" for name in ("mod", "fmod", "floor_divide")}
_ROUNDED = (COSTLY - REMAINDERS.keys()) | LEFT_TO_NUMPY
_REMAINDERS_OF_ANY = frozenset(REMAINDERS.values())
_OF_TRUTHS = {"&": "&&", "|": "||", "^": "!=", "~": "!"}
_loops: dict[Any, PlanLoop] = {}
_kernels: dict[Any, Any] = {}


def launches_of(
    name: str,
    trees: Sequence[Tree],
    results: Sequence[Any],
    operands: Mapping[str, Any],
    numbers: Mapping[str, float] | None = None,
    truths: frozenset[str] = frozenset(),
) -> list[Launch] | None:
    """Launches that write each tree's values into the result at its place.

    Args:
        name: for the kernel's name.
        trees: one for each result.
        results: arrays of one shape, which the operands broadcast to.
        operands: by the names in the trees, arrays of one floating dtype (integers where the trees only compare, add and multiply), or bool
            arrays where `truths` says so. A result may be an operand itself.
        numbers: by the other names in the trees.
        truths: the operands that are bool arrays.
    """
    numbers = numbers or {}
    names = tuple(operands)
    values = [operands[text] for text in names]
    kinds = {value.dtype for text, value in operands.items() if text not in truths}
    if len(kinds) > 1:
        return None
    kind = kinds.pop() if kinds else numpy.dtype(numpy.float32)
    if any(
        [numbers[text] != numbers[text] for text in numbers]
    ):  # choices between NaN and a number would take the number
        return None
    if kind.kind != "f" and any(
        [_has_infinity(tree) for tree in trees]
    ):  # loops over whole numbers have no such number
        return None
    if not names:  # constants alone; a loop has an operand
        values = [numpy.zeros((), kind)]
    loop = loop_of(name, names, tuple(numbers), tuple(trees), truths)
    special = loop.with_statics(tuple(numbers.values()))
    if special is None or not special.supports(kind):
        return None
    statics = tuple(numbers.values()) if special is loop else ()
    for result, tree in zip(results, special.trees):
        if result.dtype != (_BOOL if is_truth(tree, truths) else kind) or result.shape != results[0].shape:
            return None
    return _Layout(special, kind, statics, list(results), values).launches


def rounds(tree: Tree) -> bool:
    """Whether its last bits may be others than eager's, which lets NumPy compute exponentials and their like of few elements."""
    functions = formulas.functions_in(tree)
    return not functions.isdisjoint(_ROUNDED) or {"/", "sqrt"} <= functions  # a quotient by a root is one function


def _in_plans(tree: Tree, truths: frozenset[str]) -> Tree:
    """The tree with the functions of plans: bits of truths as logic, remainders that are exact for any numbers."""
    if tree.head in ("name", "number"):
        return tree
    parts = tuple([_in_plans(part, truths) for part in tree.parts])
    heads = _OF_TRUTHS if all([is_truth(part, truths) for part in parts]) else REMAINDERS
    return Tree(heads.get(tree.head, tree.head), parts)


class PlanLoop(Loop):
    """A loop of more functions than eager has: there it is not slower than what stands around a call in Python."""

    __slots__ = ()

    def supports(self, kind: Any) -> bool:
        functions = self.functions
        self.functions = functions - _REMAINDERS_OF_ANY - (LEFT_TO_NUMPY if kind.kind == "f" else frozenset())
        supported = super().supports(kind)
        self.functions = functions
        return supported

    def _specialised(self, values: tuple[Any, ...]) -> Loop:
        return super()._specialised(values) or self._with_numbers(values)


def _has_infinity(tree: Tree) -> bool:
    return any(
        [_has_infinity(part) if isinstance(part, Tree) else part in (math.inf, -math.inf) for part in tree.parts]
    )


def loop_of(name: str, names: tuple, statics: tuple, trees: tuple, truths: frozenset) -> PlanLoop:
    """The loop of formulas, the same one each time."""
    key = names, statics, trees, truths
    loop = _loops.get(key)
    if loop is None:
        changed = tuple([_in_plans(tree, truths) for tree in trees])
        loop = _loops[key] = PlanLoop(name, names or ("none",), statics, changed, truths)
    return loop


class _Layout:
    """How one loop goes through its arrays: copies before it, the loop, copies behind it. `launches` is None where it cannot."""

    def __init__(self, loop: Loop, kind: Any, statics: tuple, results: list[Any], values: list[Any]) -> None:
        self.launches: list[Launch] | None = None
        before: list[Launch] = []
        behind: list[Launch] = []
        shape = results[0].shape
        if not results[0].size:
            self.launches = []
            return
        order = layouts.memory_order(results[0])
        written: list[Any] = []
        own: set[int] = set()  # positions of operands that are a result
        for place, result in enumerate(results):
            moved = result.transpose(order)
            met = [number for number, value in enumerate(values) if layouts.overlaps(value, result)]
            same = [number for number in met if _is_same(values[number], result)]
            if not moved.flags.c_contiguous or (met and (len(results) > 1 or met != same)):
                moved = layouts.scratch(moved.shape, result.dtype)
                put = layouts.copy(result.transpose(order), moved)
                if put is None or (met and place):
                    return
                behind += put
            elif same:
                own.update(same)
            written.append(moved)
        spread = [numpy.broadcast_to(value, shape).transpose(order) for value in values]
        while True:
            strides = [layouts.steps(value) or [] for value in spread]
            full = _row_major(written[0].shape)
            if not shape or all(strides):
                sizes, merged = layouts.collapsed(written[0].shape, [full, *strides])
                bad = [number for number, steps in enumerate(merged[1:]) if steps and steps[-1] > 1]
                if not bad and len(sizes) > _DIMS:
                    bad = [number for number, steps in enumerate(merged[1:]) if steps != merged[0]]
                if not bad:
                    break
            else:
                bad = [number for number, steps in enumerate(strides) if not steps]
            for number in bad:
                copied = layouts.scratch(written[0].shape, spread[number].dtype)
                put = layouts.copy(copied, spread[number])
                if put is None:
                    return
                before += put
                spread[number] = copied
        own = {number for number in own if merged[number + 1] == merged[0]}
        self.launches = [*before, _launch(loop, kind, statics, written, spread, own, sizes, merged[1:]), *behind]


def _launch(
    loop: Loop, kind: Any, statics: tuple, results: list, values: list, own: set, sizes: list, strides: list
) -> Launch:
    total = results[0].size
    columns, inner = _ROW, 1
    if len(sizes) > 1:
        columns, inner = sizes[-1], sizes[-2]
    arguments: list[Any] = [layouts.flat(result) for result in results]
    kinds = ""
    for number, (value, steps) in enumerate(zip(values, strides)):
        if number in own:
            kinds += "W"
            continue
        vector = layouts.flat(value)
        if len(sizes) < 2:
            step = steps[0] if steps else 0
            kinds += "F" if step else "B"
            arguments += (vector, _ROW * step, 0)
        else:
            kinds += "F" if steps[-1] else "B"
            arguments += (vector, steps[0] if len(sizes) == 3 else 0, steps[-2])
    key = loop.trees, loop.operands, kinds, loop.statics, kind.name, loop.truths
    kernel = _kernels.get(key)
    if kernel is None:
        from dynograd.kernels.formula import generator_numba

        kernel = _kernels[key] = generator_numba.row_kernel(
            loop.name, loop.trees, loop.operands, kinds, loop.statics, kind.name, loop.truths
        )
    rows = -(-total // columns)
    bounds = [float("-inf") if text == "min" else float("inf") for text in loop.statics]
    settled = [bound if value is None else float(value) for value, bound in zip(statics, bounds)]
    work = total * loop.cost // _PER_ELEMENT
    return Launch(kernel, (*arguments, *settled, columns, inner, total), rows, layouts.parts_of(work, rows))


def _row_major(shape: Sequence[int]) -> list[int]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step if size > 1 else 0)
        step *= size
    return strides[::-1]


def _is_same(array: Any, other: Any) -> bool:
    first, second = array.__array_interface__, other.__array_interface__
    return bool(first["data"][0] == second["data"][0] and array.shape == other.shape and array.strides == other.strides)
