"""A function's steps at many sizes of its arguments: what is recorded at some of them is walked at those between, without a record of their own."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from dynograd.autograd.nodes import FREED
from dynograd.base.shapes import Size
from dynograd.plans.recording import Outside
from dynograd.plans.sharing import let_gradient_go
from dynograd.plans.sized.choosing import candidates
from dynograd.plans.sized.memory import Differs
from dynograd.plans.sized.programs import SizedProgram
from dynograd.plans.sized.sizes import FEWEST, NoFormula, Sizes, flat_sizes
from dynograd.plans.sized.values import Common
from dynograd.plans.steps import MOST, Path
from dynograd.plans.walks import Walk
from dynograd.tensor.tensor import Tensor

__all__ = ["Families", "Family"]

_MOST_FAILURES = 8
_MOST_FAMILIES = 8
_MOST_MET = 4096  # sizes


class Family:
    """One way through a function at all sizes between recorded ones. `walk` goes along it, at the sizes that `resize` has set.

    Args:
        paths: recorded at some sizes, in the order of these.
        sizes: of the arguments.
        form: how they are nested.
        walk: without a way so far.
    Raises:
        Differs: they are not one program at several sizes.
    """

    def __init__(self, paths: Sequence[Path], sizes: Sizes, form: tuple, walk: Walk) -> None:
        first = paths[0]
        self.form, self.walk = form, walk
        walk.is_sized = True
        self.program = program = SizedProgram([path.program for path in paths], sizes, walk.arena)
        self.missed = self.taken = 0
        self.names: Any = None  # of its calls
        common, end = program.common, len(program.calls)
        events = [path.events for path in paths]
        if any([len(other) != len(first.events) for other in events]):
            raise Differs("other steps")
        self._args = [_common_args(step, common, end) for step in zip(*events)]
        self._kinds = [_common_outside(others, common) for others in zip(*[path.outside for path in paths])]
        if any(
            [path.used != first.used or path.parts != first.parts or path.forward != first.forward for path in paths]
        ):
            raise Differs("other gradients")
        if not program.resize(sizes.samples[0]):
            raise Differs("numbers that two formulas give")
        self._add(first)
        self._resize_steps()

    def _add(self, first: Path) -> None:
        outside = []
        for tensor, array in zip(first.outside, self.program.outside):
            if tensor.fresh:
                own = copy.copy(tensor)
                own.tensor, own.array, own.meta = Tensor.wrap(array), array, None
                tensor = own
            outside.append(tensor)
        values = [
            SimpleNamespace(_requires_grad=value.grad, _meta=True if value.is_view else None, array=None)
            for value in _values_of(first)
        ]
        recording: Any = SimpleNamespace(
            events=first.events,
            outside=outside,
            values=values,
            calls=range(first.forward),
            through=(),
            consumed=lambda: first.used,
            writes_into=lambda array: 0,
            result=first.result,
        )
        self.walk.add(recording, self.program)
        self.path = path = self.walk.paths[0]
        path.parts = first.parts
        for number, value in zip(path.numbers, _values_of(first)):
            self.walk.values[number].version = value.version
        self._varying = {path.numbers[place] for place in self.program.varying}

    def resize(self, numbers: tuple[int, ...]) -> bool:
        """Makes the walk one of arguments of these sizes, which fit. False: they are none that it can have."""
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
        self.taken += 1
        return True

    def _let_gradients_go(self) -> None:
        """Gradients whose sizes will be others."""
        for _, number, tensor in self.path.gradients:
            if number in self._varying:
                let_gradient_go(self.walk, number, tensor)

    def _resize_steps(self) -> None:
        """Steps, values and tensors from outside have the numbers of the program's sizes."""
        program, path = self.program, self.path
        state = program.state
        if state.steps is None:
            state.steps = self._steps_made()
        steps, values, gradients = state.steps
        for step, args, fields in steps:
            step.args = args
            for name, content in fields:
                setattr(step, name, content)
        for outside, kind, array in zip(path.outside, state.kinds, program.outside):
            if outside.fresh:
                outside.kind, outside.array = kind, array
                outside.tensor.array = array
        for number, array, value, fields in values:
            path.arrays[number] = array
            value.shape, value.strides, value.size, value.shown, value.contiguous = fields
        for place, gradient in gradients:
            path.gradients[place] = gradient

    def _steps_made(self) -> tuple[Any, ...]:
        program, path, walk = self.program, self.path, self.walk
        value_at, numbers = program.common.at, program.numbers
        steps: list[Any] = []
        for step, args in zip(path.steps, self._args):
            if args is None:
                continue
            described: list[Any] = list(step.args)
            fields: list[tuple[str, Any]] = []
            for place, common in args:
                described[place] = value_at(common, numbers)
                if place < MOST and described[place][0] == "same":
                    fields.append((f"a{place}", described[place][1]))
            steps.append((step, tuple(described), fields))
        program.state.kinds = [value_at(kind, numbers) for kind in self._kinds]
        values = []
        for place in program.varying:
            array, number = program.arrays[place], path.numbers[place]
            shown = array.shape, array.strides, array.size, Size(array.shape), array.flags.c_contiguous
            values.append((number, array, walk.values[number], shown))
        arrays = {number: array for number, array, _, _ in values}
        gradients = [
            (place, (leaf, number, Tensor.wrap(arrays[number])))
            for place, (leaf, number, _) in enumerate(path.gradients)
            if number in self._varying
        ]
        return steps, values, gradients


