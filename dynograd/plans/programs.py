"""A plan's program: the calls of a recorded step on memory of the plan, as compiled launches or in their Python form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy

from dynograd.arrays import Array, buffers, ndarray
from dynograd.autograd.modes import MODES
from dynograd.autograd.packing import map_saved
from dynograd.kernels.build import threads
from dynograd.kernels.build.launches import Launch
from dynograd.plans.calls import Call, Digest, holds
from dynograd.plans.finishes import finishes_of
from dynograd.plans.gpu.array_kinds import own_copy
from dynograd.plans.groups import Group, groups_of
from dynograd.plans.lowering import layouts, lower
from dynograd.plans.lowering.bound import arrays_of, computes_apart, relocate
from dynograd.plans.lowering.families.draws import drawing_of
from dynograd.plans.lowering.forms import Misfit
from dynograd.plans.memory import Arena, Memory, give_back_room, is_part_of_any, write
from dynograd.plans.passes import is_constant, saved_of
from dynograd.plans.recording import Recording
from dynograd.plans.walking import gains

__all__ = ["Bound", "Program", "gives", "nobody"]


_SMALL = 1 << 12  # bytes of a value whose memory is not used again in a step
_FEW, _MOST_ROUNDING = 64, 8.0  # numbers whose sum has the usual rounding; how much more larger sums may have


class Bound:
    """Launches of calls, in order, in one table. A form that is None has none: its call is computed in Python."""

    def __init__(self, forms: list[Any]) -> None:
        self.rows, launches = [0], []
        for form in forms:
            launches += form or ()
            self.rows.append(len(launches))
        checks = {place: getattr(form, "check", None) for place, form in enumerate(forms)}
        self.checks = {place: check for place, check in checks.items() if check is not None}
        self.next_stop = [0] * len(forms)  # the first call from here on in Python, or that looks at values first
        following = len(forms)
        for place in reversed(range(len(forms))):
            if forms[place] is None or place in self.checks:
                following = place
            self.next_stop[place] = following
        self.table: Any = None
        if launches:
            from dynograd.kernels.build.bound_calls_numba import Table

            self.table = Table(launches, threads.get_num_threads())

    def launch(self, start: int, stop: int) -> None:
        first, last = self.rows[start], self.rows[stop]
        if last > first:
            self.table.run(first, last)


class Program:
    """What computes a path of the record.

    `arrays[n]` is where value n comes to lie; `run(start, stop)` computes calls. `outside[k]` is where a tensor from outside is read:
    in its own memory if it is the same one in each step.
    """

    pointers: dict[int, Any] = {}
    """Of inputs that kernels may read where the caller has them, by number: see `inputs`."""
    gradient_pointers: dict[int, Any] = {}
    """Of gradients that kernels may write where the caller is to have them, by their places among `gradients`."""
    whole: Any = None
    """The table that computes all calls, where one does."""
    on_gpu = False
    exact = False  # kernels that round otherwise than the calls as they are written are left out

    def __init__(
        self,
        recording: Recording,
        arena: Arena,
        keeps: list[int],
        seeds: list[Any] | None = None,
        gradients: list[Any] | None = None,
        forward: int = 0,
    ) -> None:
        """`keeps` are values that the program has when the step is over; `seeds` come into a backward pass that is not the step's own,
        which begins behind `forward` calls, and `gradients` leave it.
        """
        self.keeps, self.forward = keeps, forward
        taken = [outside.array for outside in recording.outside if outside.fresh]
        taken += [recording.values[number].array for number in set(keeps).difference(_gradients(recording))]
        self.taken = sum([array.nbytes for array in taken])  # bytes that a step copies
        fresh = [outside.array for outside in recording.outside if outside.fresh]
        self.fresh = len(fresh)  # tensors that are others in each step
        fresh += seeds or []
        staying = [outside.array for outside in recording.outside if not outside.fresh]
        for call in recording.calls:  # a view of an operand needs no computing
            if call.in_place:
                continue
            call.outputs = tuple(
                [None if array is None or is_part_of_any(array, call.inputs) else array for array in call.outputs]
            )
        written = [array for call in recording.calls for array in call.outputs if array is not None]
        nodes = list(recording.shadows.values())
        foreign = [*fresh, *staying, *recording.constants]
        for node in nodes:
            for array in saved_of(node):
                if not is_constant(array) and not is_part_of_any(array, foreign):
                    written.append(array)
        aliases = [(recording.values[number].array, array) for number, array in recording.own_gradients.values()]
        touched = [array for call in recording.calls for launch in call.launches for array in arrays_of(launch)]
        self.memory: Any
        self.memory = memory = Memory(written, fresh, staying, aliases, touched)
        ended = [recording.values[number].array for number in self._kept_by(recording, keeps)] + [
            array for array in gradients or () if array is not None
        ]
        ended += [array for _, array in recording.own_gradients.values()]
        values = [tensor.array for tensor in recording.values]
        self.groups = groups_of(recording.calls, ended, values, memory)
        grouped = {member for group in self.groups for member in group.members}
        self.groups += finishes_of(recording.calls, ended, values, memory, grouped)
        self._say_when(recording, fresh, gradients or ())
        memory.place(arena)
        with layouts.scratches() as self.scratches:
            for group in self.groups:
                group.lower(memory.at)
        self.groups = [group for group in self.groups if group.form is not None]
        for node in nodes:
            for name in node.saved_names:
                setattr(node, name, map_saved(getattr(node, name), memory.at))
        self.calls: list[Call] = []
        for call in recording.calls:
            relocate(call, memory.at)
            self.calls.append(call)
        self.arrays = [memory.at(tensor.array) for tensor in recording.values]
        self.outside = [memory.at(outside.array) for outside in recording.outside]
        unknown = [
            tensor
            for tensor in recording.values
            if not memory.has(tensor.array)
            and not any([numpy.may_share_memory(tensor.array, array) for array in (*staying, *recording.constants)])
        ]
        self.again = _twins_of(self.calls)
        self.names = tuple([(call.kind, call.name, call.in_place) for call in self.calls])
        self.layout: Any = None  # see `sized.choosing`
        self.regions = [memory.region_of(tensor.array) for tensor in recording.values]
        self.kin = self._kin_of(recording)
        self.differing = [f"a tensor of shape {tensor.shape} in unknown memory" for tensor in (*unknown, *memory.gone)]
        self.seeds = [(memory.at(seed), seed.copy(order="K")) for seed in seeds or ()]
        self.gradients = [None if array is None else memory.at(array) for array in gradients or ()]
        memory.forget()
        self.replaced: list[str] = []  # calls whose launches gave something else
        self.refused: dict[int, str] = {}  # calls, by number, that have launches and are computed in Python, and why
        self.pieces: list[int] = []  # the calls at which the pieces that were computed last ended

    def _kin_of(self, recording: Recording) -> list[Any]:
        """Of each value what shares its memory: ("outside", number) of a tensor that is another one in each step, ("staying", None),
        ("region", number) of a part of the plan's memory where other values lie too; None: nothing.
        """
        memory = self.memory
        places = [memory.region_of(tensor.array) if tensor.array.size else -1 for tensor in recording.values]
        counts = Counter(places)
        inputs = {memory.region_of(outside.array): outside for outside in recording.outside if outside.fresh}
        kin: list[Any] = []
        for tensor, place in zip(recording.values, places):
            if place is None:
                kin.append(("staying", None))
            elif place in inputs and numpy.may_share_memory(tensor.array, inputs[place].array):
                kin.append(("outside", inputs[place].number))
            else:
                kin.append(("region", place) if place >= 0 and counts[place] > 1 else None)
        return kin

    def _say_when(self, recording: Recording, fresh: list[Any], gradients: Any) -> None:
        """When each part of the memory is used: from the call that writes it to the last one that reads it."""
        memory, calls, end = self.memory, recording.calls, len(recording.calls)
        written: dict[int, int] = {}
        for number, call in enumerate(calls):
            for array in (
                *call.inputs,
                *call.outputs,
                *[array for launch in call.launches for array in arrays_of(launch)],
            ):
                memory.touch(array, number, number)
            if call.node is not None:
                start = written.setdefault(id(call.node), number)
                for array in saved_of(call.node):
                    memory.touch(array, start, number)
        for group in self.groups:  # it reads all before it writes, or in any order
            for array in group.arrays():
                memory.touch(array, group.first, group.last)
        for array in fresh:
            memory.touch(array, 0, end)
        for event in recording.events:
            if event.kind == "backward":
                for _, number, _ in event.subject:
                    memory.touch(recording.values[number].array, 0, end)
            elif event.kind in ("detach", "place", "flag", "function", "enter"):  # which no call does
                for number in event.results:
                    memory.touch(recording.values[number].array, event.calls, event.calls)
        for array in gradients:
            memory.touch(array, 0, end)
        for number, tensor in enumerate(recording.values):
            if (
                number in self.keeps or number in recording.checked or tensor.array.nbytes <= _SMALL
            ):  # else it would be copied in time if somebody has it
                memory.touch(tensor.array, end, end)
        regions = [memory.region_of(tensor.array) for tensor in recording.values]
        if self.forward:  # a backward pass from outside does not look who has the values that it needs
            for tensor, region in zip(recording.values, regions):
                if region is not None and memory.last[region] + 1 >= self.forward:
                    memory.touch(tensor.array, end, end)
        # After so many calls a value's memory is used for something else.
        self.ends = [end if region is None else min(memory.last[region] + 1, end) for region in regions]

    @staticmethod
    def _kept_by(recording: Recording, keeps: list[int]) -> list[int]:
        return [*keeps, *recording.checked, *_gradients(recording)]

    def tell(self, path: Any) -> None:
        """The path that wants to know where values lie: they stay where they are."""

    @property
    def launches(self) -> int:
        """Kernels that run."""
        return self.mixed.rows[-1]

    def spans(self) -> tuple[tuple[int, int], ...]:
        """The least and most of each size that it can have; it has one."""
        return ()

    def set_key(self, event: Any, key: Any) -> None:
        """The place in the random stream where an op draws in this step."""
        for number in (event.calls - 1, *self.again.get(event.calls - 1, ())):
            self._set_key_of(number, key)

    def _set_key_of(self, number: int, key: Any) -> None:
        self.calls[number].compute.set_key(key)  # type: ignore[attr-defined]
        for other in self.drawing.get(number, ()):
            self.forms[other].draw[...] = key

    def _bind(self, forms: list[Any]) -> None:
        """Binds launches, by call; None: its Python form."""
        self.forms = forms
        self.drawing = drawing_of(self.calls, forms)
        self.plain = Bound(forms)
        self.mixed = self.plain
        if self.groups:
            mixed = list(forms)
            for group in self.groups:
                for member in group.members:
                    mixed[member] = ()
                mixed[group.first] = group.form
            self.mixed = Bound(mixed)
        self.whole = self.mixed.table if self.mixed.next_stop[:1] == [len(forms)] else None

    def run(self, start: int, stop: int, is_held: Callable[[int], bool] | None = None) -> None:
        """Computes the calls from `start` to `stop`. `is_held` says whether somebody may read a value (its number)."""
        if start:
            self.pieces.append(stop)
        else:
            self.pieces = [stop]
        whole = is_held is nobody and not start and stop == len(self.calls)
        if whole and self.whole is not None:
            self.whole.run()
            return
        bound = self.mixed
        for group in () if whole else self.groups:
            if group.first < stop and group.last >= start:
                cut = group.first < start or group.last >= stop
                if cut or is_held is None or any([is_held(number) for number in group.gone]):
                    bound = self.plain
                    break
        place = start
        while place < stop:
            end = min(bound.next_stop[place], stop)
            bound.launch(place, end)
            if end < stop:
                check = bound.checks.get(end)
                if check is not None:
                    check()
                    bound.launch(end, end + 1)
                else:
                    self._compute(self.calls[end])
                end += 1
            place = end

    def _compute(self, call: Call) -> list[Any]:
        """A call in its Python form. Gives what it has made, which stands in the plan's memory now."""
        plan, recorder, grad = MODES.plan, MODES.recorder, MODES.grad
        MODES.plan = MODES.recorder = None
        MODES.grad = 0
        try:
            with buffers.offering([_in_order(output) for output in call.outputs if output is not None]):
                results = call.compute()
            others = [
                (output, result) for output, result in zip(call.outputs, results) if not _is_there(output, result)
            ]
            if len(others) > 1:  # one may lie where another is to come
                others = [(output, numpy.copy(result, order="K")) for output, result in others]
            for output, result in others:
                write(output, result)
            return list(results)
        finally:
            MODES.plan, MODES.recorder, MODES.grad = plan, recorder, grad

    def gain(self) -> float:
        """How many microseconds a step is likely to be faster than as it is written; less than 0: slower."""
        return gains.gain(self)

    def check(self, recording: Recording, exact: bool = False) -> bool:
        """Runs all of it on the recorded step's inputs in memory full of NaN, and compares each output with what the step had made.

        A call whose launches give something else gets its Python form.
        """
        self.exact = exact
        with layouts.scratches() as taken:
            forms: list[list[Launch] | None] = [_form_of(call) for call in self.calls]
        for number in drawing_of(self.calls, forms):
            if self.calls[number].kind == "rule":  # nobody says where it draws
                forms[number] = None
        self.scratches += taken
        for group in self.groups:
            group.take(forms)
        if exact:
            self.refused = dict.fromkeys(
                [number for number, form in enumerate(forms) if not getattr(form, "exact", True)],
                "its kernels round otherwise than the call as it is written, and mode is exact",
            )
            forms = [None if number in self.refused else form for number, form in enumerate(forms)]
            self.groups = [group for group in self.groups if getattr(group.form, "exact", True)]
        self.groups = [group for group in self.groups if group.form is not None]
        self._bind(forms)
        give_back_room()  # lowering has tried kernels on copies
        for buffer in self.memory.buffers:
            buffer[...] = 0xFF
        for place, values in self.seeds:
            write(place, values)
        latest = {  # what inputs in the plan's memory held in that step, and all else now
            number: self.outside[number].copy(order="K")
            if numpy.may_share_memory(self.outside[number], recording.outside[number].array)
            or not recording.outside[number].fresh
            else values
            for _, number, values in recording.snapshots
        }
        snapshots = list(recording.snapshots)
        changed = False
        ends = {group.last + 1: group for group in self.groups}
        try:
            for number, call in enumerate(self.calls):
                while snapshots and snapshots[0][0] <= number:
                    _, outside, values = snapshots.pop(0)
                    write(self.outside[outside], values)
                if number in ends:
                    self._check_group(ends[number], exact)
                if forms[number] is not None:
                    if self._gives_as_recorded(number, exact):
                        continue
                    self.replaced.append(f"{call.kind} {call.name}")
                    self.refused[number] = "its kernels gave something else than the recorded step"
                    forms[number], changed = None, True
                self._compute(call)
                if not gives(call.outputs, call.results, True):
                    self.differing.append(f"{call.kind} {call.name} at {call.line}")
            if len(self.calls) in ends:  # on what the calls have read
                self._check_group(ends[len(self.calls)], exact)
        finally:
            for number, values in latest.items():
                write(self.outside[number], values)
        sound = [
            group
            for group in self.groups
            if group.form is not None and not any([forms[member] is None for member in group.members])
        ]
        if changed or len(sound) != len(self.groups):
            self.groups = sound
            self._bind(forms)
        for call in self.calls:
            call.results = ()
            # A form has what it runs; the others would keep what kernels of the recorded step have written for one another.
            call.launches = [Launch(launch.kernel, (), launch.count, launch.parts) for launch in call.launches]
        recording.snapshots = []
        self.pieces = []
        return not self.differing

    def _gives_as_recorded(self, number: int, exact: bool) -> bool:
        """Whether the kernels of a call give what it gave in the recorded step, which its outputs then hold, up to rounding."""
        call, form = self.calls[number], self.forms[number]
        if not self._runs(number):
            return False
        places = (*call.outputs, *call.saved)
        read = max([array.size for array in call.inputs if type(array) is ndarray], default=1)
        launched, recorded = places, call.results
        if not gives(places, recorded, True):
            if any([type(result) is Digest for result in recorded]):  # the numbers are what the Python form gives
                launched = tuple([None if array is None else own_copy(array) for array in places])
                self._compute(call)
                if not gives(places, recorded, True):
                    return False
                recorded = places
            if not gives(launched, recorded, exact, read) and (
                exact or not _rounds(call, form, launched, recorded, read)
            ):
                return False
        for place, result in zip(places, call.results):
            if place is not None and result is not None and type(result) is not Digest:
                write(place, result)  # each call is compared on the step's own numbers
        return True

    def _runs(self, number: int) -> bool:
        """Runs the kernels of a call. False: they do not take the numbers of the recorded step."""
        try:
            self.run(number, number + 1)
        except Misfit:
            return False
        return True

    def _check_group(self, group: Group, exact: bool) -> None:
        """Right behind its last call: whether the loop gives what the calls have given."""
        outputs = group.outputs()
        expected = [output.copy(order="K") for output in outputs]
        for output in outputs:
            nothing = numpy.array(numpy.nan if output.dtype.kind in "fc" else 1).astype(output.dtype)
            write(output, numpy.broadcast_to(nothing, output.shape))
        Bound([group.form]).launch(0, 1)
        if not gives(outputs, expected, exact):
            self.replaced.append(f"group {group.name}")
            group.form = None
        for output, array in zip(outputs, expected):
            write(output, array)


