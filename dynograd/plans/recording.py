"""Recording: a step runs eagerly, and every op, backward rule, sum of gradients and step of an optimizer in it is noted.

What was compared later (`Event`, in the order of the program) is apart from what is computed (`Call`): a backward pass is one event and many
calls. Values are numbered in the order in which they came, tensors from outside likewise, so that two records of one program are alike.
"""

from __future__ import annotations

import copy
import functools
import re
import sys
import weakref
from collections.abc import Callable
from sys import getrefcount
from typing import Any

from dynograd.arrays import address_of, hear_of_checks, ndarray
from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.autograd.modes import MODES
from dynograd.autograd.nodes import FREED, Node, OutputNode, caller, line_text
from dynograd.autograd.packing import map_saved
from dynograd.autograd.writes import last_write
from dynograd.interpreter import TENSORS
from dynograd.interpreter.shared import signature_of
from dynograd.interpreter.tensor_parts import SILENT, Meta
from dynograd.interpreter.view_history import follow_base
from dynograd.kernels.build.launches import noting
from dynograd.ops.op import Op
from dynograd.ops.readers import Entry, Reader
from dynograd.plans.calls import Call
from dynograd.plans.checkpointed.parts import Parts
from dynograd.plans.functions.recorded import RecordedFunctions
from dynograd.plans.gpu.array_kinds import PLAIN, address_range, may_share, own_copy
from dynograd.plans.gradients import RecordedGradients
from dynograd.plans.graph_passes import stays
from dynograd.plans.handed import detached, same_memory
from dynograd.plans.lowering import described
from dynograd.plans.lowering.bound import relocate
from dynograd.plans.masks import at_places, is_mask
from dynograd.plans.memory import ReservedMemory, is_part_of_any, overlaps_of
from dynograd.plans.optimizers.closures import is_usual, stepped_behind
from dynograd.plans.passes import Event, is_constant, saved_of
from dynograd.plans.python_forms import Forward, call_in_place, call_with, flat, results_of, writes_in_place
from dynograd.plans.scoped import REASON, Scopes
from dynograd.plans.sized.changing_numbers import arrays_among, numbers_among
from dynograd.plans.writes.created import RecordedCreations
from dynograd.plans.writes.flags import RecordedFlags
from dynograd.plans.writes.spoiling import RecordedSaves, written_by
from dynograd.plans.writes.stores import RecordedStores
from dynograd.plans.writes.versions import RecordedVersions
from dynograd.tensor.tensor import Tensor

__all__ = ["NO_MASKS", "RECORDER", "Event", "Recording", "call_with", "depends_on_values", "flat"]

_OF_GRADIENTS = ("backward", "differentiate", "grad", "step")  # kinds of events


class Outside:
    """A tensor that the record did not make: a parameter, an input, a constant."""

    __slots__ = (
        "address",
        "array",
        "first",
        "fresh",
        "grad",
        "is_array",
        "is_number",
        "kind",
        "meta",
        "name",
        "number",
        "tensor",
    )

    def __init__(self, number: int, tensor: Any, fresh: bool, first: int, name: str) -> None:
        self.number, self.tensor, self.array, self.fresh, self.first = number, tensor, tensor.array, fresh, first
        self.grad, self.meta, self.name = tensor._requires_grad, tensor._meta, name
        self.kind = kind_of(tensor)
        self.is_number = self.is_array = False  # that the program computes in Python, or with NumPy
        self.address: int | None = None  # where another tensor must lie to stand in its place

    def apart(self, place: Any) -> Outside:
        """Of a tensor that is another one in each step, with `place` instead of its memory: that of the recorded step is the caller's alone."""
        if not self.fresh:
            return self
        result = copy.copy(self)
        result.tensor, result.array, result.meta = Tensor.wrap(place), place, None
        return result

    def is_as(self, other: Outside) -> bool:
        """Whether another record has the same tensor, in the same state."""
        return (
            self.tensor is other.tensor
            and self.array is other.array
            and self.grad is other.grad
            and self.meta is other.meta
        )

    def is_current(self) -> bool:
        """Whether the tensor is in this state now."""
        tensor = self.tensor
        return tensor.array is self.array and tensor._requires_grad is self.grad and tensor._meta is self.meta

    def takes(self, value: Any) -> bool:
        """Whether another tensor can stand in its place."""
        if type(value) not in TENSORS:
            return False
        if value._meta is not None:
            follow_base(value)
        if self.address is not None and address_of(value.array) != self.address:
            return False
        return value.node is None and kind_of(value) == self.kind

    def is_part_of(self, staying: list[Any]) -> None:
        """It is another one in each step; where it shares memory with what stays, it is read there, and so never written."""
        if any([may_share(self.array, array) for array in staying]):
            self.address = address_of(self.array)


