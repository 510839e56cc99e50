"""What `dynograd.compile` makes of a function: it is recorded, and from then on walked along its record."""

from __future__ import annotations

import contextlib
import copy
import functools
import sys
import types
import weakref
from collections.abc import Iterator
from time import perf_counter
from typing import Any

from dynograd.autograd import engine
from dynograd.autograd.modes import MODES
from dynograd.autograd.nodes import caller, line_text
from dynograd.base import values
from dynograd.cuda import streams
from dynograd.cuda.thread_state import current as cuda_state
from dynograd.errors import OutOfMemoryError
from dynograd.ops import readers
from dynograd.plans.changing import Changing
from dynograd.plans.gpu.choosing import program_of
from dynograd.plans.inputs import let_go, pointers_of
from dynograd.plans.memory import give_back_room
from dynograd.plans.optimizers.closures import Closures
from dynograd.plans.recording import WITH_HISTORY, Recording
from dynograd.plans.replaying.functions import Replays
from dynograd.plans.reporting.graphs import Graph, described_result, graph_of, graphs_of
from dynograd.plans.reporting.naming import names_of_arguments
from dynograd.plans.reporting.reports import Report, report_of
from dynograd.plans.scoped import Scopes
from dynograd.plans.sharing import Shared
from dynograd.plans.sized.arguments import any_requires_grad, idle_places, sizes_of, tensors_in
from dynograd.plans.sized.families import Families
from dynograd.plans.sized.held import HeldSizes
from dynograd.plans.sized.joined import JoinedLists
from dynograd.plans.sized.marks import any_dynamic
from dynograd.plans.sized.sizes import FEWEST
from dynograd.plans.steps import Path
from dynograd.plans.walking.gains import Balance, cost_of_a_record, gain_without_gradients
from dynograd.plans.walking.pauses import NO_CREDIT, Credit, Pauses, Rhythm, way_of
from dynograd.plans.walks import Walk
from dynograd.plans.watches import Watch, can_watch
from dynograd.tensor import inplace
from dynograd.tensor.tensor import Tensor
from dynograd.transforms.duals import awaits_nodes

__all__ = ["STANCES", "Compiled", "all_compiled", "forget_all", "set_stance_to"]

_LOOKING = ("modes", "profiler", "checkpoint")  # readers under which a function runs as it is written
_SETTINGS = ("exact", "fullgraph", "name", "most_ways", "always", "dynamic", "replay")
_MOST_WAYS = 64  # through one function; then its record begins anew
_LEASED = "what it gave before is still to be differentiated"
_NOW = "now"
_TIMES_WAYS = 4  # through one function at all sizes together, as a multiple of those at one


_all: weakref.WeakSet[Compiled] = weakref.WeakSet()
STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile")
_stance = ["default"]


def _is_noted(tensor: Any) -> bool:
    """Whether this thread notes a step: what it computes of a tensor's numbers beside ops would be those of this call in all others."""
    return MODES.plan is not None and isinstance(tensor, Tensor)


values.noters.append(_is_noted)


def all_compiled() -> list[Compiled]:
    """The compiled functions of the process that there are now."""
    return list(_all)


def forget_all() -> None:
    """All compiled functions of the process begin anew."""
    for function in list(_all):
        function.reset()


def set_stance_to(stance: str) -> str:
    """Gives the one before."""
    before, _stance[0] = _stance[0], stance
    return before


