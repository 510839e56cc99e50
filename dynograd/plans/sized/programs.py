"""A program for several sizes, made of programs that were recorded at some of them: kernels get other numbers, and nothing is recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

from dynograd.arrays import ndarray
from dynograd.kernels.build.launches import noting
from dynograd.plans.calls import Call
from dynograd.plans.lowering import layouts, lower, moved, noted_form
from dynograd.plans.lowering.forms import Check
from dynograd.plans.memory import Arena, bounds, write
from dynograd.plans.programs import Bound, Program, gives
from dynograd.plans.python_forms import Forward
from dynograd.plans.sized.calls import CheckedCall, SizedCall
from dynograd.plans.sized.memory import Differs, Part, SizedMemory
from dynograd.plans.sized.sizes import Number, Sizes
from dynograd.plans.sized.splicing import Piece, Splices
from dynograd.plans.sized.tables import OtherKernels, SizedBound, Word, explained
from dynograd.plans.sized.values import Common
from dynograd.plans.sized.widening import trials_of

__all__ = ["SizedProgram", "laid_out"]

# Microseconds: of a call's Python; of a kernel at a new size; of a call that is made anew for it; of all else that a new size takes.
_SAVED, _SET, _LOST, _LOST_AT_LEAST = 8.0, 2.0, 90.0, 40.0
_FEWEST_STATES, _MOST_STATES, _BYTES_OF_STATES = 64, 1024, 1 << 23  # sizes that are kept


class SizedProgram(Program):
    """What programs recorded at several sizes have in common, at sizes that `resize` sets.

    Args:
        programs: recorded, and compared with their steps.
        sizes: of these.
        arena: where it computes.
    Raises:
        Differs: they are not one program at several sizes.
    """

    def __init__(self, programs: Sequence[Program], sizes: Sizes, arena: Arena) -> None:
        first = programs[0]
        self.sizes, self.memory = sizes, SizedMemory(programs, sizes)
        self.common = common = Common(self.memory)
        self.names, self.again, self.exact = first.names, first.again, first.exact
        self.calls, self.forms, self.drawing = list(first.calls), first.forms, first.drawing
        self._bounds_of(programs)
        self.apart = [
            SizedCall(
                [program.calls[number] for program in programs], number, common, self._has_kernels(programs, number)
            )
            for number in sorted(self.lone)
        ]
        self.checked = [
            CheckedCall(
                [program.calls[number] for program in programs],
                number,
                common,
                [program.forms[number].check for program in programs],
            )
            for number in sorted(self.checks)
        ]
        self.trials = trials_of(programs, common, self.lone) if sizes.corners() else None
        end = len(self.calls)
        self._arrays = [
            self.memory.part(values, end, regions)
            for values, regions in zip(
                zip(*[program.arrays for program in programs]), zip(*[program.regions for program in programs])
            )
        ]
        self._outside = [self.memory.part(values, 0) for values in zip(*[program.outside for program in programs])]
        self._seeds = [
            common.of([seed for seed, _ in seeds], end) for seeds in zip(*[program.seeds for program in programs])
        ]
        self._gradients = [common.of(gradients, end) for gradients in zip(*[program.gradients for program in programs])]
        if any([len(program.ends) != len(first.ends) or len(program.kin) != len(first.kin) for program in programs]):
            raise Differs("other values")
        self.ends = [max(ends) for ends in zip(*[program.ends for program in programs])]
        self.kin, self.replaced, self.differing = first.kin, list(first.replaced), []
        self.refused, self.pieces = first.refused, []
        self.memory.place(arena)
        self.tables = [self.plain] if self.mixed is self.plain else [self.plain, self.mixed]
        for bound in self.tables:
            bound.place()
        self.kernels: dict[int, Any] = {}  # (bound launches, which, check) by the ids of the calls at these sizes
        self.draws: dict[int, Any] = {}  # where calls of them draw, by number
        self.unbound: set[int] = set()  # calls whose kernels are those that run in their Python form
        self.comes_again = False  # the sizes were there before
        self.states: dict[tuple[int, ...], _State] = {}
        self.splices: Splices | None = None
        self.spliced: list[Piece] | None = None  # what the latest change of sizes has put in; None: all
        self.at: tuple[int, ...] = ()
        self.varying = [place for place, array in enumerate(self._arrays) if type(array) is Part and _varies(array)]
        self.arrays = [
            array if type(array) is not Part or _varies(array) else self.memory.array_of(array, [])
            for array in self._arrays
        ]

    @staticmethod
    def _has_kernels(programs: Sequence[Program], number: int) -> bool:
        """Whether kernels compute a call, and gave what the call gives at all sizes that were recorded."""
        is_refused = any([number in program.refused for program in programs])
        return programs[0].forms[number] is not None and not is_refused

    def _bounds_of(self, programs: Sequence[Program]) -> None:
        """The tables, and the calls that are not in them."""
        count = len(self.calls)
        lone = {
            number for number in range(count) if not all([_is_sizable(program.forms[number]) for program in programs])
        }
        groups = [[group for group in program.groups if _is_in_all(group, programs)] for program in programs]
        while True:
            plain = [
                Bound([None if number in lone else form for number, form in enumerate(program.forms)])
                for program in programs
            ]
            words, odd = self._words_of(plain)
            if not odd:
                break
            lone |= odd
        self.lone = lone
        self.checks = {
            number
            for number in range(count)
            if number not in lone and getattr(programs[0].forms[number], "check", None)
        }
        while True:
            members = [{member for group in of for member in group.members} for of in groups]
            if any([other != members[0] for other in members]):
                raise Differs("other groups")
            if not groups[0]:
                mixed = plain
                break
            mixed = [Bound(_mixed(program, of, lone)) for program, of in zip(programs, groups)]
            mixed_words, odd = self._words_of(mixed)
            left = [[group for group in of if group.first not in odd] for of in groups]
            if not odd:
                break
            if [len(of) for of in left] == [len(of) for of in groups]:
                raise Differs(f"other kernels in calls {sorted(odd)}")
            groups = left
        self.groups = groups[0]
        self.plain: Any = SizedBound(plain, self.memory, lone, self.checks, words)
        self.mixed: Any = self.plain
        if mixed is not plain:
            self.mixed = SizedBound(mixed, self.memory, lone - members[0], self.checks, mixed_words)

    def _words_of(self, bounds: Sequence[Bound]) -> tuple[list[Word], set[int]]:
        """What the words of the tables are, and the calls whose kernels are others at other sizes, or have numbers that no formula gives."""
        try:
            words = explained(bounds, self.memory)
        except OtherKernels as others:
            return [], others.calls
        return words, {word.call for word in words if word.kind == "unexplained"}

    def spans(self) -> tuple[tuple[int, int], ...]:
        """The least and most of each size that it can have."""
        return tuple([(least, most) for least, most, _ in self.sizes.ranges])

    def is_cheap(self) -> bool:
        """Whether a step at new sizes is likely to be faster than as it is written, though calls are looked at anew for it."""
        gained = _SAVED * (sum([form is not None for form in self.forms]) - len(self.apart))
        return gained > _LOST * len(self.apart) + _SET * self.plain.rows[-1] + _LOST_AT_LEAST

    def _set_key_of(self, number: int, key: Any) -> None:
        super()._set_key_of(number, key)
        for other in self.drawing.get(number, ()):
            place = self.draws.get(other)
            if place is not None:
                place[...] = key

    def resize(self, sizes: tuple[int, ...]) -> bool:
        """Sets the sizes. False: they are none that it can have."""
        before, self.at, self.spliced = self.at, (), None
        state = self.states.pop(sizes, None)
        if state is not None:
            self._restore(state)
        else:
            if before and self.splices is not None:
                self.spliced = self.splices.go(self.sizes.own(before), self.sizes.own(sizes), sizes)
            if self.spliced is None:
                numbers = self.sizes.numbers(sizes)
                if numbers is None:
                    return False
                self._resize(numbers, self.sizes.nearest(sizes))
                while len(self.states) >= self._most_states():
                    del self.states[next(iter(self.states))]
                state = self.state = _State(self)
                self._note_pieces(sizes)
        if state is not None:
            self.states[sizes] = state
        self.at = sizes
        return True

    def _note_pieces(self, sizes: tuple[int, ...]) -> None:
        """What it has of each of several sizes is known from now on."""
        if len(self.sizes.places) > 1:
            if self.splices is None:
                self.splices = Splices(self)
            self.splices.note(self.sizes.own(sizes))

    def lists(self) -> tuple[Any, ...]:
        """What differs from size to size beside the tables, as it is now."""
        return self.arrays, self.outside, self.seeds, self.gradients

    def common_lists(self) -> tuple[Any, ...]:
        """What is common to it at all sizes."""
        return self._arrays, self._outside, self._seeds, self._gradients

    def values_at(self, numbers: list[int]) -> list[Callable[[int], Any]]:
        """What gives what is at a place of each of `lists`, at sizes with these numbers."""
        at, (arrays, outside, seeds, gradients) = self.common.at, self.common_lists()
        return [
            lambda place: at(arrays[place], numbers),
            lambda place: at(outside[place], numbers),
            lambda place: (at(seeds[place], numbers), None),
            lambda place: at(gradients[place], numbers),
        ]

    def _most_states(self) -> int:
        """How many sizes are kept: a text is written anew at all lengths, again and again."""
        words = sum([0 if bound.table is None else bound.table.words.nbytes for bound in self.tables])
        return max(_FEWEST_STATES, min(_MOST_STATES, _BYTES_OF_STATES // max(words, 1)))

    def _restore(self, state: _State) -> None:
        self.state, self.numbers = state, state.numbers
        for bound, words in zip(self.tables, state.words):
            bound.restore(words)
        self.arrays, self.outside, self.seeds, self.gradients = (
            state.arrays,
            state.outside,
            state.seeds,
            state.gradients,
        )
        self.kernels, self.calls, self.unbound, self.comes_again = state.kernels, state.calls, state.unbound, True
        self.draws = state.draws
        self._set_checks(state.checks)
        self.memory.extras.resize(self.numbers)

    def _resize(self, numbers: list[int], nearest: int) -> None:
        self.at = ()
        words = numpy.array(numbers, numpy.int64)
        for bound in self.tables:
            bound.resize(words, nearest)
        self.numbers = numbers
        self.memory.extras.resize(numbers)
        value_at = self.common.at
        self.arrays = list(self.arrays)
        for place in self.varying:
            self.arrays[place] = value_at(self._arrays[place], numbers)
        self.outside = [value_at(array, numbers) for array in self._outside]
        self.seeds = [(value_at(seed, numbers), None) for seed in self._seeds]
        self.gradients = [value_at(gradient, numbers) for gradient in self._gradients]
        nodes: dict[int, Any] = {}
        self.kernels, self.draws, self.unbound, self.comes_again = {}, {}, set(), False
        self.calls = list(self.calls)
        forms: list[tuple[Call, Any]] = []
        for apart in self.apart:
            call = self.calls[apart.number] = apart.call_at(numbers, nodes)
            form = lower(call) if apart.is_lowered else None
            if self.exact and not getattr(form, "exact", True):
                form = None
            if form is not None:
                forms.append((call, form))
                self.draws[apart.number] = form.draw
            elif apart.is_lowered:
                self.unbound.add(id(call))
        self._set_checks({checked.number: checked.at(numbers) for checked in self.checked})
        bound = Bound([[*form] for _, form in forms])
        for place, (call, form) in enumerate(forms):
            self.kernels[id(call)] = bound, place, getattr(form, "check", None)

    def computed_apart(self, done: int) -> list[tuple[int, Call]]:
        """The calls in no table among the first `done`, with their numbers."""
        return [(apart.number, self.calls[apart.number]) for apart in self.apart if apart.number < done]

    def take_over(self, computed: list[tuple[int, Call]]) -> bool:
        """What calls computed at other sizes have saved is that of the same calls at these. False: their results lie elsewhere now."""
        for number, old in computed:
            call = self.calls[number]
            if [laid_out(output) for output in call.outputs] != [laid_out(output) for output in old.outputs]:
                return False
            if old.node is not None and old.node is not call.node:
                for name in old.node.saved_names:
                    setattr(call.node, name, getattr(old.node, name))
                call.node.attrs = old.node.attrs
        return True

    def _set_checks(self, checks: dict[int, Any]) -> None:
        for bound in self.tables:
            bound.checks = checks

    def _compute(self, call: Call) -> list[Any]:
        bound, place, check = self.kernels.get(id(call), (None, 0, None))
        if bound is None:
            if id(call) not in self.unbound or not self.comes_again:
                return super()._compute(call)
            self.unbound.discard(id(call))
            return self._bind_noted(call)
        if check is not None:
            check()
        bound.launch(place, place + 1)
        return []

    def _bind_noted(self, call: Call) -> list[Any]:
        """Computes a call in its Python form, and by the kernels that ran in it from then on, if these give the same."""
        puts: list[tuple[Any, Any]] = []
        if type(call.compute) is Forward:
            call.compute.put = puts
        with noting() as launches:
            results = super()._compute(call)
        if type(call.compute) is Forward:
            call.compute.put = None
        puts += zip(results, call.outputs)
        puts = [
            (new, kept)
            for new, kept in puts
            if type(new) is ndarray and type(kept) is ndarray and not numpy.may_share_memory(new, kept)
        ]
        call.launches = [moved(launch, _Moves(puts).at) for launch in launches]
        form = noted_form(call)
        if form is None:
            return results
        places = [output for output in call.outputs if output is not None] + [
            kept for _, kept in puts if kept.flags.writeable
        ]
        expected = [place.copy(order="K") for place in places]
        for place in places:
            write(place, numpy.full(place.shape, numpy.nan if place.dtype.kind in "fc" else 1, place.dtype))
        bound = Bound([form])
        if form.check is not None:
            form.check()
        bound.launch(0, 1)
        if gives(places, expected, form.exact):
            self.kernels[id(call)] = bound, 0, form.check
            self.draws[next(number for number, other in enumerate(self.calls) if other is call)] = form.draw
        else:
            self.replaced.append(f"{call.kind} {call.name}")
            for place, values in zip(places, expected):
                write(place, values)
        return results


def laid_out(array: Any) -> tuple[Any, ...] | None:
    return None if array is None else (array.__array_interface__["data"][0], array.shape, array.strides)


def _is_sizable(form: Any) -> bool:
    """Whether a call may stand in a table for several sizes: what it checks first, too, must be known for them."""
    check = getattr(form, "check", None)
    return form is not None and (check is None or isinstance(check, Check))


class _Moves:
    """From memory that a Python form has made to where its contents were put."""

    def __init__(self, puts: list[tuple[Any, Any]]) -> None:
        self.puts = puts

    def at(self, array: Any) -> object:
        if type(array) is not ndarray or not array.size:
            return array
        low, high = bounds(array)
        for new, kept in self.puts:
            start, stop = bounds(new)
            if start <= low and high <= stop and new.shape == kept.shape and new.strides == kept.strides:
                offset = array.__array_interface__["data"][0] - start
                whole = layouts.memory_at(bounds(kept)[0], stop - start)
                return ndarray(array.shape, array.dtype, whole, offset, array.strides)
        return array


class _State:
    """A program at some sizes that it had."""

    def __init__(self, program: Any) -> None:
        self.numbers, self.words = program.numbers, [bound.state() for bound in program.tables]
        self.arrays, self.outside = program.arrays, program.outside
        self.seeds, self.gradients = program.seeds, program.gradients
        self.kernels, self.calls, self.unbound = program.kernels, program.calls, program.unbound
        self.draws = program.draws
        self.checks = program.plain.checks
        self.steps: Any = None  # what a family has made of it
        self.kinds: Any = None


def _varies(part: Part) -> bool:
    return any([type(number) is Number for number in (part.offset, *part.shape, *part.strides)])


def _is_in_all(group: Any, programs: Sequence[Program]) -> bool:
    return all(
        [
            any([other.members == group.members and other.gone == group.gone for other in program.groups])
            for program in programs
        ]
    )


def _mixed(program: Program, groups: list[Any], lone: set[int]) -> list[Any]:
    forms: list[Any] = [None if number in lone else form for number, form in enumerate(program.forms)]
    for group in groups:
        for member in group.members:
            forms[member] = ()
        forms[group.first] = group.form
    return forms
