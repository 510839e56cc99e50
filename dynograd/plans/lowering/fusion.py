"""Groups: neighbouring elementwise calls become one call, computed by one loop.

What only the group itself reads is not written. A call joins the open group if it goes through the same shape in the same dtype, reads what
the group has made element by element or not at all, and writes nothing that the group reads or writes. Calls that compute nothing
(views) stand between others without ending a group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dynograd.kernels.build.launches import Launch
from dynograd.kernels.formula import formulas
from dynograd.kernels.formula.formulas import Tree
from dynograd.plans.calls import Call
from dynograd.plans.gpu.array_kinds import PLAIN, address_range, identity
from dynograd.plans.lowering.elementwise import Pointwise, Result, pointwise

__all__ = ["Fused", "Reads", "fuse"]

# Arrays that one loop reads: rows of more would not stay in the first cache, with what it writes.
_MOST_OPERANDS = 12
# Calls in a group, and operations and names of a result's tree, equal ones counted each time: what compiling a loop takes grows with them.
_MOST_MEMBERS, _MOST_NODES = 40, 1200
_AGAIN = {
    "max": 1,
    "min": 1,
    "sign": 1,
}  # how often loops write the first part of these once more: they make choices of them


@dataclass(slots=True)
class Fused(Call):
    """Calls that are computed together; `computed` says what of them at each element."""

    members: list[Call] = field(default_factory=list)
    computed: Any = None


def fuse(
    calls: Sequence[Call],
    kept: Sequence[Any],
    place_of: Callable[[Any], Any] = lambda array: 0,
    computed_by: Callable[[Call], Pointwise | None] = pointwise,
) -> list[Call]:
    """The calls, with groups of neighbouring elementwise ones as one call each.

    Args:
        calls: a segment of a plan, in order.
        kept: arrays that must exist when the segment has run: what the program, a later segment, or another reader has.
        place_of: what arrays that share memory have in common.
        computed_by: what a call computes at each element, if it is one of that kind.
    Returns:
        A shorter list that leaves the same values in `kept`, and in what its own calls read.
    """
    reads = Reads(calls, kept, place_of)
    result: list[Call] = []
    group: _Group | None = None
    for position, call in enumerate(calls):
        computed = None if call.saved else computed_by(call)  # a loop writes results only
        if computed is None or not computed.results:
            if group is not None and (
                any([output is not None for output in call.outputs]) or not _computes_nothing(call)
            ):
                result += group.closed(reads)
                group = None
            if group is None:
                result.append(call)
            else:
                group.between.append(call)
            continue
        if group is None or not group.take(position, call, computed):
            if group is not None:
                result += group.closed(reads)
            group = _Group()
            if not group.take(position, call, computed):
                result.append(call)
                group = None
    return result if group is None else [*result, *group.closed(reads)]


def _computes_nothing(call: Call) -> bool:
    return call.kind in ("rule", "copy", "sum") or (call.kind == "op" and bool(call.op.view))


class Reads:
    """Who reads a piece of memory behind a place in the list."""

    def __init__(self, calls: Sequence[Call], kept: Sequence[Any], place_of: Callable[[Any], Any]) -> None:
        self.place_of = place_of
        self.by_place: dict[Any, list[tuple[int, tuple[int, int]]]] = {}  # (position of the reader, bounds)
        for array in kept:
            self.by_place.setdefault(place_of(array), []).append((len(calls), address_range(array)))
        for position, call in enumerate(calls):
            for value in call.inputs:
                if type(value) in PLAIN:
                    self.by_place.setdefault(place_of(value), []).append((position, address_range(value)))

    def after(self, array: Any, members: set[int], position: int) -> bool:
        """Whether anything reads it, but calls at `members`, from `position` on."""
        bounds = address_range(array)
        return any(
            reader > position and reader not in members and _meet(bounds, other)
            for reader, other in self.by_place.get(self.place_of(array), ())
        )


def _meet(first: tuple[int, int], second: tuple[int, int]) -> bool:
    return first[0] < second[1] and second[0] < first[1]


class _Group:
    """An open group."""

    def __init__(self) -> None:
        self.members: list[tuple[int, Call]] = []
        self.between: list[Call] = []  # that compute nothing
        self.shape: tuple[int, ...] = ()
        self.kind: Any = None
        self.operands: dict[tuple, tuple[str, Any]] = {}  # by identity
        self.values: dict[tuple, tuple[Tree, int]] = {}  # what members have made, and how large the trees are
        self.results: list[tuple[int, Result]] = []
        self.numbers: dict[float, str] = {}
        self.truths: set[str] = set()
        self.before: list[Launch] = []

    def take(self, position: int, call: Call, computed: Pointwise) -> bool:
        """Takes a call into the group; False, and nothing changed, where it cannot be one of it."""
        kinds = {array.dtype for name, array in computed.operands.items() if name not in computed.truths}
        kind = kinds.pop() if kinds else self.kind
        if kinds or (self.members and (computed.shape != self.shape or (self.kind is not None and kind != self.kind))):
            return False
        written = [(address_range(result.array), result) for _, result in self.results]
        replaced: dict[str, Tree] = {}
        new: dict[tuple, tuple[str, Any]] = {}
        sizes: dict[str, int] = {}  # of what stands in the place of names
        for name, array in computed.operands.items():
            name_of_array = identity(array)
            value = self.values.get(name_of_array)
            if value is not None:
                replaced[name] = value[0]
                sizes[name] = value[1]
                continue
            if any([_meet(address_range(array), bounds) for bounds, _ in written]):
                return False
            known = self.operands.get(name_of_array) or new.get(name_of_array)
            if known is None:
                known = new[name_of_array] = f"x{len(self.operands) + len(new)}", array
            replaced[name] = formulas.name(known[0])
        reads = [address_range(array) for _, array in (*self.operands.values(), *new.values())]
        for result in computed.results:
            bounds = address_range(result.array)
            if any([_meet(bounds, other) for other in reads]) or any([_meet(bounds, other) for other, _ in written]):
                return False
        size = max([_size(result.tree, sizes) for result in computed.results])
        operands = len(self.operands) + len(new)
        if self.members and (operands > _MOST_OPERANDS or size > _MOST_NODES or len(self.members) >= _MOST_MEMBERS):
            return False
        for name, number in computed.numbers.items():
            text = self.numbers.setdefault(number, f"c{len(self.numbers)}")
            replaced[name] = formulas.name(text)
        self.truths |= {replaced[name].parts[0] for name in computed.truths if replaced[name].head == "name"}
        self.operands |= new
        self.before += computed.before
        self.shape, self.kind = computed.shape, kind
        self.members.append((position, call))
        for result in computed.results:
            tree = formulas.substitute(result.tree, replaced)
            self.results.append((position, Result(tree, result.array)))
            if result.array.shape == self.shape:
                self.values[identity(result.array)] = tree, size
        return True

    def closed(self, reads: Reads) -> list[Call]:
        """The group as one call; its calls as they are where it has but one."""
        calls = [call for _, call in self.members]
        places = {position for position, _ in self.members}
        needed = [
            result
            for position, result in self.results
            if result.array.shape != self.shape or reads.after(result.array, places, position)
        ]
        if len(calls) == 1 or not needed:
            return [*self.between, *calls]
        used = formulas.names_in(*[result.tree for result in needed])
        operands = {name: array for name, array in self.operands.values() if name in used}
        numbers = {name: number for number, name in self.numbers.items() if name in used}
        names = [call.name for call in calls]
        name = "_".join(names) if len(names) < 4 else f"{names[0]}_to_{names[-1]}_{len(names)}"
        computed = Pointwise(name, self.shape, operands, needed, numbers, frozenset(self.truths & used), self.before)
        outputs = tuple([result.array for result in needed])
        fused = Fused(
            "fused",
            name,
            None,
            tuple(operands.values()),
            outputs,
            tuple(numbers.values()),
            _Members(calls, outputs),
            line=calls[0].line,
            members=calls,
            computed=computed,
        )
        return [*self.between, fused]


class _Members:
    """The Python form: one call after the other."""

    def __init__(self, calls: list[Call], outputs: tuple[Any, ...]) -> None:
        self.calls, self.outputs = calls, outputs

    def __call__(self) -> Sequence[Any]:
        for call in self.calls:
            for output, result in zip(call.outputs, call.compute()):
                if output is not None and result is not output:
                    output[...] = result
        return self.outputs


def _size(tree: Tree, sizes: dict[str, int]) -> int:
    if tree.head in ("name", "number"):
        return sizes.get(tree.parts[0], 1) if tree.head == "name" else 1
    parts = [_size(part, sizes) for part in tree.parts]
    return 1 + sum(parts) + _AGAIN.get(tree.head, 0) * parts[0]
