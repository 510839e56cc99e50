"""Walking: the user's program runs, its ops compare themselves with the record and hand out recorded tensors; the plan computes them.

The record is a tree: where the program went on differently, an alternative begins. A step of it (`Step`) that finds what it has noted costs a
few comparisons. What has been compared is computed when someone reads a value, before something from outside is written, and at the end.
Where the program leaves the record, the ops so far are run anew as they are written (`leave`), on the same tensors, and recorded again.
"""

from __future__ import annotations

import functools
import weakref
from sys import getrefcount
from threading import get_ident
from typing import Any

from dynograd.arrays import Array, ndarray
from dynograd.autograd.modes import MODES
from dynograd.autograd.nodes import FREED
from dynograd.autograd.writes import version
from dynograd.interpreter import TENSORS
from dynograd.kernels import kernel
from dynograd.ops.readers import Entry
from dynograd.plans.checkpointed.parts import Parts
from dynograd.plans.checks import WalkedChecks
from dynograd.plans.comparing import same
from dynograd.plans.functions.walked import WalkedFunctions
from dynograd.plans.gpu.array_kinds import bytes_alike, identity, is_on_cpu, may_share, own_copy, same_part
from dynograd.plans.gpu.endings import WalkedEndings
from dynograd.plans.handed import Handed, Read, become, detached, new_handed, same_memory
from dynograd.plans.inputs import settle
from dynograd.plans.leaving import Leaving
from dynograd.plans.masks import at_places, is_mask
from dynograd.plans.optimizers.closures import stepped_behind
from dynograd.plans.passes import HOOKED, has_hooks, is_plain
from dynograd.plans.plan_nodes import PlanNode
from dynograd.plans.programs import nobody
from dynograd.plans.python_forms import call_in_place, writes_in_place
from dynograd.plans.recording import call_with, depends_on_values, flat
from dynograd.plans.sharing import Shared
from dynograd.plans.steps import FIELDS, UNSEEN, Listed, Path, Step, freed, told
from dynograd.plans.trees import Tree
from dynograd.plans.walked_gradients import WalkedGradients
from dynograd.plans.walking.links import WalkedLinks
from dynograd.plans.walking.usual import UsualCases
from dynograd.plans.writes.created import WalkedCreations
from dynograd.plans.writes.flags import WalkedFlags
from dynograd.plans.writes.spoiling import WalkedSaves
from dynograd.plans.writes.stores import WalkedStores
from dynograd.plans.writes.versions import WalkedVersions
from dynograd.plans.writes.waiting import is_apart
from dynograd.tensor import inplace
from dynograd.tensor.tensor import Tensor

__all__ = ["Walk"]