def _twins_of(calls: list[Call]) -> dict[int, list[int]]:
    """Of calls that stand more than once the numbers of the others, by that of the first."""
    numbers = {id(call): number for number, call in enumerate(calls)}
    twins: dict[int, list[int]] = {}
    for number, call in enumerate(calls):
        if call.first is not None:
            first = call.first
            while first.first is not None:
                first = first.first
            twins.setdefault(numbers[id(first)], []).append(number)
    return twins


def nobody(number: int) -> bool:
    """Nobody reads the values that groups do not write."""
    return False


def gives(arrays: Any, expected: Any, exactly: bool, read: int = 1) -> bool:
    """Whether they hold the numbers expected of them, which were computed of so many others; None: nothing is expected."""
    return all(
        [
            array is None
            or (other is not None and (_same(array, other) or (not exactly and _close(array, other, read))))
            for array, other in zip(arrays, expected)
        ]
    )


def _gradients(recording: Recording) -> list[int]:
    """The values that leaves get."""
    return [number for event in recording.events if event.kind == "backward" for number in event.results]


def _form_of(call: Call) -> list[Launch] | None:
    """The launches that compute a call; none where its outputs are views of its operands."""
    if all([output is None for output in call.outputs]) and (call.op is None or call.op.view or call.kind == "rule"):
        return []
    form = lower(call)
    return None if not form and call.in_place else form  # it scales by what came