def _values_of(path: Path) -> list[Any]:
    return [path.tree.values[number] for number in path.numbers]


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


class Families:
    """The families of one function: of its ways that computed the same calls in the same order.

    Args:
        make_walk: gives a walk without ways.
        note: is told why there is no family.
    """

    def __init__(self, make_walk: Callable[[], Walk], note: Callable[[str], None]) -> None:
        self.make_walk, self.note = make_walk, note
        self.all: list[Family] = []
        self.met: dict[tuple[int, ...], None] = {}  # sizes that came once
        self.tried: dict[Any, list[Any]] = {}  # programs that a family was looked for among, by their calls
        self.failures: dict[Any, int] = {}
        self.waiting: dict[Any, int] = {}  # so many recorded steps must be there before one is looked for again

    def find(self, sizes: tuple, recorded: Callable[[], dict[tuple, Path]]) -> tuple[Family | None, bool]:
        """The family that has these sizes now, or None; and whether this call is better left as it is written.

        Args:
            recorded: gives the ways that stand for others, by the sizes of their arguments.
        """
        numbers, form = flat_sizes(sizes)
        for family in self.all[::-1]:
            program = family.program
            if family.form == form and (numbers in program.states or program.sizes.fits(numbers)):
                if self._waits(family, numbers):
                    return None, True
                if family.resize(numbers):
                    if family is not self.all[-1]:
                        self.all.remove(family)
                        self.all.append(family)
                    return family, False
                self.note(
                    "the formulas of its numbers do not say what they are at these sizes, or its last backward is still to come"
                )
        alike: dict[Any, dict[tuple[int, ...], Path]] = {}
        for own, path in recorded().items():
            flat, own_form = flat_sizes(own)
            if own_form == form:
                alike.setdefault(path.program.names, {})[flat] = path
        for names, paths in alike.items():
            programs = [path.program for path in paths.values()]
            if (
                len(paths) < FEWEST
                or self.tried.get(names) == programs
                or len(paths) < self.waiting.get(names, 0)
                or self.failures.get(names, 0) >= _MOST_FAILURES
            ):
                continue
            new = self._new(names, paths, form, numbers)
            if new is not None:
                waits = self._waits(new, numbers)
                return (new if not waits and new.resize(numbers) else None), waits
        return None, False

    def _waits(self, family: Family, numbers: tuple[int, ...]) -> bool:
        """Whether a size waits until it comes again: what is made for it then pays only if it comes more often."""
        if family.program.is_cheap() or numbers in family.program.states or numbers in self.met:
            return False
        while len(self.met) >= _MOST_MET:
            del self.met[next(iter(self.met))]
        self.met[numbers] = None
        return True

    def _new(
        self, names: Any, paths: dict[tuple[int, ...], Path], form: tuple, numbers: tuple[int, ...]
    ) -> Family | None:
        """A family for these sizes, of the widest set of recorded steps that is one program."""
        reason = ""
        for chosen in candidates(paths, numbers):
            if len(chosen) < FEWEST:
                continue
            try:
                sizes = Sizes(chosen)
                if not sizes.fits(numbers):
                    continue
                self.tried[names] = [path.program for path in paths.values()]
                family = Family([paths[sample] for sample in chosen], sizes, form, self.make_walk())
            except (Differs, NoFormula) as error:
                reason = str(error)
                continue
            family.names = names
            self._put(family)
            return family
        if reason:
            count = self.waiting[names] = len(paths) + max(len(paths) // 4, 1)
            self.note(f"each size is recorded by itself until {count} are there: {reason}")
        return None

    def _put(self, family: Family) -> None:
        """In the place of those that have no other sizes, and of the one that was used longest ago."""
        fits = family.program.sizes.fits
        self.all = [
            other
            for other in self.all
            if other.names != family.names or not all([fits(sample) for sample in other.program.sizes.samples])
        ][1 - _MOST_FAMILIES :]
        self.all.append(family)

    def missed(self, walk: Any) -> None:
        """The program went another way than the family's."""
        for family in self.all:
            if family.walk is walk:
                family.missed += 1
                if family.missed >= _MOST_FAILURES and 4 * family.missed > family.taken:
                    self.failures[family.names] = _MOST_FAILURES
                    self.all = [other for other in self.all if other is not family]
                return