class Walk(
    Tree,
    UsualCases,
    WalkedVersions,
    WalkedCreations,
    WalkedGradients,
    WalkedFunctions,
    WalkedStores,
    WalkedFlags,
    WalkedSaves,
    WalkedLinks,
    WalkedChecks,
    WalkedEndings,
    Parts,
    Leaving,
):
    """Of one compiled function: where in the record its program is."""

    def __init__(self, owner: Any, shared: Any = None) -> None:
        super().__init__()
        self.owner, self.exact = owner, owner.exact
        self.shared = Shared(Walk) if shared is None else shared
        self.reader, self.arena = self.shared.reader, self.shared.arena
        self.at: Any = None
        self.path: Any = None
        self.leased: list[Path] = []  # those that a backward pass from outside may still need the memory of
        self.replays: dict[tuple, Any] = {}  # what is replayed, by the sizes of the arguments
        self.clipped: list[Any] = []  # values of gradients, each once for a write in the plan's memory
        self._forget_step()

    def _forget_step(self) -> None:
        """What is noted in a step of the program."""
        self.bound: dict[int, Any] = {}  # tensors from outside that are others in each step, by number
        self.read_numbers: dict[int, Any] = {}  # values that were read in this step, with the copy
        self.written: list[tuple[int, Any, Any]] = []
        self.stale: set[int] = set()  # of those, the ones that were written since they were copied
        # Parts of the plan's memory that were copied whole, and how many calls were computed then.
        self.released: dict[int, Any] = {}
        self.joined: set[int] = set()  # values computed later whose numbers were put into such a copy
        self.with_gradient: list[int] = []  # leaves that the step has made and that got a gradient
        self.assigned: set[int] = set()  # gradients that this step has given to leaves
        self.lent: list[Any] = []  # arrays that NumPy was given
        self.copies: dict[int, Any] = {}  # values of this step whose memory the plan has used again
        self.awaited: list[tuple[int, Tensor]] = []
        self.pointed: list[tuple[Any, Any]] = []  # inputs that kernels read where they are: (pointer, array)
        self.forget_writes_into_gradients()
        self.forget_checks()
        self.begin_functions()
        self.begin_saves()
        self.begin_parts()

    # --- a step of the user's program -------------------------------------------------------------------------------------------

    def begin(self, apart: bool = False) -> bool:
        """The function is called. False: its tensors from outside are not as any way has them.

        Args:
            apart: along a way that shares no steps with others, if there is one; else one of these is the last choice.
        """
        self.shared.walk = self
        step = self.root.next
        path = self.way_apart() if apart else None
        if path is not None:
            step = path.steps[0]
        elif step.path.is_apart or not step.path.watch.holds():
            holding = [other for other in (step, *step.others) if other.path.watch.holds()]
            step = min(holding, key=lambda other: other.path.is_apart, default=None)
        self.at = step
        if step is None:
            return False
        self.begin_along(step.path)
        return True

    def begin_along(self, path: Path) -> None:
        """A call begins that goes along this way as far as is known."""
        self.shared.walk = self
        self.path, self.thread = path, get_ident()
        self.done, self.boundary = 0, -1  # calls computed; the last step that cannot be run anew
        self.holds = True  # tensors from outside are the recorded ones
        self._forget_step()

    def let_go(self) -> None:
        """Recorded tensors of the step before that someone holds become their own; the record gets others in their place."""
        if self.path is None:
            return
        if self.contexts:
            self.begin_functions()
        if self.read_numbers:
            self._show_mates()
        for number in self.with_gradient:
            if not self.references_to(number):
                self.handed[number]._grad = None
        watch, numbers = self.watch, []
        row = watch.first_other()
        while row < watch.count:  # two rows for each of `results`
            numbers.append(self.results[row >> 1])
            row = watch.first_other((row | 1) + 1)
        self.shared.let_go_of = sum([1 + (number in self.path.kin) for number in numbers])
        for number, record in self.records_of(numbers).items():
            self._let_one_go(number, self.handed[number], record)

    def free_gradient(self, number: int) -> None:
        """A recorded gradient of an earlier step that someone has becomes its own."""
        tensor = self.handed[number]
        if type(tensor) is not Handed or getrefcount(tensor) != self.counts[number] + 1:
            self._let_one_go(number, tensor)

    def references_to(self, number: int) -> int:
        """How often a recorded tensor is referred to by others than the record."""
        return getrefcount(self.handed[number]) - self.counts[number]

    def _let_one_go(self, number: int, tensor: Any, record: tuple | None = None) -> None:
        if type(tensor) is Handed:
            value = self.values[number]
            become(tensor, self.own(number), freed(self.path, value), value.grad, record)
        elif type(tensor) is Read:
            become(tensor, tensor.array, freed(self.path, self.values[number]), True, record)
        self.put_in_place(number, new_handed(self.values[number]))

    def put_in_place(self, number: int, new: Any) -> None:
        self.handed[number] = new
        watching = self.watching.get(number)
        if watching is None:
            watching = self.watching[number] = [watch for watch in self.watches if number in watch.numbers]
        for watch in watching:
            watch.put(number, new)
        for step, place in self.uses[number]:
            setattr(step, FIELDS[place], new)
        for step in self.makers[number]:
            if type(step.result) is Handed:
                step.result = new
            else:
                self._set_result(step)

    def other(self, entry: Entry, below: Any, args: tuple, tried: tuple = ()) -> Any:
        """An op whose code has not found what the record has here. `tried`: sizes that the walk has had at this op."""
        step = self.at
        if (
            step.fresh is not None
            and step.of is entry
            and step.grad == MODES.grad
            and self.compares_and_takes(step, args)
        ):
            return step.outcome()
        if writes_in_place(entry.op, args):
            return call_in_place(entry.op, args)
        if step.of is entry and step.grad == MODES.grad and (new := self._matches(step, args)) is not None:
            self._go_to(step, new)
            if not self.running:
                return call_with(entry.function, entry.op, args)
            return step.outcome()
        operands = flat(args)
        if not any([isinstance(value, Tensor) for value in operands]):
            return call_with(below, entry.op, args)
        for value in operands:
            if isinstance(value, Tensor) and type(value) not in TENSORS and not isinstance(value, Handed):
                return call_with(below, entry.op, args)
        if self.path.program.on_gpu and all([is_on_cpu(value) for value in operands if isinstance(value, Tensor)]):
            return call_with(below, entry.op, args)
        if depends_on_values(entry.op, args):
            self.read_masks(args)
            places = at_places(entry.op, args)
            if places is not None:
                return call_with(entry.function, entry.op, places)
            self.met_unknown(entry.op, args)
            return call_with(below, entry.op, args)
        for choice in step.others:
            if choice.of is entry and choice.grad == MODES.grad and (new := self._matches(choice, args)) is not None:
                if not self._go_over(choice):
                    continue
                self._go_to(choice, new)
                if not self.running:
                    return call_with(entry.function, entry.op, args)
                return choice.outcome()
        if self.owner.joins_lists(entry.op, args):
            return call_with(below, entry.op, args)
        if self.family is not None and (sizes := self.family.adapt(entry, args, tried)):
            return self.other(entry, below, args, (*tried, sizes))
        for choice in (step, *step.others):
            if choice.of is entry and choice.grad == MODES.grad:
                self.owner.changing.note(choice, args)
        self.leave(f"{entry.key} came where the record has {told(step)}")
        return call_with(entry.function, entry.op, args)

    def _go_over(self, choice: Step) -> bool:
        """The program takes another way from here on, on which what was computed so far is computed again."""
        settle(self.pointed)
        if (
            self.written
            or self.boundary >= 0
            or (self.waiting and not self.may_go_over(choice.path))
            or (self.done and self.path.stored and self.path.program.on_gpu)
        ):
            return False
        path = choice.path
        if not path.within.holds() or not path.lie_alike(self.bound):  # a tensor of that way is another one now
            return False
        released = self._released_on(path)
        if released is None:
            return False
        inputs = [
            (number, self.path.program.outside[number].copy()) for number in self.bound
        ]  # ways share their memory
        if inputs and self.shared.path is not path:  # gradients of an earlier step may lie where inputs come to lie
            self.shared.make_room(self, path)
        for number, values in inputs:
            path.program.outside[number][...] = values
        self.path, self.done, self.released = path, 0, released
        return True

    def _released_on(self, path: Path) -> dict[int, Any] | None:
        """Memory that someone has already, by the regions of another way; None where that has the values in it laid out otherwise."""
        released = {}
        for place, memory in self.released.items():
            region = self.path.program.memory.buffers[place]
            for number, kin in self.path.kin.items():
                if kin != ("region", place) or self.first[number] >= self.at.number:
                    continue
                other = path.kin.get(number)
                if other is None or other[0] != "region" or released.setdefault(other[1], memory) is not memory:
                    return None
                there = path.program.memory.buffers[other[1]]
                if there is None or there.nbytes != region.nbytes:
                    return None
                arrays = self.path.arrays[number], path.arrays[number]
                if identity(same_part(arrays[0], region, there)) != identity(arrays[1]):
                    return None
        return released

    def _matches(self, step: Step | Listed, args: tuple) -> list[tuple[int, Any]] | None:
        """Tensors from outside that are met for the first time in this step; None: the operands are others than the recorded ones."""
        handed, read, bound = self.handed, self.read_numbers, self.bound
        new: list[tuple[int, Any]] = []
        for (kind, content), value in zip(step.args, args):
            if kind == "same":
                if content is not value and not same(content, value):
                    return None
            elif kind == "value":
                if value is not handed[content] or (read and not self._is_as_read(content)):
                    return None
            elif kind == "outside":
                outside = step.path.outside[content]
                if outside.is_number and not isinstance(value, Tensor):
                    value = self.owner.changing.numbers.tensor(value, outside.array.dtype)
                    if value is None:
                        return None
                if outside.is_array and type(value) is ndarray:
                    value = Tensor.wrap(value)
                if not outside.fresh:
                    if value is not outside.tensor:
                        return None
                elif value is None or bound.get(content) is not value:
                    if content in bound or not outside.takes(value):
                        return None
                    new.append((content, value))
                elif content in self.stale or self._may_be_written_unseen(value):
                    new.append((content, value))
            elif kind == "key":
                step.key = value  # type: ignore[union-attr]
            elif type(value) is not content[0] or len(value) != len(content[1]):
                return None
            else:
                inner = self._matches(Listed(step.path, content[1]), value)
                if inner is None:
                    return None
                new += inner
        return new if not new or type(step) is Listed or self._are_apart(new, step.path) else None

    def _are_apart(self, new: list[tuple[int, Any]], path: Path) -> bool:
        """Whether there is one tensor for each place, and no place more for one that gets a gradient."""
        first: dict[int, Any] = {}
        for number, value in new:
            if first.setdefault(number, value) is not value:
                return False
            if value._requires_grad and (
                any([other is value and place != number for place, other in (*self.bound.items(), *new)])
                or any([leaf is value for leaf in path.leaves])
            ):
                return False
        if path.overlaps and not path.lie_alike(dict(new), self.bound):
            self.owner.changing.overlaps = True
            return False
        return True

    def _go_to(self, choice: Step, new: list[tuple[int, Any]]) -> None:
        if new:
            if self.shared.path is not choice.path:
                self.shared.make_room(self, choice.path)
            arrays = choice.path.program.outside
            for content, value in new:
                place = arrays[content]
                if content in self.bound:  # copied before in this step
                    settle(self.pointed)
                    if bytes_alike(place, value.array):
                        self.stale.discard(content)
                        continue
                    self.catch_up()
                    if not self.running:
                        return
                    if content not in self.stale:
                        self.written.append((self.at.number, value, own_copy(place)))
                self.bound[content] = value
                self.stale.discard(content)
                if choice.path.outside[content].address is None:
                    place[...] = value.array
        self.at = choice.next

    def _is_as_read(self, number: int) -> bool:
        """Whether a value that was read in this step is still what it was: whoever has read it may have written it."""
        if number not in self.read_numbers:
            return True
        copied = self.read_numbers[number]
        if self._is_nowhere(number):
            return False
        if copied is None:  # one that shares its memory was read
            self.catch_up()
            copied = self.own(number)
        return self.running and bytes_alike(copied, self.path.arrays[number])

    # --- values -----------------------------------------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Computes what has been compared so far."""
        number, path = self.at.number, self.path
        if not number:
            return
        stop = path.events[number - 1].calls
        if stop > self.done:
            if not self.holds:
                if not path.within.holds():
                    self.leave("a tensor from outside has become another one")
                    return
                self.holds = True
            start, self.done = self.done, stop
            if self.shared.path is not path:
                self.shared.make_room(self, path)
            program = path.program
            if program.on_gpu and not start:  # graphs use the memory of gradients before they write these
                self.shared.keep_gradients(self)
            if path.keyed:
                for step in path.keyed:
                    if step.number < number:
                        program.set_key(step.event, step.key)
            try:
                self._run(program, start, stop)
                if self.awaited:
                    self.show_stored()
            except (
                ArithmeticError,
                LookupError,
                RuntimeError,
                TypeError,
                ValueError,
            ):  # the op that fails says so when it is run anew
                self.done = start
                self.leave("an op fails")
                return
        if self.waiting:
            self.make_checks()

    def _run(self, program: Any, start: int, stop: int) -> None:
        """Computes calls; what someone has and the plan does not keep is copied in time."""
        path = self.path
        kept, gone = path.watches or self.watches_of(path)
        is_held = nobody if not program.on_gpu and (not gone.count or gone.holds()) else self._is_held_there
        row = kept.first_other() if kept.count else 0
        while row < kept.count:
            end, number = path.ends[row]
            if start <= end < stop and number not in self.copies:
                program.run(start, end, is_held)
                self.copies[number] = self.own(number)
                start = end
            row = kept.first_other(row + 1)
        program.run(start, stop, is_held)

    def _is_held(self, number: int) -> bool:
        """Whether somebody else has the recorded tensor."""
        expected = self.counts[number]
        if number in self.read_numbers:  # steps do not have it then: see `_note_read`
            expected -= sum([getattr(step, FIELDS[place]) is UNSEEN for step, place in self.uses[number]])
        return getrefcount(self.handed[number]) != expected

    def _is_held_there(self, number: int) -> bool:
        """The same, by the number that the path's own record has."""
        return self._is_held(self.path.numbers[number])

    def where(self, number: int) -> Array:
        """The array of a value that has been computed in this step."""
        copied = self.copies.get(number)
        if copied is not None:
            return copied
        assert not self._is_nowhere(number), "a value that nobody had is asked for"
        return self.path.arrays[number]

    def _is_nowhere(self, number: int) -> bool:
        """Whether a graph has let it go, since nobody had it, or it is not computed."""
        return self.path.program.on_gpu and number in self.path.gone

    def own(self, number: int) -> Any:
        """The numbers of a value that has been computed in this step, in memory that the plan does not use.

        It is shared where the program as it is written shares it: with a tensor from outside, or among values.
        """
        kin = self.path.kin.get(number)
        if kin is None:
            return own_copy(self.where(number))
        if number in self.copies:
            return self.copies[number]
        kind, place = kin
        array = self.path.arrays[number]
        if kind == "staying":
            return array
        if kind == "outside":
            tensor = self.bound.get(place)
            return (
                own_copy(array) if tensor is None else same_part(array, self.path.program.outside[place], tensor.array)
            )
        region = self.path.program.memory.buffers[place]
        computed, copied = self.released.get(place, (-1, None))
        if copied is None:
            computed, copied = self.released[place] = self.done, region.copy()
        source = self.sources[number]
        if self.path.events[self.first[source]].calls > computed and source not in self.joined:
            self.joined.add(source)  # whoever has the copy may write into it from now on
            computed_into = self.path.arrays[source]
            same_part(computed_into, region, copied)[...] = computed_into
        return same_part(array, region, copied)

    def number_of(self, tensor: Any) -> Array:
        """The plan's own array of a recorded tensor, which nobody may keep."""
        value = tensor.value
        number = value.number
        if self.running and self.handed[number] is tensor and self.first[number] < self.at.number:
            self.catch_up()
            if type(tensor) is not Handed:
                return tensor.array
        return self.where(number)

    def read(self, tensor: Any) -> Array:
        """The array of a recorded tensor, for whoever asks: a copy that is its own from now on."""
        if type(tensor) is not Handed:
            return tensor.array
        value = tensor.value
        number = value.number
        self.number_of(tensor)
        if type(tensor) is not Handed:
            return tensor.array
        copied = self.own(number)
        if self.running and self.handed[number] is tensor and self.first[number] < self.at.number:
            self._note_read(number, copied)
            if value.grad:
                become(tensor, copied, None, True, kind=Read)
                return copied
        become(tensor, copied, freed(self.path, value), value.grad, None if self.running else self.view_record(number))
        return copied

    def _note_read(self, number: int, copied: Any) -> None:
        """Whoever has read a value may write into it, and so into all that shares its memory."""
        kin = self.path.kin.get(number)
        mates = [number]
        if kin is not None and kin[0] == "region":
            mates = [other for other, its in self.path.kin.items() if its == kin]
        elif kin is not None:
            self.lent.append(copied)
        for mate in mates:
            self.read_numbers[mate] = copied if mate == number else None
            for step, place in self.uses[mate]:
                setattr(step, f"a{place}", UNSEEN)

    running = is_reading = False  # whether it goes on, and its reader is on
    family: Any = None  # whose ways it has, at many sizes

    def before_write(self, tensor: Any) -> None:
        """A tensor is about to be written in place."""
        self.before_write_in_part(tensor)
        if isinstance(tensor, Handed):
            self.leave("a recorded tensor is written in place", tensor)
            return
        if self.running and self.is_spoiled_by(tensor):
            self.leave("what backward needs is written in place where the record does not have that")
            if MODES.plan is not None:
                MODES.plan.before_write(tensor)
            return
        stale = self.bound_in(tensor.array)
        if stale or not is_apart(tensor.array, self.path, self.done, self.at.number, self.arena.whole):
            self.catch_up()
        self.holds = False
        settle(self.pointed)
        if self.running:
            self.note_write_at(self.at.number)
            self.written.append((self.at.number, tensor, own_copy(tensor.array)))
            self.stale.update(stale)

    def takes_parts(self) -> bool:
        """Whether a checkpointed part can begin."""
        return self.running

    def next_event(self) -> int:
        return self.at.number

    def is_made_since(self, tensor: Any, event: int) -> bool:
        """Whether the step has made a tensor from this event on."""
        if isinstance(tensor, Handed):
            return self.first[tensor.value.number] >= event
        return any([self.handed[number] is tensor and self.first[number] >= event for number in self.read_numbers])

    def end_for(self, reason: str) -> None:
        if self.running:
            self.leave(reason)
            self.owner.recording.refuse(reason)

    def before_own_kernel(self, tensor: Any) -> None:
        self.leave("a kernel of the program's own", tensor)

    def before_lending(self, tensor: Any) -> None:
        if not isinstance(tensor, Handed):
            self.catch_up()
            settle(self.pointed)
        if type(tensor) is not Handed:
            self.lent.append(tensor.array)

    def settled(self, target: Any, args: tuple) -> tuple:
        """Operands of a write in place into `target`, of which recorded ones without history are plain tensors.

        They have the plan's own memory if the write only reads it, at once.
        """
        recorded = [isinstance(value, Handed) for value in args]
        if True not in recorded:
            return args
        at_once, grad = not self.path.program.on_gpu, MODES.grad
        for value in (target, *args):
            if isinstance(value, Tensor) and (
                (grad and value._requires_grad) or not (type(value) in TENSORS or isinstance(value, Handed))
            ):
                at_once = False
        return tuple([self._settled(value, at_once) if known else value for value, known in zip(args, recorded)])

    def _settled(self, tensor: Any, at_once: bool) -> Tensor:
        if MODES.grad and tensor._requires_grad:
            return tensor
        walk = tensor.value.walk
        return Tensor.wrap(walk.number_of(tensor) if at_once and walk.running else walk.read(tensor))

    def _may_be_written_unseen(self, tensor: Any) -> bool:
        """Whether NumPy may have written into it since it was copied."""
        array = tensor.array
        return (type(array) is ndarray and array.base is not None) or any(
            [may_share(array, lent) for lent in self.lent]
        )

    def version_of(self, value: Any) -> int:
        """How often the memory of a recorded value was written in place."""
        kind, place = self.path.kin.get(value.number) or ("", 0)
        if kind == "staying":
            return version(self.path.arrays[value.number])
        return version(self._outside_now(self.path, place).array) if kind == "outside" else int(value.version)

    def met_unknown(self, op: Any, arguments: Any) -> None:
        """An op that the record does not have takes recorded tensors."""
        values = flat(arguments.values() if isinstance(arguments, dict) else arguments)
        recorded = [value for value in values if isinstance(value, Handed)]
        if not self.running:  # long after
            for tensor in recorded:
                if isinstance(tensor, Handed):
                    tensor.value.walk._outlive(tensor)
        elif MODES.grad and any([tensor.value.grad for tensor in recorded]):
            self.leave(f"{op.name}, which the record does not have")
        else:
            for tensor in recorded:
                if isinstance(tensor, Handed):  # reading one may have made others plain
                    tensor.value.walk.read(tensor)
                if isinstance(tensor, Handed):
                    become(tensor, tensor.array, freed(self.path, tensor.value), True)

    def read_masks(self, args: tuple) -> None:
        """Masks among the operands get their numbers."""
        for value in flat(args):
            if is_mask(value) and isinstance(value, Handed):
                value.value.walk.read(value)

    def detach(self, tensor: Any, silent: bool = False) -> Tensor:
        if not isinstance(tensor, Handed):
            return detached(tensor, silent)
        if self.running and self.is_gradient(tensor):
            return same_memory(tensor)
        step = self.at
        for choice in (step, *step.others):
            event = choice.event
            if (
                event is not None
                and event.kind == "detach"
                and event.subject is silent
                and tensor is self.handed[choice.args[0][1]]
                and self._is_as_read(choice.args[0][1])
            ):
                if choice is not step and not self._go_over(choice):
                    continue
                self.at = choice.next
                return choice.result
        if self.running:
            self.leave(f"detach() came where the record has {told(step)}")
        return tensor.data if silent else tensor.detach()

    # --- gradients and optimizers -----------------------------------------------------------------------------------------------

    def notes_of_backward(self, create_graph: bool, targets: Any) -> None:
        return None

    def backward(self, outputs: Any, seeds: Any, keeps: bool, through_ops: bool) -> bool:
        """A backward pass is to come. Gives whether that is done: the record has it here."""
        if not self.running or not any([isinstance(output, Handed) for output in outputs]):
            return False
        if self.to_leaves(outputs, seeds, keeps, through_ops):
            return True
        if self.running and not through_ops:
            is_done = self.through_functions(outputs, seeds, keeps)
            if is_done is None and self.running:
                is_done = self.backward_here(outputs, seeds, keeps)
            if is_done is not None:
                return is_done
        self.leave("a backward pass that the record does not have here")
        return MODES.plan is not None and MODES.plan.backward(outputs, seeds, keeps, through_ops)

    def backward_here(self, outputs: Any, seeds: Any, keeps: bool) -> bool | None:
        """Gives leaves their gradients, if the record has the backward pass here: whether that is done; None: it has not."""
        step = self.at
        for choice in (step, *step.others):
            event = choice.event
            if event is None or event.kind != "backward":
                continue
            new = self._matches(choice, (outputs, keeps, seeds))
            if new is not None and self._leaves_are_free(choice):
                if choice is not step and not self._go_over(choice):
                    continue
                self._go_to(choice, new)
                if not self.running:
                    return False
                if choice.watch is not None:
                    for leaf, number in choice.leaves:
                        leaf._grad = self.handed[number]
                    self.assigned.update(choice.results)
                    return True
                added = []
                for place, number, had in choice.subject:
                    leaf = self._outside_now(choice.path, place)
                    if had is HOOKED and not self.run_hooks(leaf, number, choice.number):
                        break
                    if had is True:
                        added.append((leaf, number))
                    elif not had and self.running:
                        leaf._grad = self.handed[number]
                        self.assigned.add(number)
                    elif not had:  # a hook has left the record
                        leaf._grad = Tensor.wrap(own_copy(self.path.arrays[number]))
                if added:
                    self._add(added, choice.number)
                return True
        return None

    def _outside_now(self, path: Path, place: int) -> Tensor:
        outside = path.outside[place]
        return self.bound.get(place, outside.tensor) if outside.fresh else outside.tensor

    def _leaves_are_free(self, step: Step) -> bool:
        """Whether the leaves of a backward pass have no gradient; recorded gradients of earlier steps that someone holds become their own."""
        if step.watch is not None and step.watch.holds():
            return True
        for place, number, had in step.subject:
            leaf = self._outside_now(step.path, place)
            grad = leaf._grad
            if had is HOOKED:
                if not leaf._requires_grad or not (is_plain(leaf) or has_hooks(leaf)):
                    return False
                continue
            if (grad is not None) is not had or not is_plain(leaf) or not leaf._requires_grad:
                return False
            if had and (not isinstance(grad, (Handed, Tensor)) or grad.shape != leaf.shape or grad._requires_grad):
                return False
            self.free_gradient(number)
        return True

    def _add(self, added: list[tuple[Any, int]], number: int) -> None:
        """Adds gradients to those that leaves have."""
        self.catch_up()
        if self.running:
            self.boundary = number
            for leaf, place in added:
                grad = leaf._grad
                if isinstance(grad, Handed):
                    grad.value.walk.read(grad)
                kernel("gradients", "add_into", grad.array)(grad.array, self.path.arrays[place])

    def step(self, optimizer: Any, run: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """An optimizer takes its step: on the gradients that the plan has computed."""
        with_closure = bool(args or kwargs)
        if with_closure and (box := stepped_behind(optimizer, args, kwargs)) is not None:
            return box[0]
        step = self.at
        for choice in (step, *step.others):
            event = choice.event
            if event is not None and event.kind == "step" and choice.subject is optimizer:
                if choice is not step and not self._go_over(choice):
                    continue
                on_gpu = self.path.program.on_gpu
                if on_gpu:
                    self.offer_ending(choice, optimizer, with_closure)
                self.catch_up()
                if not self.running:
                    break
                self.at = choice.next
                self.note_write_at(choice.number)
                self.boundary = choice.number
                self.holds = False
                self.stale.update(self.bound)
                if on_gpu and self.path.program.has_stepped:
                    return None
                taken = self.path.optimizers.get(choice.number)
                if taken is not None and not with_closure and taken.run():
                    return None
                result = self._with_gradients(functools.partial(run, *args, **kwargs))
                if taken is None:
                    taken = self.path.optimizers[choice.number] = self.optimizer_step(choice, optimizer)
                return result
        if MODES.plan is self:
            self.leave("the step of an optimizer that the record does not have here")
        return run(*args, **kwargs)

    def _with_gradients(self, run: Any) -> Any:
        """Leaves have the plan's own gradients while an optimizer reads them."""
        lent = []
        for leaf, number, tensor in self.path.gradients:
            if type(leaf._grad) is Handed and leaf._grad is self.handed[number]:
                leaf._grad = tensor
                lent.append((leaf, number, tensor))
        MODES.plan = None
        guard = self.owner.guard  # of writes, which nobody has to hear of here; each would be some microseconds slower
        try:
            inplace.guards.remove(guard)
            return run()
        finally:
            if guard not in inplace.guards:
                inplace.guards.append(guard)
            MODES.plan = self
            for leaf, number, tensor in lent:
                if leaf._grad is tensor:
                    leaf._grad = self.handed[number]

    # --- the end ----------------------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """The function has come to its end."""
        step = self.at
        for choice in (step, *step.others):
            if choice.event is None:
                if choice is not step and not self._go_over(choice):
                    continue
                self.at = choice
                self.catch_up()
                if self.running and self.path.made_leaves and self._keeps_made_leaves():
                    reason = "the program keeps a leaf that the step has made, and what depends on it"
                    self.leave(reason)
                    self.owner.recording.refuse(reason)
                    return
                if self.path.open and self.running:
                    self._open()
                if self.read_numbers:
                    self.link_read(self.read_numbers)
                if self.running and self.contexts:
                    self.begin_functions()
                return
        if self.running:
            self.leave("the program ended earlier than the record")

    def _keeps_made_leaves(self) -> bool:
        """Whether the program has a leaf of its own, and what is still to be differentiated."""
        handed, counts, path = self.handed, self.counts, self.path
        leaves, others = [
            any([getrefcount(handed[number]) != counts[number] for number in numbers])
            for numbers in (path.made_leaves, path.open)
        ]
        return leaves and others

    def _open(self) -> None:
        """What the program keeps with a gradient to come gets a place in the graph."""
        handed, counts, others = self.handed, self.counts, self.held_by_contexts()
        numbers = [number for number in self.path.open if getrefcount(handed[number]) != counts[number]]
        if others:
            numbers = [
                number
                for number in numbers
                if getrefcount(handed[number]) != counts[number] + others[id(handed[number])]
            ]
        if numbers:
            records = self.records_of(numbers)
            records = {number: record for number, record in records.items() if number in self.path.open}
            parent = PlanNode(self, [*records], True)
            self.path.lease = weakref.ref(parent)
            self.leased.append(self.path)
            for number, record in records.items():
                self._give_history(number, parent, record)
                self.put_in_place(number, new_handed(self.values[number]))

    def _give_history(self, number: int, parent: Any, record: tuple | None = None) -> None:
        tensor = self.handed[number]
        array = tensor.array if type(tensor) is Read else self.own(number)
        become(tensor, array, parent.stands_for(number, tensor, array), True, record)

    def is_leased(self) -> bool:
        """Whether the memory of a path is still needed for a backward pass."""
        if self.leased:
            nodes = [(path, path.lease()) for path in self.leased]
            self.leased = [path for path, node in nodes if node is not None and node.attrs is not FREED]
        return bool(self.leased)