def _is_there(output: Any, result: Any) -> bool:
    """Whether the result lies where it is to come, or nowhere."""
    return (
        output is None
        or result is output
        or (
            result.strides == output.strides
            and result.shape == output.shape
            and result.__array_interface__["data"] == output.__array_interface__["data"]
        )
    )


def _in_order(array: Any) -> Array:
    """The array with its dims in the order of its memory."""
    order = sorted(range(array.ndim), key=lambda dim: -array.strides[dim])
    return array.transpose(order)


def _close(array: Any, expected: Any, read: int) -> bool:
    """Whether they differ as sums do that are added in another order: by the root of how many numbers were added."""
    bound = 2e-6 if array.itemsize <= 4 * (1 + (array.dtype.kind == "c")) else 1e-13
    bound *= min(max(read / max(array.size, 1) / _FEW, 1.0) ** 0.5, _MOST_ROUNDING)
    if layouts.is_half(array.dtype):  # the last bit
        bound = 2.0**-10 if array.dtype.kind == "f" else 2.0**-7
    return _are_within(array, expected, bound)


def _rounds(call: Call, form: Any, arrays: Any, expected: Any, read: int) -> bool:
    """Whether what the kernels give differs by rounding alone, though by more than is usual: sums of numbers that nearly cancel.

    On other numbers, which do not, they must be right.
    """
    if getattr(form, "exact", True) or call.kind not in ("op", "rule"):
        return False
    largest = max([_largest(array) for array in _floats(call.inputs)] + [0.0])
    for array, other in zip(arrays, expected):
        if array is not None and (other is None or not _same(array, other)):
            if other is None or not _are_within(array, other, max(1e-4, 1e-6 * read / max(array.size, 1)), largest):
                return False
    try:
        return computes_apart(call, form, False)
    except (ArithmeticError, AttributeError, IndexError, TypeError, ValueError):  # the op refuses such numbers
        return False