def kind_of(tensor: Any) -> tuple[Any, ...]:
    array = tensor.array
    return type(array), array.dtype, array.shape, array.strides, tensor._requires_grad


NO_MASKS = ("input", "values")  # parameters of ops that index, whose truths are elements


def depends_on_values(op: Op, args: tuple) -> bool:
    """Whether the shape of the result depends on values of the operands."""
    reason = op.row["at_once"] or op.row["partly_at_once"] or ""
    if "depends on values" not in reason:
        return False
    own = tuple([value for name, value in zip(op.parameter_names, args) if name not in NO_MASKS])
    return bool(op.row["at_once"]) or any([is_mask(value) for value in flat(own)])


WITH_HISTORY = "a tensor from outside has a history"
GONE_VIEW = Meta()  # of a value that was a view: of what does not matter any more


class Recording(
    RecordedVersions,
    RecordedCreations,
    RecordedGradients,
    RecordedStores,
    RecordedFunctions,
    RecordedFlags,
    RecordedSaves,
    Parts,
):
    """One step while it runs. `reason` says why no plan can be made of it, if so.

    `any_shape` names ops that are recorded even where the shape of the result depends on values: for graphs that are read, not run.
    """

    any_shape: frozenset[str] = frozenset()
    exact = True
    """Whether results are to have the bits of the program as it is written: ragged ops that take another way for rows of one length do so then."""

    def __init__(
        self,
        known: dict[int, Any],
        arguments: dict[int, str],
        scopes: Any = None,
        closures: Any = None,
        on_gpu: bool = False,
        changing: Any = None,
        joined: Any = None,
        called_with: tuple = ((), {}),
    ) -> None:
        """`on_gpu`: ops of the CPU run as they are written, and only those of a GPU are recorded."""
        self.owner_scopes, self.owner_closures, self.on_gpu = scopes, closures, on_gpu
        self.arguments = arguments  # names of the tensors that the function was called with, by id
        self.known = known  # tensors from outside that an earlier step has met, weakly, by id
        self.changing = changing  # knows of which of those others come in other steps
        self.joined_lists, self.called_with = joined, called_with  # a join of lists among these runs as it is written
        self.joined: dict[int, Any] = {}  # tensors that were, by id
        self.bound: tuple[Any, ...] = ()  # of those, what the record has others in the place of, in other steps
        self.noting = noting()  # open throughout, so that those of single calls cost little
        self.events: list[Event] = []
        self.calls: list[Call] = []
        self.memory = ReservedMemory()
        self.looked_through = 0  # so many values were there when outlines were last put in the place of what nobody has
        self.large: list[int] = []  # of these, those with memory that is not gone
        self.versions: dict[int, int] = {}  # of those that are gone: see `writes_into`
        self.values: list[Any] = []  # tensors, by number
        self.numbers: dict[int, int] = {}  # of values, by the id of the tensor
        self.outside: list[Outside] = []
        self.places: dict[int, int] = {}  # of tensors from outside, by id
        self.shadows: dict[int, Any] = {}  # of nodes, by id: what they had saved
        self.nodes: list[Any] = []  # keeps them, so that ids stay theirs
        self.used: dict[int, int] = {}  # the events that have used nodes up, by the nodes' ids
        self.visited: list[
            Any
        ] = []  # nodes that backward passes have gone through: keeps them, so that ids stay theirs
        self.lines: dict[int, str] = {}  # of nodes, by id
        self.constants: list[Any] = []  # NumPy arrays among the arguments of ops
        self.through: set[str] = set()  # names of dynograd's functions that ops were called from
        self.reason = self.line = ""
        self.with_history: Any = None  # the tensor from outside for which the step was refused, if it was for that
        self.left_out: list[
            tuple[str, str]
        ] = []  # (op, or "" for a write in place, line) of what ran beside the record
        self.result: Any = None  # what the function gave, described as operands are
        self.own_gradients: dict[int, tuple[int, Any]] = {}  # (number of the value, array), by the array's address
        self.from_outside = False  # the backward pass is not the step's own
        self.inside = 0  # calls of ops that are running
        # (calls noted before, number of a tensor from outside, its values from there on): what the check at capture puts back
        self.snapshots: list[tuple[int, int, Any]] = []
        self.current: set[int] = set()  # those whose latest values are there
        self.lent, self.renewed, self.apart, self.targets = [], [], {}, []
        self.checked: set[int] = set()  # values of which the program checks the numbers
        self.writes: list[tuple[int, Any]] = []  # (calls noted before, array from outside; None: any)
        self.summed: dict[int, Any] = {}  # gradients of this step to which another pass has added, by id
        self.sizes: tuple = ()  # of the arguments
        self.of_arrays: dict[int, Any] = {}  # tensors that stand for NumPy arrays among the operands, by id
        self.met: dict[Any, int] = {}  # how often numbers came at a place
        self.again: Event | None = None  # of a record, whose op is run anew now
        self.numbers_stay = False  # those of the ops that are run anew are as that record has them
        self.constant_numbers: set[Any] = set()  # places of those that the record has as they were
        self.begin_parts()
        self.begin_gradients()
        self.begin_functions()
        self.begin_saves()

    is_reading = False  # whether the reader is on for it

    def begin(self) -> None:
        """The step begins, in this thread."""
        self.hears = functools.partial(_hear_of_check)
        try:
            RECORDER.turn_on(self)
            hear_of_checks.append(self.hears)
            self.noting.__enter__()
            MODES.plan = self
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """The step is over. May begin anew wherever it was interrupted."""
        MODES.plan = None
        self.take_apart()
        for node in self.nodes:
            if node.attrs is not FREED:
                keep_own_layouts(node)
        self.functions.clear()
        RECORDER.turn_off(self)
        if self.hears in hear_of_checks:
            hear_of_checks.remove(self.hears)
        self.noting.__exit__()

    def scopes(self) -> Scopes | None:
        """A scope of autobatch begins."""
        self.refuse(REASON)
        return self.owner_scopes

    def refuse(self, reason: str) -> None:
        if not self.reason:
            self.reason, self.line = reason, line_text(caller(2))
            self.take_apart()

    # --- ops --------------------------------------------------------------------------------------------------------------------

    def op(self, entry: Entry, below: Callable[..., Any], args: tuple) -> Any:
        """A call of an op, with all its parameters in order."""
        operands = flat(args)
        tensors = [value for value in operands if isinstance(value, Tensor)]
        if writes_in_place(entry.op, args):
            return call_in_place(entry.op, args)
        if self.without_values and all([type(tensor) in TENSORS for tensor in tensors]):
            return self.tell(entry, below, args)
        if self.inside or self.reason or not tensors or not all([type(tensor) in TENSORS for tensor in tensors]):
            return call_with(below, entry.op, args)
        if not self._is_here(entry, tensors):
            return call_with(below, entry.op, args)
        if depends_on_values(entry.op, args) and entry.op.name not in self.any_shape:
            places = at_places(entry.op, args)
            if places is None:
                if MODES.grad and any([tensor.requires_grad for tensor in tensors]):
                    self.refuse(f"{entry.key} of values that only a run knows, with a gradient")
                self.left_out.append((entry.key, line_text(caller(2))))
                return call_with(below, entry.op, args)
            args = places
        if self._joins_lists(entry, args):
            return call_with(below, entry.op, args)
        if MODES.grad > 1:
            self.refuse("nodes are watched (anomaly mode, hooks of saved tensors)")
            return call_with(below, entry.op, args)
        args = tuple([frozen(value, self.constants) for value in self._with_numbers(entry, args)])
        described = tuple(
            [
                self._described(value) if name != entry.op.row["by_row"] else ("key", self.source_of(value))
                for name, value in zip(entry.op.parameter_names, args)
            ]
        )
        self.inside = 1
        try:
            with noting() as launches:
                result = call_with(below, entry.op, args)
        finally:
            self.inside = 0
        results, shape = results_of(result)
        if results is None:
            self.refuse(f"{entry.key} gives {type(result).__name__}")
            return result
        if not all([type(tensor.array) is type(tensors[0].array) for tensor in results]):
            if any([tensor.requires_grad for tensor in results]):
                self.refuse(f"{entry.key} gives tensors with a history on another device")
            return result
        if self.reason:
            return result
        event = Event("op", entry, described, MODES.grad, self._line_of(caller(2)))
        event.by_rule = self._is_by_rule()
        self.through.update(names_down_to(sys._getframe(2)))
        event.shape = shape
        for tensor in results:
            if id(tensor) in self.numbers or id(tensor) in self.places:
                self.refuse(f"{entry.key} gives a tensor that was there before")
                return result
            event.results.append(self._new_value(tensor))
        self._note_op(event, entry, below, args, results, launches)
        self._over(event)
        if self.listening is not None:
            self.told(entry, args, results, described)
        return result

    def _joins_lists(self, entry: Entry, args: tuple) -> bool:
        """Whether an op joins tensors that lists among the arguments hold."""
        if self.joined_lists is None or self.on_gpu or self.any_shape or self.differentiating:
            return False
        if not self.joined_lists.is_join(entry.op, args, self.called_with):
            return False
        if any([id(tensor) in self.numbers for tensor in args[0]]):
            return False
        self.joined.update((id(tensor), tensor) for tensor in args[0])
        return True

    def _with_numbers(self, entry: Entry, args: tuple) -> tuple:
        """The operands, with tensors in the place of numbers that are others in each step."""
        if self._is_by_rule() or self.numbers_stay or self.on_gpu or self.changing is None:
            return args
        numbers, line = self.changing.numbers, self._line_of(caller(3))
        for place, inner in arrays_among(entry, args):
            array = args[place] if inner is None else args[place][inner]
            key = self._place_in_step((line, entry.key, place, inner))
            if not numbers.note_array(key, array, self.sizes):
                self.constant_numbers.add(key)
                continue
            tensor: Any = Tensor.wrap(array)
            self.of_arrays[id(tensor)] = tensor
            if inner is not None:
                tensor = [*args[place][:inner], tensor, *args[place][inner + 1 :]]
            args = (*args[:place], tensor, *args[place + 1 :])
        for place, dtype in numbers_among(entry, args):
            key = self._place_in_step((line, entry.key, place))
            if numbers.note(key, args[place], self.sizes):
                tensor = numbers.tensor(args[place], dtype)
                if tensor is not None:
                    args = (*args[:place], tensor, *args[place + 1 :])
                    continue
            self.constant_numbers.add(key)
        return args

    def _is_by_rule(self) -> bool:
        """Whether a backward rule calls the op, not the program."""
        return self.differentiating if self.again is None else self.again.by_rule

    def _line_of(self, caller: tuple[Any, int] | None) -> tuple[Any, int] | None:
        """Where the program has called the op, which `caller` calls."""
        return caller if self.again is None else self.again.line

    def _place_in_step(self, at: tuple[Any, ...]) -> tuple[Any, ...]:
        """A place in the program, with how often the step has come there."""
        self.met[at] = self.met.get(at, -1) + 1
        return (*at, self.met[at])

    def _is_here(self, entry: Entry, tensors: list[Any]) -> bool:
        """Whether the tensors lie where the record's do; if not, the op runs as it is written, or the step is refused."""
        kinds = {type(tensor.array) for tensor in tensors}
        if not self.events and kinds == {CudaArray}:
            self.on_gpu = True
        if kinds == {CudaArray if self.on_gpu else ndarray}:
            return True
        self.on_gpu = self.on_gpu or CudaArray in kinds
        if kinds != {ndarray}:
            self.refuse(f"{entry.key} of tensors on several devices")
        elif MODES.grad and any([tensor.requires_grad for tensor in tensors]):
            self.refuse(f"{entry.key} of tensors with gradients on the CPU, beside those on a GPU")
        return False

    def _over(self, event: Event) -> None:
        event.calls = len(self.calls)
        self.events.append(event)

    def _new_value(self, tensor: Any) -> int:
        number = self.numbers[id(tensor)] = len(self.values)
        self.values.append(tensor)
        self.by_array.setdefault(id(tensor.array), []).append(number)
        return number

    def _described(self, value: Any) -> tuple[str, Any]:
        if isinstance(value, Tensor):
            number = self.numbers.get(id(value))
            if number is not None:
                if id(value) in self.summed:
                    self.refuse("a gradient is read that another backward pass has added to")
                return "value", number
            described = self.saved(value) if self.differentiating and id(value) not in self.places else None
            return ("outside", self._place_of(value)) if described is None else described
        if type(value) in (list, tuple) and any([isinstance(element, Tensor) for element in flat(value)]):
            if self.changing.has_any(value) and not self.differentiating:
                for element in value:
                    if isinstance(element, Tensor) and id(element) not in self.numbers:
                        self._place_of(element, changes=not element.requires_grad)
            return "list", (type(value), tuple([self._described(element) for element in value]))
        return "same", value

    def _place_of(self, tensor: Any, changes: bool = False) -> int:
        place = self.places.get(id(tensor))
        if place is None:
            place = self.places[id(tensor)] = len(self.outside)
            known = self.known.get(id(tensor))
            fresh = known is None or known() is not tensor or id(tensor) in self.arguments or not _is_its_own(tensor)
            fresh = fresh or any([other is tensor for other in self.bound]) or changes or self.changing.has(tensor)
            fresh = fresh and not stays(tensor)
            if tensor.node is not None:
                self.refuse(WITH_HISTORY)
                if self.reason == WITH_HISTORY and self.with_history is None:
                    self.with_history = tensor
            name = self.arguments.get(id(tensor), "")
            outside = Outside(place, tensor, fresh, len(self.events), name)
            outside.is_number = self.changing is not None and self.changing.numbers.has(tensor)
            outside.is_array = id(tensor) in self.of_arrays
            self.outside.append(outside)
        if place not in self.current:
            self.current.add(place)
            self.snapshots.append((len(self.calls), place, own_copy(tensor.array)))
        return place

    def _note_op(self, event: Event, entry: Entry, below: Any, args: tuple, results: list[Any], launches: Any) -> None:
        op = entry.op
        node = results[0].node if results else None
        if type(node) is OutputNode:
            node = node.edges[0]
        for tensor in results:
            if node is None and tensor.node is not None:
                node = tensor.node.edges[0] if type(tensor.node) is OutputNode else tensor.node
        if node is not None and id(node) not in self.shadows:
            if node.hooks is not None:
                self.refuse("a hook on a node")
            self.shadows[id(node)] = copy_of(node)
            self.nodes.append(node)
            self.lines[id(node)] = line_text(event.line)
        outputs = [tensor.array for tensor in results]
        inputs, statics = described(op, dict(zip(op.parameter_names, [_as_arrays(value) for value in args])))
        shadow = self.shadows.get(id(node))
        known = [array for array in (*inputs, *outputs) if type(array) in PLAIN]
        extras = [] if shadow is None else saved_of(shadow)
        self.note(
            Call(
                "op",
                op.name,
                op,
                inputs,
                tuple(outputs),
                statics,
                Forward(entry, args, MODES.grad, shadow),
                list(launches),
                shadow,
                line_text(event.line),
                saved=tuple([array for array in extras if not is_constant(array) and not is_part_of_any(array, known)]),
            )
        )
        self.note_saves(node, extras)

    # --- memory -----------------------------------------------------------------------------------------------------------------

    def note(self, call: Call) -> None:
        """A call is over. The record knows its large arrays by their outlines from now on."""
        memory = self.memory
        if not call.results:
            call.note_results()
        for array in (*call.made(), *call.saved):
            memory.reserve(array)
        if memory.owners:
            relocate(call, memory.outline)
            if call.node is not None and call.kind == "op":
                for name in call.node.saved_names:
                    setattr(call.node, name, map_saved(getattr(call.node, name), memory.outline))
        self.calls.append(call)
        self.noting.forget()
        if memory.is_due():
            self.let_go()

    def let_go(self) -> None:
        """What nobody has any more goes, as it does where nothing is recorded: the record has outlines in its place."""
        waiting = [*self.large, *range(self.looked_through, len(self.values))]
        self.looked_through = len(self.values)
        # Views first: they hold what they are views of.
        self.large = [number for number in reversed(waiting) if self._is_large(number) and not self._lets_go_of(number)]
        self.large.reverse()
        self.memory.let_go()

    def _is_large(self, number: int) -> bool:
        array = self.values[number].array
        return self.memory.outline(array) is not array

    def _lets_go_of(self, number: int) -> bool:
        """Whether nobody has a value, nor a node its array."""
        values = self.values
        if getrefcount(values[number]) > 2 or getrefcount(values[number].array) > 2:
            return False
        tensor = values[number]
        meta, array = tensor._meta, tensor.array
        if type(tensor) is not Tensor or weakref.getweakrefcount(tensor) or tensor._grad is not None:
            return False
        if meta is not None and meta is not SILENT and type(meta) is not tuple:
            return False
        gone = Tensor.wrap(self.memory.outline(array))
        gone.node, gone._requires_grad = tensor.node, tensor._requires_grad
        gone._meta = meta if meta is None or meta is SILENT else GONE_VIEW
        self.versions[number] = self.version_of(number)
        if self.numbers.get(id(tensor)) == number:
            del self.numbers[id(tensor)]
        others = self.by_array.get(id(array), [])
        if number in others:
            others.remove(number)
        values[number] = gone
        return True

    def version_of(self, number: int) -> int:
        """How often the step has written in place into what the memory of a value stands for."""
        count = self.versions.get(number)
        return self.writes_into(self.values[number].array) if count is None else count

    # --- backward ---------------------------------------------------------------------------------------------------------------

    def kept(self) -> list[int]:
        """The values that somebody has now."""
        values, others = self.values, self.held_by_contexts()  # `enumerate` would hold each of them, too
        return [number for number in range(len(values)) if getrefcount(values[number]) > 2 + others[id(values[number])]]

    def differentiates(self) -> bool:
        """Whether the step has gradients, or makes what may get some, or an optimizer takes its step in it."""
        kinds = {event.kind for event in self.events}
        return any([value._requires_grad for value in self.values]) or not kinds.isdisjoint(_OF_GRADIENTS)

    def consumed(self) -> dict[int, int]:
        """The values that lead to what a backward pass has used up, with the number of that event."""
        first: dict[int, int | None] = {}

        def look(root: Any) -> None:
            waiting = [root]
            while waiting:
                node = waiting[-1]
                if id(node) in first:
                    waiting.pop()
                    continue
                edges = [edge for edge in node.edges if edge is not None and edge.seq]
                unknown = [edge for edge in edges if id(edge) not in first]
                if unknown:
                    waiting += unknown
                    continue
                events = [
                    event
                    for event in (self.used.get(id(node)), *[first[id(edge)] for edge in edges])
                    if event is not None
                ]
                first[id(node)] = min(events, default=None)

        kept = {}
        for number, tensor in enumerate(self.values):
            if tensor.node is not None:
                look(tensor.node)
                event = first[id(tensor.node)]
                if event is not None:
                    kept[number] = event
        return kept

    def replace(self, tensor: Any, other: Any) -> None:
        """`other` stands for `tensor`, which the step has made, from now on."""
        number = self.numbers.pop(id(tensor), None)
        if number is not None:
            self.numbers[id(other)] = number
            self.values[number] = other

    def note_checked(self, array: Any) -> None:
        """The program checks the values of an array."""
        if not self.inside and not self.reason:
            self.checked.update(self.by_array.get(id(array), ()))

    def has_overlaps(self) -> bool:
        """Whether tensors that are others in each step share memory that the plan would have in one place; on a GPU, where one lies within another."""
        arrays = {outside.number: outside.array for outside in self.outside if outside.fresh}
        overlaps = overlaps_of(arrays)
        if not self.on_gpu:
            return bool(overlaps)
        ranges = {number: address_range(arrays[number]) for number in overlaps}
        return any(
            [
                ranges[number][0] <= ranges[other][0] and ranges[other][1] <= ranges[number][1]
                for number, others in overlaps.items()
                for other in others
            ]
        )

    def history_of(self, tensor: Any) -> str | None:
        """The name of the node that made a value."""
        return None if tensor.node is None else tensor.node.name()

    def node_of(self, root: Any) -> int | None:
        for number, tensor in enumerate(self.values):
            if tensor.node is root:
                return number
        return None

    def before_lending(self, tensor: Any) -> None:
        """NumPy gets a tensor's memory: what it writes there is found when the plan is compared with the step."""
        self.lent.append(tensor.array)

    def before_own_kernel(self, tensor: Any) -> None:
        """A kernel that is no op's gets a tensor: what it reads and writes there is not seen."""
        self.refuse("a kernel of the program's own")

    def settled(self, target: Any, args: tuple) -> tuple:
        """Operands of a write in place."""
        return args

    def before_write(self, tensor: Any) -> None:
        """A tensor is about to be written in place."""
        self.before_write_in_part(tensor)
        if self.inside or self.reason:
            return
        # Views of a tensor from outside that nobody has any more are no matter: what was computed of them is computed before the write.
        mates = [place for place, value in enumerate(self.values) if may_share(value.array, tensor.array)]
        if id(tensor) in self.numbers or self.held(mates):
            self.refuse("a write in place into a tensor that the step has made")
            return
        self.writes.append((len(self.calls), tensor.array))
        self.writes_outside.append((len(self.events), tensor.array))
        self.left_out.append(("", line_text(caller(2))))
        for place in list(self.current):
            if may_share(self.outside[place].tensor.array, tensor.array):
                self.current.discard(place)

    # --- checkpointed parts -----------------------------------------------------------------------------------------------------

    def takes_parts(self) -> bool:
        return not (self.inside or self.reason or self.differentiating)

    def clip(self, parameters: list[Any], limit: float) -> None:
        """Gradients are to be clipped, which is done as it is written."""

    def gradients_to_write(self, parameters: list[Any]) -> None:
        """None: see `clip`."""

    def note_written(self, arrays: list[Any]) -> None:
        """What was clipped is the program's own."""

    def next_event(self) -> int:
        return len(self.events)

    def is_made_since(self, tensor: Any, event: int) -> bool:
        """Whether the step has made a tensor from this event on."""
        number = self.numbers.get(id(tensor))
        return number is not None and any([number in other.results for other in self.events[event:]])

    def end_for(self, reason: str) -> None:
        self.refuse(reason)

    def detach(self, tensor: Any, silent: bool = False) -> Tensor:
        """`tensor.detach()`, or `tensor.data` if writes are not to be watched. It is no op: the same memory."""
        if self.inside or self.reason or type(tensor) not in TENSORS or id(tensor) not in self.numbers:
            return detached(tensor, silent)
        if self.is_gradient(self.numbers[id(tensor)]):
            return same_memory(tensor)
        result = detached(tensor, silent)
        event = Event("detach", None, (("value", self.numbers[id(tensor)]),), 0, caller(2))
        event.subject = silent
        event.results.append(self._new_value(result))
        self._over(event)
        return result

    # --- optimizers -------------------------------------------------------------------------------------------------------------

    def step(self, optimizer: Any, run: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
        if (args or kwargs) and not self.reason:
            box = stepped_behind(optimizer, args, kwargs)
            if box is not None:
                return box[0]
            if self.owner_closures is not None and not is_usual(optimizer):
                self.refuse(self.owner_closures.note())
        if self.in_backward:
            self.refuse("the backward of an autograd.Function takes the step of an optimizer")
        plan, MODES.plan, since = MODES.plan, None, last_write[0]
        try:
            result = run(*args, **kwargs)
        finally:
            MODES.plan = plan
        self.writes_of_optimizers += [(len(self.events), array) for array in written_by(optimizer, since)]
        self.current.clear()
        self.writes.append((len(self.calls), None))
        event = Event("step", None, (), 0, caller(2))
        event.subject = optimizer
        self._over(event)
        return result


def _is_its_own(tensor: Any) -> bool:
    """Whether the memory is the tensor's alone, so that NumPy cannot write into it behind its back."""
    return type(tensor.array) is not ndarray or tensor.array.base is None or tensor._requires_grad


def _hear_of_check(array: Any) -> None:
    """The plan has to keep an array whose values are checked: a walk checks them when all is computed."""
    if type(MODES.plan) is Recording:
        MODES.plan.note_checked(array)


def names_down_to(frame: Any) -> set[str]:
    """The names of dynograd's functions between the program and an op."""
    names = set()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("dynograd"):
        names.add(frame.f_code.co_name)
        frame = frame.f_back
    return names


def frozen(value: Any, constants: list[Any]) -> Any:
    """An argument whose NumPy arrays nobody can write: they are copied, and the copies are noted among `constants`."""
    if type(value) is ndarray:
        constants.append(value.copy(order="K"))
        return constants[-1]
    if type(value) in (list, tuple) and any([type(element) in (ndarray, list, tuple) for element in value]):
        return type(value)([frozen(element, constants) for element in value])
    return value


def copy_of(node: Node) -> Node:
    """The node, with what it saves: it drops that after its backward."""
    return copy.copy(node)


def keep_own_layouts(node: Node) -> None:
    """What a node of the program has noted of lengths lies in memory of its own from now on: kernels of the plan write theirs anew in each step."""

    def own(value: Any) -> object:
        if not hasattr(value, "_fields"):
            return value
        return type(value)(*[part.copy() if type(part) is ndarray else part for part in value])

    for name in node.saved_names:
        setattr(node, name, map_saved(getattr(node, name), own))


def _as_arrays(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.array
    return type(value)([_as_arrays(element) for element in value]) if type(value) in (list, tuple) else value


class _Recorder(Reader):
    """Sees all ops while a step is recorded; other threads pass through."""

    name = "plan"
    changes_calls = False
    sets_aside = ("",)

    def sees(self, entry: Entry) -> bool:
        return entry.op is not None and entry.op.kind != "composed" and bool(entry.op.array_names)

    def write(self, entry: Entry, below: Any, names: dict[str, Any]) -> tuple[str, list[str]]:
        parameters, _, call = signature_of(entry.op)
        names |= dict(below=below, this=entry, MODES=MODES, Recording=Recording)
        lines = [
            "_plan = $MODES.plan",
            "if type(_plan) is not $Recording:",
            f"    return $below({', '.join(call)})",
            f"return _plan.op($this, $below, ({''.join(f'{name}, ' for name in entry.op.parameter_names)}))",
        ]
        return re.sub(r"=default_\w+", "=None", parameters), lines


RECORDER = _Recorder()
