"""Products that apply relu, or its rule, to their result while it is in the cache.

A product in parts leaves its result in the caches of several cores; a pass over it behind that fetches most of it from another core, which takes
longer than to compute it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from dynograd.arrays import ndarray
from dynograd.plans.calls import Call
from dynograd.plans.gpu.array_kinds import same_part
from dynograd.plans.groups import Group
from dynograd.plans.lowering import Lowered, layouts
from dynograd.plans.lowering.bound import arrays_of
from dynograd.plans.lowering.fusion import Reads
from dynograd.plans.lowering.products import finished, is_product
from dynograd.plans.memory import Memory, bounds

__all__ = ["Finish", "finishes_of"]

_PRODUCTS = ("linear", "matmul")


class Finish(Group):
    """A product and the call behind it, in the place of a group; the result of the first is not written.

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
        if not form or behind is None or form.check is not None or len(behind) != 1:
            return
        writing = [launch for launch in form if any([layouts.overlaps(array, out) for array in arrays_of(launch)])]
        if len(writing) != 1 or not is_product(writing[0]) or writing[0].kept[-1].ndim != 2:
            return
        target = writing[0].kept[-1]
        gate = self.behind.inputs[1] if self.behind.kind == "rule" else None
        other = finished(
            writing[0], same_part(target, out, result), None if gate is None else same_part(target, out, gate)
        )
        self.form = Lowered([other if launch is writing[0] else launch for launch in form], exact=False)

    def outputs(self) -> list[Any]:
        return [output for output in (*self.product.outputs[1:], *self.behind.outputs) if output is not None]


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
    for number, (call, behind) in enumerate(pairwise(calls)):
        if grouped.isdisjoint((number, number + 1)) and _fit(call, behind):
            out = call.outputs[0]
            if not reads.after(out, {number + 1}, number):
                region = memory.region_of(out)
                gone = [place for place, array in enumerate(values) if memory.region_of(array) == region]
                finishes.append(Finish((number, number + 1), (call, behind), gone))
    return finishes


def _fit(call: Call, behind: Call) -> bool:
    """Whether `behind` is relu, or its rule, of what the product `call` gives."""
    if (
        call.name not in _PRODUCTS
        or behind.name != "relu"
        or call.kind != behind.kind
        or call.in_place
        or behind.in_place
    ):
        return False
    out, result = call.outputs[0], behind.outputs[0]
    if call.kind not in ("op", "rule") or out is None or result is None or behind.inputs[0] is None:
        return False
    arrays = [out, result, *[array for array in behind.inputs if type(array) is ndarray]]
    return (
        len(arrays) == (3 if call.kind == "op" else 4)
        and all(
            [array.flags.c_contiguous and array.shape == out.shape and array.dtype == out.dtype for array in arrays]
        )
        and bounds(behind.inputs[0]) == bounds(out)
        and out.size > 0
    )