def _are_within(array: Any, expected: Any, part: float, least: float = 0.0) -> bool:
    """Whether floating numbers differ by a part of the largest one, or of `least` if that is more; what is not finite is the same."""
    if not (layouts.is_half(array.dtype) or array.dtype.kind in "fc") or not array.size:
        return False
    most = part * max(_largest(expected), least)
    return all([_lies_within(part, other, most) for part, other in layouts.pieces(array, expected)])


def _lies_within(array: Any, expected: Any, most: float) -> bool:
    if layouts.is_half(array.dtype):
        array, expected = array.astype(numpy.float32), expected.astype(numpy.float32)
    finite = numpy.isfinite(expected)
    if not numpy.array_equal(array[~finite], expected[~finite], equal_nan=True):
        return False
    return bool((numpy.abs(numpy.where(finite, array - expected, 0)) <= most).all())


def _largest(array: Any) -> float:
    """Of all finite numbers."""
    return max([_largest_in(part) for (part,) in layouts.pieces(array)])


def _largest_in(array: Any) -> float:
    if layouts.is_half(array.dtype):
        array = array.astype(numpy.float32)
    return float(numpy.abs(array).max(initial=0, where=numpy.isfinite(array)))


def _floats(arrays: Any) -> list[Any]:
    return [array for array in arrays if type(array) is ndarray and array.dtype.kind in "fc"]


def _same(array: Any, expected: Any) -> bool:
    if type(expected) is Digest:
        return holds(array, expected)
    if _has_same_bits(array, expected):
        return True
    if array.dtype.kind in "fc":
        return bool(numpy.array_equal(array, expected, equal_nan=True))
    return array.tobytes() == expected.tobytes()


def _has_same_bits(array: Any, expected: Any) -> bool:
    """Whether they are known to be equal by one look at their words; where not, NaN and zeros have to be told from one another."""
    if not (array.flags.c_contiguous and expected.flags.c_contiguous) or array.itemsize not in (4, 8):
        return False
    if array.dtype != expected.dtype or array.shape != expected.shape:
        return False
    words = numpy.dtype(f"u{array.itemsize}")
    return bool(numpy.array_equal(array.view(words), expected.view(words)))
