"""Products that apply an activation, or its rule, to their result while it is in the cache, or add another matrix.

A product in parts leaves its result in the caches of several cores; a pass over it behind that fetches most of it from another core, which takes
longer than to compute it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from dynograd.arrays import ndarray
from dynograd.kernels.formula import formulas
from dynograd.kernels.matmul import matmuls_numba
from dynograd.plans.calls import Call
from dynograd.plans.gpu.array_kinds import same_part
from dynograd.plans.groups import Group
from dynograd.plans.lowering import Lowered, layouts
from dynograd.plans.lowering.bound import arrays_of
from dynograd.plans.lowering.elementwise import pointwise
from dynograd.plans.lowering.families.products import finished, is_product
from dynograd.plans.lowering.fusion import Reads
from dynograd.plans.memory import Memory, bounds

__all__ = ["Finish", "finishes_of"]

_PRODUCTS = ("linear", "matmul")
_ENDS = {
    ("op", "relu"): matmuls_numba.RELU,
    ("rule", "relu"): matmuls_numba.RELU_RULE,
    ("op", "gelu"): matmuls_numba.GELU,
    ("rule", "gelu"): matmuls_numba.GELU_RULE,
    ("op", "add"): matmuls_numba.SUM,
}
_ADDITION = formulas.parse("input + other")


class Finish(Group):
    """A product and the call behind it, in the place of a group; the result of the first is not written, unless gelu is behind it.

    Args:
        numbers: of the two calls.
        calls: themselves.
        gone: the numbers of values that are not written.
    """

    def __init__(self, numbers: tuple[int, int], calls: tuple[Call, Call], gone: list[int]) -> None:
        self.first, self.last = numbers
        self.members, self.gone = [*numbers], gone
        self.product, self.behind = calls
        self.name = f"{self.product.name}_{self.behind.name}"
        self.form: Any = None

    def arrays(self) -> list[Any]:
        return [
            array
            for call in (self.product, self.behind)
            for array in (*call.inputs, *call.outputs)
            if type(array) is ndarray
        ]

    def lower(self, at: Callable[[Any], Any]) -> None:
        """The launches come later (`take`)."""
        self.form = Lowered()

    def take(self, forms: list[Any]) -> None:
        """Has the launches of the product, of which the one that writes the result has another end; or none, where that cannot be."""
        form, behind = forms[self.first], forms[self.last]
        self.form = None
        out, result = self.product.outputs[0], self.behind.outputs[0]
        end = _ENDS[self.behind.kind, self.behind.name]
        if not form or behind is None or form.check is not None or len(behind) != 1:
            return
        writing = [launch for launch in form if any([layouts.overlaps(array, out) for array in arrays_of(launch)])]
        if len(writing) != 1 or not is_product(writing[0]) or writing[0].kept[-1].ndim != 2:
            return
        target = writing[0].kept[-1]
        if end == matmuls_numba.GELU:
            other = finished(writing[0], end, target, same_part(target, out, result))
        else:
            beside = _beside(self.product, self.behind)
            whole = None if beside is None else same_part(target, out, beside)
            other = finished(writing[0], end, same_part(target, out, result), whole)
        self.form = Lowered([other if launch is writing[0] else launch for launch in form], exact=False)

    def outputs(self) -> list[Any]:
        first = () if self.behind.name == "gelu" and self.behind.kind == "op" else (self.product.outputs[0],)
        outputs = (*self.product.outputs, *self.behind.outputs)
        return [output for output in outputs if output is not None and not any([output is other for other in first])]


def finishes_of(
    calls: list[Call], kept: list[Any], values: list[Any], memory: Memory, grouped: set[int]
) -> list[Finish]:
    """The pairs among the calls of a recorded step.

    Args:
        kept: arrays that somebody reads when the step is over.
        values: the arrays of its values, by number.
        grouped: the numbers of calls that are computed otherwise.
    """
    reads, finishes = Reads(calls, kept, memory.region_of), []
    places: dict[int | None, list[int]] = {}
    for place, array in enumerate(values):
        places.setdefault(memory.region_of(array), []).append(place)
    for number, (call, behind) in enumerate(pairwise(calls)):
        if grouped.isdisjoint((number, number + 1)) and _fit(call, behind):
            out = call.outputs[0]
            if (behind.kind, behind.name) == ("op", "gelu"):
                finishes.append(Finish((number, number + 1), (call, behind), []))
            elif not reads.after(out, {number + 1}, number):
                finishes.append(Finish((number, number + 1), (call, behind), places.get(memory.region_of(out), [])))
    return finishes


def _beside(product: Call, behind: Call) -> Any:
    """The matrix that `behind` reads beside the product's result; None: there is none."""
    others = [
        array for array in behind.inputs if type(array) is ndarray and bounds(array) != bounds(product.outputs[0])
    ]
    return others[0] if others else None


def _fit(call: Call, behind: Call) -> bool:
    """Whether `behind` is an end of what the product `call` gives."""
    end = _ENDS.get((behind.kind, behind.name))
    if call.name not in _PRODUCTS or end is None or call.kind != behind.kind or call.in_place or behind.in_place:
        return False
    out, result, operands = call.outputs[0], behind.outputs[0], behind.inputs
    if out is None or result is None or not out.size or not all([type(array) is ndarray for array in operands]):
        return False
    if not all(
        [
            array.flags.c_contiguous and array.shape == out.shape and array.dtype == out.dtype
            for array in (out, result, *operands)
        ]
    ):
        return False
    if end == matmuls_numba.SUM:
        computed = pointwise(behind)
        if computed is None or computed.numbers or computed.results[0].tree != _ADDITION:
            return False
    elif len(operands) != (1 if call.kind == "op" else 2) or bounds(operands[0]) != bounds(out):
        return False
    same = [bounds(array) == bounds(out) for array in operands]
    return same.count(True) == 1 and len(operands) <= 2
