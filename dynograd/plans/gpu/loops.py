"""Loops of a recorded step on a GPU: an elementwise call, or neighbouring ones together, as one Triton kernel made of their formulas."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from dynograd.arrays import cuda_arrays, ndarray
from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.kernels import kernel
from dynograd.kernels.elementwise.loops_cuda import CudaLoop, compute_type
from dynograd.kernels.formula import formulas
from dynograd.kernels.formula.formulas import Tree
from dynograd.plans.calls import Call
from dynograd.plans.gpu.calls import Unknown, stamped
from dynograd.plans.gpu.places import Bindings, Place, Regions, new_array
from dynograd.plans.gpu.pointwise import BOOL, FLOATS
from dynograd.plans.lowering.elementwise import Pointwise
from dynograd.plans.lowering.fusion import Fused, fuse
from dynograd.plans.memory import is_part_of_any

__all__ = ["Loop", "LoopCall", "LoopGroup", "groups_of"]


class Loop:
    """Formulas of some elementwise calls on memory that is bound.

    Raises:
        Unknown: it would read memory that no call has written.
    """

    def __init__(self, computed: Pointwise, regions: Regions) -> None:
        self.shape = computed.shape
        self.operands = {name: _placed(array, regions) for name, array in computed.operands.items()}
        self.numbers = dict(computed.numbers)
        results = [(result.tree, _placed(result.array, regions)) for result in computed.results]
        # What is summed to the shape of an operand that was repeated: an operand as it is, or what the loop gives.
        self.plain = [(tree, place) for tree, place in results if place.shape != self.shape and self._is_operand(tree)]
        self.results = [row for row in results if row not in self.plain]
        self.writes = {place.region for _, place in results if type(place) is Place}
        self.loop: CudaLoop | None = None
        if self.results:
            trees = tuple([tree for tree, _ in self.results])
            used = formulas.names_in(*trees)
            self.names = tuple([name for name in self.operands if name in used])
            self.numbers = {name: number for name, number in self.numbers.items() if name in used}
            truths = computed.truths & used
            self.loop = CudaLoop(computed.name, self.names, tuple(self.numbers), trees, truths)

    def _is_operand(self, tree: Tree) -> bool:
        return tree.head == "name" and tree.parts[0] in self.operands

    @property
    def reads(self) -> set[int]:
        """Regions."""
        return {place.region for place in self.operands.values() if type(place) is Place}

    def run(self, bindings: Bindings) -> None:
        """Computes it, and binds what it gives."""
        if self.loop is not None:
            operands = [bindings.at(self.operands[name]) for name in self.names]
            device = operands[0].device_index
            outs = [
                new_array(place, device)
                if place.shape == self.shape
                else cuda_arrays.empty(self.shape, place.dtype, device)
                for _, place in self.results
            ]
            kinds = [out.dtype for out in outs]
            floats = [array.dtype for array in (*outs, *operands) if array.dtype != BOOL]
            compute = compute_type(floats[0]) if floats else FLOATS[0]
            self.loop(operands, tuple(self.numbers.values()), kinds, compute, outs)
            for (_, place), out in zip(self.results, outs):
                bindings.bind(place, out if place.shape == self.shape else _summed(out, place))
        for tree, place in self.plain:
            source = bindings.at(self.operands[tree.parts[0]]).broadcast_to(self.shape)
            bindings.bind(place, _summed(source, place))


def _placed(array: CudaArray, regions: Regions) -> Place | CudaArray:
    place = regions.place_of(array)
    if place is None:
        raise Unknown("an elementwise call")
    return place


def _summed(array: CudaArray, place: Place | CudaArray) -> CudaArray:
    result: CudaArray = kernel("reductions", "sum_to", array)(array, place.shape)
    return result


class LoopCall:
    """One call, as a loop; used as `GpuCall` is."""

    in_place = draws = False
    makes = uses = 0  # no node
    key: int | None = None
    key_now: Any = None

    def __init__(self, call: Call, computed: Pointwise, regions: Regions, number: int) -> None:
        self.kind, self.name, self.op, self.line, self.number = call.kind, call.name, call.op, call.line, number
        self.outputs = tuple([None if array is None else _placed(array, regions) for array in call.outputs])
        self.node = stamped(call, regions) if call.kind == "op" else None
        self.loop = Loop(computed, regions)
        self.reads, self.writes = self.loop.reads, self.loop.writes
        self.eager = ""

    def compute(self, bindings: Bindings, nodes: dict[int, Any]) -> None:
        """Makes the call."""
        self.loop.run(bindings)


class LoopGroup:
    """Neighbouring calls of a program that one loop computes, with calls between them that compute nothing.

    Args:
        members: the numbers of the calls that it computes.
        regions: of the step.
    """

    gone: tuple[int, ...] = ()  # what it does not write nobody has: else its calls are made one by one

    def __init__(self, members: list[int], fused: Fused, regions: Regions) -> None:
        self.members, self.first, self.last = members, members[0], members[-1]
        self.between = [number for number in range(self.first, self.last) if number not in members]
        self.name = fused.name
        self.loop = Loop(fused.computed, regions)
        written = {place.region for call in fused.members for place in _places(call, regions)}
        self.unwritten = written - self.loop.writes  # regions


def _places(call: Call, regions: Regions) -> list[Place]:
    places = [None if array is None else regions.place_of(array) for array in call.outputs]
    return [place for place in places if type(place) is Place]


def groups_of(
    calls: Sequence[Call], computed: dict[int, Pointwise], kept: list[Any], regions: Regions
) -> list[LoopGroup]:
    """The groups among the calls of a recorded step.

    Args:
        computed: see `loops_of`.
        kept: arrays that somebody reads when the step is over.
    """
    plain = [_without_views(call, computed.get(number)) for number, call in enumerate(calls)]
    numbers = {id(call): number for number, call in enumerate(plain)}

    def place_of(array: Any) -> object:
        place = regions.place_of(array)
        return place.region if type(place) is Place else array.storage

    def computed_by(call: Call) -> Pointwise | None:
        return computed.get(numbers[id(call)])

    groups = []
    for call in fuse(plain, kept, place_of, computed_by):
        if isinstance(call, Fused):
            groups.append(LoopGroup(sorted([numbers[id(member)] for member in call.members]), call, regions))
    return groups


def _without_views(call: Call, computed: Pointwise | None) -> Call:
    """The call, with None in the place of results that lie in its operands' memory; where that is all, it reads nothing.

    NumPy's arrays among its operands are numbers of the program (`x[:, [0, 2]]`), which no call writes.
    """
    result = copy.copy(call)
    result.inputs = tuple([None if type(value) is ndarray else value for value in call.inputs])
    result.outputs = tuple(
        [None if array is None or is_part_of_any(array, call.inputs) else array for array in call.outputs]
    )
    if computed is not None and not computed.results:
        result.inputs = ()
    return result