class Compiled:
    """A function that is recorded when it is first called, and then compared with the record, op by op: see `dynograd.compile`.

    Args:
        function: what is called.
        exact: results have the bits of the program as it is written.
        fullgraph: what cannot be recorded is an error.
        name: for the report.
        most_ways: how many ways through the function are kept; 0: the usual number.
        always: also where a step is likely to be slower so.
        dynamic: whether sizes between recorded ones are walked without a record of their own; None: where that is likely to be faster.
        replay: whether the function's Python is not run again where it is known to be pure.
    """

    any_shape: frozenset[str] = frozenset()
    """See `Recording`."""

    def __init__(
        self,
        function: Any,
        *,
        exact: bool = False,
        fullgraph: bool = False,
        name: str = "",
        most_ways: int = 0,
        always: bool = False,
        dynamic: bool | None = None,
        replay: bool = False,
    ) -> None:
        self.function = function
        self.exact, self.fullgraph, self.most_ways = exact, fullgraph, most_ways or _MOST_WAYS
        self.always, self.dynamic, self.replay = always, dynamic, replay
        functools.update_wrapper(self, function, updated=())
        self.name = name or getattr(function, "__qualname__", type(function).__name__)
        _all.add(self)
        # The call that goes on; another thread's runs the function as it is written. No lock: that would not say whose it is, if an interrupt comes
        # right behind the call that takes it.
        self.turns: dict[str, object] = {}
        self.guard = inplace.guard()
        self.reset()

    def reset(self) -> None:
        """Forgets all records."""
        self.shared = Shared(Walk)
        self.scopes = Scopes(self.exact)
        self.closures = Closures()
        self.walks: dict[tuple, Walk] = {}  # by the sizes of the arguments; those used last stand last
        self.sizes: tuple = ()
        self.credit = Credit(self.dynamic is None and not (self.always or self.fullgraph))
        self.families = Families(lambda: Walk(self, self.shared), self.note_left, self.credit, self.exact)
        self.walk = self._own_walk(self.sizes)
        self.held = HeldSizes()
        self.joined = JoinedLists()
        self.begun_with: list[Any] = []  # tensors among the arguments of the call that is recorded, as it began
        # Where the arguments had a tensor with a history, which is not recorded: its place, its name, or (its place among all in lists and dicts,).
        self.with_history: set[Any] = set()
        self.known: dict[int, Any] = {}
        self.changing = Changing()
        self.calls = self.walked = 0
        self.replays = Replays(self) if self.replay else None
        self.reasons: dict[
            tuple[str, str], int
        ] = {}  # (why a call was left or not recorded, the user's line) -> how often
        self.recording: Recording | None = None
        self.arguments: tuple = ()
        self.pauses, self.rhythm = Pauses(), Rhythm()
        self.balance = Balance()
        self.stopped = self.learns_as_written = self.on_gpu = self.has_recorded = False
        # By the grad modes in which calls that differentiate nothing run as they are written: that parameters stay frozen.
        self.left_alone: dict[int, Watch] = {}
        self.stream: Any = None
        if not can_watch():
            self.stop("this interpreter keeps its objects otherwise than a usual CPython")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.pauses.left:
            self.pauses.left -= 1
            self.calls += 1
            return self.function(*args, **kwargs)
        if self.stopped:
            return self.function(*args, **kwargs)
        if self.left_alone:  # calls in some grad modes where nothing is differentiated
            grad = MODES.grad
            if grad in self.left_alone and (not grad or self._differentiates_nothing(args, kwargs)):
                self.calls += 1
                return self.function(*args, **kwargs)
        if self._is_aside():
            return self.function(*args, **kwargs)
        if self.with_history and not self.fullgraph and self._gets_history(args, kwargs):
            self.calls += 1
            self.note_again(WITH_HISTORY)
            return self.function(*args, **kwargs)
        turn = object()  # of this call
        try:
            if self.turns.setdefault(_NOW, turn) is not turn:
                return self.function(*args, **kwargs)
            self.calls += 1
            self.arguments = args, kwargs
            if self.closures.latest and not self.fullgraph and not self.scopes.latest:
                return self.closures.call(self, args, kwargs)
            inplace.guards.append(self.guard)
            if self.scopes.latest and not self.fullgraph:
                return self.scopes.call(self.function, args, kwargs)
            if self.shared.is_leased():
                if not self.note_again(_LEASED):
                    self.note_left(_LEASED)
                self.balance.charge_beside(MODES.grad)
                return self.function(*args, **kwargs)
            if self.on_gpu and not self._is_on_its_stream():
                self.note_left("it is called on another stream than before")
                return self.function(*args, **kwargs)
            self.shared.let_go()
            self.changing.numbers.begin_step()
            self.sizes = self.sizes_now(args, kwargs)
            walk = self.walks.get(self.sizes)
            if walk is not self.walk or self.families.all or not 0 < len(walk.paths) < FEWEST:
                walk = self._walk_of(self.sizes)
            if walk is None:
                self.note_left(
                    "its sizes came for the first time: what is recorded or made for them pays when they come again"
                    if self.credit.has_any()
                    else NO_CREDIT
                )
                self.credit.earn(False)
                return self.function(*args, **kwargs)
            self.walk = walk
            if self.replays is not None and (box := self.replays.call(walk, self.sizes, args, kwargs)) is not None:
                self.walked += 1
                self.pauses.learn(True, False, self.families)
                self.credit.earn(True)
                return box[0]
            if _stance[0] != "default" and self.walk.root.next is None:
                self._may_record()
                return self.function(*args, **kwargs)
            walked, is_first = self.walked, self.walk.root.next is None
            begins_anew, ways = not is_first and self._begins_anew(), len(self.walk.paths)
            try:
                return self._record(args, kwargs) if is_first or begins_anew else self._walk(args, kwargs)
            finally:
                if begins_anew:
                    self.rhythm.note_recorded(self.calls, len(self.walk.paths) != ways)
                if self.has_recorded:
                    self.has_recorded = False
                    give_back_room()
                self.pauses.learn(self.walked > walked, is_first, self.families)
                self.credit.earn(self.walked > walked)
        finally:
            try:  # nothing is called here, behind which an interrupt could come; another thread may end its turn meanwhile
                has_turn = self.turns[_NOW] is turn
            except KeyError:
                has_turn = False
            if has_turn:
                self.arguments = ()
                try:
                    if self.guard in inplace.guards:
                        inplace.guards.remove(self.guard)
                finally:  # an interrupt may come behind each call
                    del self.turns[_NOW]

    def _is_aside(self) -> bool:
        """Whether the call is left as it is written: in another compiled function, or under what looks at each op."""
        if (
            _stance[0] == "force_eager"
            or (self.learns_as_written and MODES.grad)
            or MODES.plan is not None
            or MODES.recorder is not None
            or MODES.grad > 1
            or MODES.anomaly
            or engine.observers
            or cuda_state.captured_device >= 0
        ):
            return True
        on = readers.turned_on()
        return bool(on) and any([reader.name in _LOOKING for reader in on])

    def _gets_history(self, args: tuple, kwargs: dict[str, Any]) -> bool:
        """Whether the arguments have a tensor with a history where one was not recorded: a network that judges what another one makes."""
        inner: list[Any] | None = None
        for place in self.with_history:
            if type(place) is int:
                value = args[place] if place < len(args) else None
            elif type(place) is str:
                value = kwargs.get(place)
            else:
                inner = tensors_in((args, kwargs)) if inner is None else inner
                value = inner[place[0]] if place[0] < len(inner) else None
            if type(value) is Tensor and value.node is not None:
                return True
        return False

    def _note_history(self, tensor: Any) -> None:
        """A call was not recorded, since this tensor has a history."""
        args, kwargs = self.arguments
        places: list[Any] = [place for place, value in (*enumerate(args), *kwargs.items()) if value is tensor]
        inner = [(place,) for place, value in enumerate(tensors_in(self.arguments)) if value is tensor]
        self.with_history.update(places or inner)

    def _is_on_its_stream(self) -> bool:
        """Whether the thread's current stream is the one on which graphs have been started so far."""
        device = streams.current_device()
        now = device, streams.current_handle(device)
        self.stream = self.stream or now
        return self.stream == now

    def _may_record(self) -> None:
        """Raises where the stance says that only what is recorded may run."""
        if _stance[0] == "fail_on_recompile":
            raise RuntimeError(
                f"compile: {self.name} is not recorded yet with arguments of these sizes, and the stance is fail_on_recompile."
            )

    def _walk_of(self, sizes: tuple) -> Walk | None:
        """The walk for arguments of these sizes: their own, or one of several sizes; else a new one. None: this call is left as it is written."""
        walk = self.walks.get(sizes)
        ways = 0 if walk is None else len(walk.paths)
        if self.dynamic is not False and not self.on_gpu and self.families.concerns(sizes, ways):
            family, waits = self.families.find(
                sizes, self._eligible, ways, not (self.dynamic or any_dynamic(self.arguments))
            )
            if family is not None or waits:
                return None if family is None else family.walk
            if walk is None and self.families.is_near(sizes, list(self.walks)):
                return None
        if walk is None:
            if self.dynamic is None and not self.on_gpu and self._awaits_backward() and not self.families.meet(sizes):
                return None
            if self.walks and self._waits_for_credit():
                return None
            return self._own_walk(sizes)
        if ways and walk is not self.walk:
            self.walks[sizes] = self.walks.pop(sizes)
        return walk

    def _waits_for_credit(self) -> bool:
        """Whether a call at sizes that are not recorded is left as it is written."""
        return not self.credit.has_any() and not any_dynamic(self.arguments)

    def _awaits_backward(self) -> bool:
        """Whether enough sizes are recorded of which the backward is learnt when they come again: then others follow from these."""
        waiting = [walk for walk in self.walks.values() if walk.paths and walk.paths[-1].awaits_backward()]
        return len(waiting) >= FEWEST

    def _eligible(self) -> Iterator[tuple[tuple, Path]]:
        """The ways that may stand for other sizes, with the sizes of the arguments."""
        for sizes, walk in self.walks.items():
            for path in walk.paths:
                if path.is_eligible():
                    yield sizes, path

    def of_closure(self, closure: Any) -> Compiled:
        """The closure of an optimizer that this function calls. Each call may bring another one of the same code: nothing is replayed."""
        settings = {**self.settings, "replay": False, "name": f"{self.name}, closure {closure.__name__}"}
        return Compiled(closure, **settings)

    def _own_walk(self, sizes: tuple) -> Walk:
        """A new walk, in the place of the one that was used longest ago."""
        while len(self.walks) >= self.most_ways:
            del self.walks[next(iter(self.walks))]
        walk = self.walks[sizes] = Walk(self, self.shared)
        return walk

    def _drop_walks(self) -> None:
        """Those that were used longest ago are dropped where there are many ways at many sizes."""
        while self.ways > _TIMES_WAYS * self.most_ways and len(self.walks) > 1:
            del self.walks[next(sizes for sizes, walk in self.walks.items() if walk is not self.walk)]

    @property
    def ways(self) -> int:
        """How many ways through the function are recorded."""
        return sum([len(walk.paths) for walk in self.walks.values()]) + len(self.families.all)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<compiled {self.name}>"

    def __copy__(self) -> Compiled:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Compiled:
        """One without records; of a method it is that of the copied object."""
        return compiled_anew(copy.deepcopy(self.function, memo), self.settings)

    def __reduce__(self) -> str | tuple[Any, ...]:
        """By its name, as functions are pickled, where that leads to it; else as what it compiles."""
        named = sys.modules.get(self.__module__)
        for part in self.__qualname__.split(".") if hasattr(self, "__qualname__") else [""]:
            named = getattr(named, part, None)
        return self.__qualname__ if named is self else (compiled_anew, (self.function, self.settings))

    @property
    def settings(self) -> dict[str, Any]:
        """What it was made with."""
        return {name: getattr(self, name) for name in _SETTINGS}

    # --- recording --------------------------------------------------------------------------------------------------------------

    def sizes_now(self, args: tuple, kwargs: dict[str, Any]) -> tuple:
        """The sizes of the arguments, and of what objects among them hold."""
        in_objects = (self.held.sizes(args, kwargs),) if self.held.places else ()
        if self.joined.places:
            args, kwargs = self.joined.left_out_of(args, kwargs)
        sizes: tuple = sizes_of((args, kwargs)) if kwargs else (sizes_of(args),) if args else ()
        return (*sizes, *in_objects) if in_objects else sizes

    def joins_lists(self, op: Any, args: tuple) -> bool:
        """Whether an op joins lists among the arguments, which runs as it is written."""
        if self.dynamic is False or self.replay or self.on_gpu:
            return False
        return self.joined.is_join(op, args, self.arguments)

    def begin_recording(self) -> Recording:
        args, kwargs = self.arguments or ((), {})
        # Where the program has begun, it may have put other tensors into lists and objects.
        unchanged = self.sizes_now(args, kwargs) == self.sizes
        self.begun_with = tensors_in(self.joined.left_out_of(args, kwargs)) if unchanged else []
        known = len(self.held.changing)
        names = self.held.begin(args, kwargs, self.changing)
        if len(self.held.changing) > known:  # records from now on hold in more calls
            self.pauses.forget_missed()
        recording = Recording(
            self.known,
            {**names, **(names_of_arguments(self.function, *self.arguments) if self.arguments else {})},
            self.scopes,
            self.closures,
            self.on_gpu,
            self.changing,
            None if self.dynamic is False or self.replay else self.joined,
            (args, kwargs),
        )
        recording.any_shape, recording.exact = self.any_shape, self.exact
        recording.sizes = self.sizes
        recording.begin()
        self.recording = recording
        return recording

    def _is_due(self) -> bool:
        """Whether the call goes along a way apart, or is recorded as one: see `Rhythm`."""
        return self.rhythm.is_due(self.calls) and self.walk.family is None and not self.on_gpu

    def _begins_anew(self) -> bool:
        """Whether the call is recorded from its beginning, though there is a record."""
        return self._is_due() and _stance[0] == "default" and (self.rhythm.has_missed or self.walk.way_apart() is None)

    def _is_known(self, way: int) -> bool:
        """Whether a way is recorded, with tensors from outside that are as they were."""
        return any([path.way == way and path.watch.holds() for path in self.walk.paths])

    def _record(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        recording = self.begin_recording()
        try:
            result = self.function(*args, **kwargs)
            recording.result = described_result(result, recording)
        except BaseException:
            recording.refuse("an exception")
            raise
        finally:
            try:
                self._end_recording()
            except BaseException:
                if self.recording is not None:  # an interrupt, before the record was closed
                    self._drop_recording()
                raise
        return result

    def _drop_recording(self) -> None:
        if self.recording is not None:
            self.recording.end()
            self.recording = None

    def _end_recording(self) -> None:
        recording = self.recording
        assert recording is not None
        recording.end()
        self.recording = None
        self.has_recorded = True
        try:
            self._take(recording)
        finally:
            recording.memory.end()

    def _take(self, recording: Recording) -> None:
        """What is made of a recorded step."""
        self.on_gpu = recording.on_gpu
        met_before = bool(self.known)
        for tensor in (*[outside.tensor for outside in recording.outside], *recording.targets):
            self.known[id(tensor)] = weakref.ref(tensor)
        if self.changing.concern([path for walk in self.walks.values() for path in walk.paths]):
            self.walks = {sizes: walk for sizes, walk in self.walks.items() if not self.changing.concern(walk.paths)}
            if self.walk.family is None:
                self.walk = self.walks.get(self.sizes) or self._own_walk(self.sizes)
        if recording.result is not None and not recording.reason and recording.is_outdated():
            recording.refuse("what it gives has a history, with tensors that it wrote later")
        if not recording.reason:
            read = {id(outside.tensor) for outside in recording.outside}
            self.joined.learn(recording.called_with, recording.joined.keys(), read)
        counted_sizes = self.held.learn(recording.outside if met_before and not recording.reason else ())
        if recording.reason:
            self.note_left(recording.reason, recording.line)
            if recording.with_history is not None:
                self._note_history(recording.with_history)
            if self.fullgraph and recording.reason != "an exception":
                raise RuntimeError(
                    f"compile: {self.name} cannot be recorded whole, as fullgraph=True asks: {recording.reason}, at {recording.line}. Leave "
                    f"fullgraph out, or change the program there."
                )
        elif (self.changing.overlaps or self.on_gpu) and recording.has_overlaps():
            self.note_left("tensors that are others in each call share memory, and may lie at other distances")
        elif not self.known:
            if recording.events:
                self.note_left("it calls no op that is recorded")
        elif self.walk.paths and self._waits(recording.events):
            return
        elif met_before and recording.events and not counted_sizes:
            recording.let_go()
            give_back_room()
            self.shared.make_room(None, None)
            try:
                program = program_of(recording, self.walk.arena, recording.kept(), exact=self.exact)
            except OutOfMemoryError as error:
                self.stop(str(error))
                return
            if not program.on_gpu:
                self.credit.spend(cost_of_a_record(program))
            if program.check(recording, self.exact):
                gain = program.gain()
                if gain < 0 and not self.always:
                    python = sorted({call.name for call, form in zip(program.calls, program.forms) if form is None})
                    why = (
                        f"there are no kernels of a plan for {', '.join(python)}"
                        if python
                        else "what is copied costs more"
                    )
                    self.stop(f"it would be slower by some {-gain:.0f} us a call: {why}")
                    return
                if not program.on_gpu:
                    program.pointers = pointers_of(program, recording)
                    self._look_at_gain(recording, program)
                if self.walk.family is not None:
                    self.families.missed(self.walk)
                    self.walk = self.walks.get(self.sizes) or self._own_walk(self.sizes)
                if len(self.walk.paths) < self.most_ways:
                    self.walk.add(recording, program, bool(self.walk.paths) and self._is_due())
                else:
                    self.walk = self.walks[self.sizes] = Walk(self, self.shared)
                if self.walk.paths:
                    self.walk.paths[-1].idle = idle_places(self.begun_with, recording.outside)
                    self.walk.paths[-1].way = way_of(recording.events, self.sizes)
                    self.walk.load_steps(self.walk.paths[-1])
                self._drop_walks()
            else:
                self.note_left(f"the plan gives something else: {', '.join(program.differing[:3])}")

    def _waits(self, events: list[Any]) -> bool:
        """Whether no program is made of the way that a call has gone."""
        way = way_of(events, self.sizes)
        if self._is_due():
            return self._is_known(way)
        return self.pauses.waits(way)

    def _look_at_gain(self, recording: Recording, program: Any) -> None:
        """Where nothing is differentiated, and a walk takes longer than eager mode, calls in this grad mode are left as they are written."""
        if self.always or self.replay or not recording.events or recording.differentiates():
            return
        others = [walk for walk in self.walks.values() if walk is not self.walk and walk.paths]
        gain = gain_without_gradients(program, recording.events, bool(others))
        if gain < 0:
            self.note_left(f"without gradients it would be slower by some {-gain:.0f} us a call")
            self.left_alone[MODES.grad] = watch = Watch()
            for outside in recording.outside:
                if not outside.fresh:
                    watch.field(outside.tensor, "_requires_grad", outside.grad)
            watch.close()

    def _look_at_balance(self, walk: Walk, exchanged: int) -> None:
        """Where walks in this grad mode have lost more than they gained, calls in it are left as they are written.

        `exchanged`: so many functions got the code anew by which they compare themselves, since others were called in between.
        """
        path, grad = walk.path, MODES.grad
        if walk.family is not None or path.program.on_gpu:
            return
        lost = self.balance.lost(walk, grad, exchanged)
        if not lost:
            return
        reason = f"along its record it is slower by some {lost:.0f} us a call"
        if grad:
            self.stop_learning(reason)
        else:
            self.note_left(reason)
            self.left_alone[grad] = Watch().close()

    def _differentiates_nothing(self, args: tuple, kwargs: dict[str, Any]) -> bool:
        """Whether nothing among the arguments and parameters asks for gradients, in a grad mode whose calls are left as they are written."""
        if not self.left_alone[MODES.grad].holds():
            return False
        return not ((args and any_requires_grad(args)) or (kwargs and any_requires_grad(kwargs)))

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Inside, nothing is recorded or compared."""
        plan, MODES.plan = MODES.plan, None
        try:
            yield
        finally:
            MODES.plan = plan

    def stop(self, reason: str) -> None:
        """From now on the function runs as it is written."""
        self.note_left(reason)
        self.stopped = True

    def stop_learning(self, reason: str) -> None:
        """The same of calls in which gradients are recorded; others go along their records."""
        self.note_left(reason)
        self.learns_as_written = True

    def may_leave(self, reason: str) -> None:
        """Raises where the stance says that only what is recorded may run."""
        if _stance[0] == "fail_on_recompile":
            raise RuntimeError(
                f"compile: {self.name} goes a way that is not recorded ({reason}), and the stance is fail_on_recompile."
            )

    def note_again(self, reason: str) -> bool:
        """Counts a reason that was noted before; False: it was not."""
        for key in self.reasons:
            if key[0] == reason:
                self.reasons[key] += 1
                return True
        return False

    def note_left(self, reason: str, line: str = "") -> None:
        key = reason, line or line_text(caller(2))
        self.reasons[key] = self.reasons.get(key, 0) + 1

    # --- walking ----------------------------------------------------------------------------------------------------------------

    def _walk(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        walk = self.walk
        if not walk.begin(self._is_due()):
            reason = "a tensor from outside has become another one"
            self.note_left(reason)
            self.may_leave(reason)
            return self._record(args, kwargs)
        trace = None if self.replays is None else self.replays.trace(walk, self.sizes)
        try:
            walk.running = True
            MODES.plan = walk
            comings = walk.reader.comings
            walk.reader.turn_on(walk)
            exchanged = len(walk.reader.entries) if walk.reader.comings > comings else 0
            start = perf_counter()
            box = [self.function(*args, **kwargs)] if trace is None else trace.run(self.function, args, kwargs)
            if walk.running and awaits_nodes():
                walk.end_for("jvp around it may differentiate what it gives, by the history of each op")
            if walk.running:
                walk.finish()
                if walk.running:
                    self.walked += 1
                    path = walk.path
                    if path.is_apart and self._is_due():
                        self.rhythm.note_walked(self.calls)
                    if trace is None:  # else it took longer
                        path.walked += 1
                        path.seconds += perf_counter() - start
                    if not self.always and not self.replay:
                        self._look_at_balance(walk, exchanged)
                    if self.replays is not None:
                        self.replays.walked(walk, self.sizes, trace, args, kwargs, box)
                    return box[0]
            if self.recording is not None:
                self.recording.result = described_result(box[0], self.recording)
            return box[0]
        except BaseException:
            if walk.running:
                walk.catch_up()
            if self.recording is not None:
                self.recording.refuse("an exception")
            raise
        finally:
            try:
                self._end_walk(walk)
            except BaseException:  # an interrupt
                self._end_walk(walk)
                raise

    def _end_walk(self, walk: Walk) -> None:
        """May begin anew wherever it was interrupted."""
        if walk.running:
            walk.reader.rest(walk)
            walk.running = False
        elif walk.is_reading:  # interrupted on the way out of the record
            walk.reader.turn_off(walk)
        if walk.awaited:
            walk.show_stored(False)
        if walk.pointed:
            let_go(walk.pointed)
        MODES.plan = None
        if self.recording is not None:
            self._end_recording()

    def report(self) -> Report:
        """What became of the calls so far: see `Report`."""
        return report_of(self)

    def graph(self) -> Graph:
        """The record of a function with one way: see `Graph`."""
        return graph_of(self)

    def graphs(self) -> tuple[Graph, ...]:
        """The record of each way."""
        return graphs_of(self)


def compiled_anew(function: Any, settings: dict[str, Any]) -> Compiled:
    return Compiled(function, **settings)
