"""One way through a function at all sizes between recorded ones."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from dynograd.autograd.nodes import FREED
from dynograd.base.shapes import Size
from dynograd.plans.recording import Outside
from dynograd.plans.sharing import let_gradient_go
from dynograd.plans.sized.memory import Differs
from dynograd.plans.sized.programs import SizedProgram
from dynograd.plans.sized.sizes import Number, Sizes
from dynograd.plans.sized.values import Common
from dynograd.plans.sized.widening import widen
from dynograd.plans.steps import MOST, Path
from dynograd.plans.walks import Walk
from dynograd.tensor.tensor import Tensor

__all__ = ["Way"]


class Way:
    """A way of a walk, of steps recorded at some sizes, which `resize` makes one of others.

    Args:
        paths: recorded, in the order of the sizes.
        sizes: of the steps.
        fetched: the last of these: sizes of tensors that the step fetches itself, (number of the tensor, dim) of each.
        walk: with the ways that the function was seen to go so far, which are ready for the first of these sizes.
    Raises:
        Differs: they are not one program at several sizes.
    """

    def __init__(self, paths: Sequence[Path], sizes: Sizes, fetched: Sequence[tuple[int, int]], walk: Walk) -> None:
        first = paths[0]
        self.walk = walk
        self.program = program = SizedProgram([path.program for path in paths], sizes, walk.arena)
        common, end = program.common, len(program.calls)
        events = [path.events for path in paths]
        if any([len(other) != len(first.events) for other in events]):
            raise Differs("other steps")
        self._check_shapes(first.events, fetched)
        self._args = [_common_args(step, common, end) for step in zip(*events)]
        self._kinds = [_common_outside(others, common) for others in zip(*[path.outside for path in paths])]
        if any([_of_gradients(path) != _of_gradients(first) for path in paths]):
            raise Differs("other gradients")
        widen(program)
        if not program.resize(sizes.samples[0]):
            raise Differs("numbers that two formulas give")
        self._add(first)
        self._resize_steps()

    def _check_shapes(self, events: Sequence[Any], fetched: Sequence[tuple[int, int]]) -> None:
        """The program may ask for the shape of a result at once: it must not follow from a size that is only known later.

        Raises:
            Differs: it does.
        """
        sizes, (arrays, _, _, _) = self.program.sizes, self.program.common_lists()
        count = len(sizes.samples[0]) - len(fetched)
        unknown = {place: number for place, (number, _) in enumerate(fetched, count)}
        for event in events:
            if not unknown:
                return
            met = set(_numbers_outside(event.args))
            unknown = {place: number for place, number in unknown.items() if number not in met}
            for part in [arrays[number] for number in event.results]:
                for size in getattr(part, "shape", ()):
                    if isinstance(size, Number) and not any(
                        [
                            unknown.keys().isdisjoint([place for place, _ in factors])
                            for factors, _, _ in sizes.formulas(size)
                        ]
                    ):
                        raise Differs("shapes that follow from what the step fetches later")

    def _add(self, first: Path) -> None:
        outside = []
        for tensor, array in zip(first.outside, self.program.outside):
            if tensor.fresh:
                own = copy.copy(tensor)
                own.tensor, own.array, own.meta = Tensor.wrap(array), array, None
                tensor = own
            outside.append(tensor)
        values = [
            SimpleNamespace(
                _requires_grad=value.grad,
                _meta=True if value.is_view else None,
                array=None,
                node=None if value.is_leaf else value,
            )
            for value in _values_of(first)
        ]
        recording: Any = SimpleNamespace(
            events=first.events,
            outside=outside,
            values=values,
            calls=range(first.forward),
            through=(),
            consumed=lambda: first.used,
            spoilable=lambda: first.spoilable,
            version_of=lambda number: 0,
            constant_numbers=first.constant_numbers,
            history_of=lambda tensor: None,
            result=first.result,
            parts=first.checkpointed,
        )
        self.walk.add(recording, self.program)
        self.path = path = self.walk.paths[-1]
        path.parts, path.receivers = first.parts, first.receivers
        self._branch = self._find_branch()
        for number, value in zip(path.numbers, _values_of(first)):
            self.walk.values[number].version = value.version
            self.walk.values[number].history = value.history
        self._varying = {path.numbers[place] for place in self.program.varying}
        self._fresh = [place for place, outside in enumerate(path.outside) if outside.fresh]
        self._everything = _Followers(
            [
                (step, place, common)
                for step, args in zip(path.steps, self._args)
                if args is not None and step.path is path
                for place, common in args
            ],
            [(path.outside[place], self._kinds[place]) for place in self._fresh],
            self.program.varying,
        )
        self._by_size: list[_Followers] | None = None  # None: not looked for yet

    def _find_branch(self) -> tuple[Any, Any] | None:
        """(the alternatives at a place of the walk, the one of them that this way begins with); None: all of the walk is this way."""
        before = self.walk.root
        for step in self.path.steps:
            if step.path is self.path:
                break
            before = step
        others = before.next.others
        return next(((others, choice) for choice in others if choice.path is self.path), None)

    def is_apart(self) -> bool:
        """Whether it has steps that the ways before have not."""
        return self._branch is not None

    def allow(self, is_open: bool) -> None:
        """Whether a walk may go this way."""
        if self._branch is not None:
            others, choice = self._branch
            if is_open is not any([other is choice for other in others]):
                if is_open:
                    others.append(choice)
                else:
                    others.remove(choice)

    def resize(self, numbers: tuple[int, ...]) -> bool:
        """Makes the way one of these sizes. False: they are none that it can have."""
        if numbers not in self.program.states and not self.program.sizes.fits(numbers):
            return False
        if numbers != self.program.at:
            node = self.path.needed()
            if node is not None and node.attrs is not FREED:
                return False
            self._let_gradients_go()
            if not self.program.resize(numbers):
                return False
            self._resize_steps()
        else:
            self.program.comes_again = True
        return True

    def _let_gradients_go(self) -> None:
        """Gradients whose sizes will be others."""
        for _, number, tensor in self.path.gradients:
            if number in self._varying:
                let_gradient_go(self.walk, number, tensor)

    def _resize_steps(self) -> None:
        """Steps, values and tensors from outside have the numbers of the program's sizes."""
        program = self.program
        spliced = program.spliced
        if spliced is None:
            state = program.state
            if state.steps is None:
                state.steps = self._steps_made(self._everything)
            self._put_steps(state.steps)
            return
        if self._by_size is None:
            self._by_size = self._parts_of_sizes()
        if not self._by_size:
            self._put_steps(self._steps_made(self._everything))
            return
        for piece in spliced:
            if piece.steps is None:
                piece.steps = self._steps_made(self._by_size[piece.size])
            self._put_steps(piece.steps)

    def _put_steps(self, parts: tuple[Any, ...]) -> None:
        program, path = self.program, self.path
        steps, kinds, values, gradients = parts
        for step, described, fields in steps:
            args = list(step.args)
            for place, value in described:
                args[place] = value
            step.args = tuple(args)
            for name, content in fields:
                setattr(step, name, content)
        for outside, kind in kinds:
            outside.kind = kind
        for place in self._fresh:
            outside, array = path.outside[place], program.outside[place]
            if outside.array is not array:
                outside.array = outside.tensor.array = array
        for number, array, value, fields in values:
            if path.arrays[number] is array:
                continue
            path.arrays[number] = array
            value.shape, value.strides, value.size, value.shown, value.contiguous = fields
        for place, gradient in gradients:
            path.gradients[place] = gradient

    def _parts_of_sizes(self) -> list[_Followers]:
        """What follows each of the sizes; nothing where something follows several."""
        splices, everything = self.program.splices, self._everything
        assert splices is not None
        args = [(splices.sizes_of(common), (step, place, common)) for step, place, common in everything.args]
        kinds = [(splices.sizes_of(kind), (outside, kind)) for outside, kind in everything.kinds]
        arrays, _, _, _ = self.program.common_lists()
        varying = [(splices.sizes_of(arrays[place]), place) for place in everything.varying]
        if any([len(sizes) > 1 for sizes, _ in (*args, *kinds, *varying)]):
            return []
        return [
            _Followers(
                [entry for sizes, entry in args if size in sizes],
                [entry for sizes, entry in kinds if size in sizes],
                [place for sizes, place in varying if size in sizes],
            )
            for size in range(len(self.program.sizes.places))
        ]

    def _steps_made(self, followers: _Followers) -> tuple[Any, ...]:
        """What these are at the program's sizes."""
        program, path, walk = self.program, self.path, self.walk
        value_at, numbers = program.common.at, program.numbers
        steps: list[Any] = []
        for step, args in itertools.groupby(followers.args, lambda entry: entry[0]):
            described, fields = [], []
            for _, place, common in args:
                value = value_at(common, numbers)
                described.append((place, value))
                if place < MOST and value[0] == "same":
                    fields.append((f"a{place}", value[1]))
            steps.append((step, described, fields))
        kinds = [(outside, value_at(kind, numbers)) for outside, kind in followers.kinds]
        values = []
        for place in followers.varying:
            array, number = program.arrays[place], path.numbers[place]
            shown = array.shape, array.strides, array.size, Size(array.shape), array.flags.c_contiguous
            values.append((number, array, walk.values[number], shown))
        arrays = {number: array for number, array, _, _ in values}
        gradients = [
            (place, (leaf, number, Tensor.wrap(arrays[number])))
            for place, (leaf, number, _) in enumerate(path.gradients)
            if number in arrays
        ]
        return steps, kinds, values, gradients


@dataclass
class _Followers:
    """Of a way: what differs from size to size."""

    args: list[tuple[Any, int, object]]  # (step, place of the argument, what is common to it)
    kinds: list[tuple[Any, object]]  # (tensor from outside, what is common to its kinds)
    varying: list[int]  # places of arrays


def _numbers_outside(described: Sequence[Any]) -> Iterator[int]:
    """The numbers of the tensors from outside among operands."""
    for kind, content in described:
        if kind == "outside":
            yield content
        elif kind == "list":
            yield from _numbers_outside(content[1])


def _values_of(path: Path) -> list[Any]:
    return [path.tree.values[number] for number in path.numbers]


def _of_gradients(path: Path) -> tuple[Any, ...]:
    """What the backward of a way is, beside its numbers."""
    return path.used, path.parts, path.receivers, path.forward


def _common_args(events: Sequence[Any], common: Common, time: int) -> list[tuple[int, object]] | None:
    """The arguments of one step that differ: (place, what is common to them); None: none do.

    Raises:
        Differs: they are not the same step.
    """
    first = events[0]
    for event in events:
        alike = (
            event.kind == first.kind
            and event.entry is first.entry
            and event.grad == first.grad
            and event.results == first.results
            and event.calls == first.calls
            and event.shape == first.shape
            and (event.subject is first.subject or (event.kind != "step" and event.subject == first.subject))
            and len(event.args) == len(first.args)
        )
        if not alike:
            raise Differs("another step")
    differing = []
    for place, described in enumerate(zip(*[event.args for event in events])):
        whole = _described(described, common, time)
        if whole is not described[0]:
            differing.append((place, whole))
    return differing or None


def _described(values: Sequence[Any], common: Common, time: int) -> object:
    """What is common to descriptions of one operand, or the first itself."""
    kind = values[0][0]
    if any([value[0] != kind for value in values]):
        raise Differs("operands of other kinds")
    if kind in ("value", "outside", "key"):
        if any([value[1] != values[0][1] for value in values]) and kind != "key":
            raise Differs("other operands")
        return values[0]
    return common.of(values, time)


def _common_outside(others: Sequence[Outside], common: Common) -> object:
    """What is common to the kinds of a tensor from outside that is another one in each step."""
    first = others[0]
    for other in others:
        if other.fresh is not first.fresh or other.first != first.first or other.grad is not first.grad:
            raise Differs("tensors from outside of other kinds")
        if not first.fresh and not other.is_as(first):
            raise Differs("other tensors from outside")
    return common.of([other.kind for other in others], 0) if first.fresh else None
