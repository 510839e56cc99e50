"""A plan's program on a GPU: the calls of a recorded step, in CUDA graphs that are started again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.autograd.modes import MODES
from dynograd.cuda import copies
from dynograd.plans.gpu.array_kinds import own_copy
from dynograd.plans.gpu.calls import GpuCall, Unknown
from dynograd.plans.gpu.loops import LoopCall, LoopGroup, groups_of
from dynograd.plans.gpu.pieces import Piece, Pieces
from dynograd.plans.gpu.places import Bindings, Place, Regions, room_for, whole_of
from dynograd.plans.gpu.pointwise import loops_of
from dynograd.plans.programs import gives
from dynograd.plans.recording import Recording
from dynograd.tensor.tensor import Tensor

__all__ = ["GpuProgram"]

_SAVED, _LOST = 20.0, 15.0  # microseconds of a call's Python and launch, and of one that is made between graphs


class GpuProgram:
    """What computes a path of the record on a GPU; used as `Program` is.

    `arrays[n]` is where value n lies in the piece that was computed last; before the first one it has no memory, and shows its layout.
    """

    on_gpu = True
    gradient_pointers: dict[int, Any] = {}  # graphs write gradients into memory of their own

    def __init__(
        self,
        recording: Recording,
        keeps: list[int],
        seeds: list[Any] | None = None,
        gradients: list[Any] | None = None,
        exact: bool = False,
    ) -> None:
        """See `Program`. `exact`: elementwise calls are computed by the kernels of eager mode, one by one."""
        self.keeps = keeps
        self.differing: list[str] = []
        self.replaced: list[str] = []
        self.groups: list[LoopGroup] = []
        self.pieces: list[int] = []
        self.endings: dict[Any, Any] = {}  # by the number of the step
        self.ending: Any = None  # what is offered behind the calls that are computed next: see `endings`
        self.has_stepped = False
        self.names = tuple([(call.kind, call.name, call.in_place) for call in recording.calls])
        self._path: Any = None
        others = [outside for outside in recording.outside if outside.fresh and outside.address is None]
        fresh = [outside.array for outside in others]
        staying = [outside.array for outside in recording.outside if not outside.fresh]
        self.device = recording.outside[0].array.device_index
        self._staying = [*staying, *_first_gradients(recording)]
        regions = Regions([*fresh, *(seeds or ())], self._staying)
        for call in recording.calls:
            for array in call.outputs:
                if type(array) is CudaArray:
                    regions.add(array)
        for number, array in recording.own_gradients.values():
            regions.alias(recording.values[number].array, array)
        inputs = Bindings()
        room = [room_for(array) for array in (*fresh, *(seeds or ()))]
        for region, array in enumerate(room):
            inputs.set_input(region, array)
        rooms = iter(room)
        self.outside = [next(rooms) if outside in others else outside.array for outside in recording.outside]
        self.seeds = [(place, own_copy(seed)) for place, seed in zip(rooms, seeds or ())]
        self.calls: list[GpuCall | LoopCall] = []
        computed = {} if exact else loops_of(recording.calls)
        for number, call in enumerate(recording.calls):
            try:
                if number in computed:
                    self.calls.append(LoopCall(call, computed[number], regions, number))
                else:
                    self.calls.append(GpuCall(call, regions, number))
            except Unknown as error:
                self.differing.append(f"{error}, which reads what no call has written")
                return
        self.places: list[Any] = [regions.place_of(tensor.array) for tensor in recording.values]
        self._gradients: list[Any] = [None if array is None else regions.place_of(array) for array in gradients or ()]
        on_one = all([array.device_index == self.device for array in self._all(recording)])
        if not on_one or any([place is None for place in self.places]):
            self.differing.append("a tensor in unknown memory, or on another GPU")
            return
        last = [0] * regions.count
        for number, placed in enumerate(self.calls):
            for region in placed.reads | placed.writes:
                last[region] = number
        self._inputs = regions.inputs
        self._say_what_is_kept(recording, last)
        self.kin = self._kin_of(recording)
        self.ends = [len(self.calls)] * len(self.places)
        self.arrays: list[Any] = [cuda_arrays.outline_of(tensor.array) for tensor in recording.values]
        self.gradients: list[Any] = [None] * len(self._gradients)
        self.groups = groups_of(recording.calls, computed, self._read_at_the_end(recording, gradients), regions)
        self.graphs = Pieces(self.calls, self.groups, last, inputs, self.device, self.replaced)
        self.at = self.graphs.first
        self.memory = SimpleNamespace(buffers=_Buffers(self), bytes=0)
        self._make_keys()

    @staticmethod
    def _all(recording: Recording) -> list[Any]:
        return [tensor.array for tensor in recording.values] + [outside.array for outside in recording.outside]

    def _read_at_the_end(self, recording: Recording, gradients: list[Any] | None) -> list[CudaArray]:
        """The arrays that somebody has when the recorded step is over."""
        results = [number for event in recording.events if event.kind == "backward" for number in event.results]
        arrays = [recording.values[number].array for number in (*self.keeps, *results)]
        arrays += [array for array in gradients or () if array is not None]
        return [*arrays, *[array for _, array in recording.own_gradients.values()]]

    def _say_what_is_kept(self, recording: Recording, last: list[int]) -> None:
        """Which regions are there when their last call is over: those of gradients, and what the program may have."""
        results = [number for event in recording.events if event.kind == "backward" for number in event.results]
        always = [self.places[number] for number in results] + self._gradients
        for place in always:
            if type(place) is Place:
                last[place.region] = len(self.calls)
        for call in self.calls:  # what it held before is needed where the program leaves the record
            if call.kind == "store" and type(call.outputs[0]) is Place:
                last[call.outputs[0].region] = len(self.calls)
        self._last = last
        # (calls that are over when the value is there, its number, its region), in the order of the program
        self._made = [
            (event.calls, number, self.places[number].region)
            for event in recording.events
            for number in event.results
            if type(self.places[number]) is Place and self.places[number].region >= self._inputs
        ]

    def _kin_of(self, recording: Recording) -> list[Any]:
        """See `Program`."""
        regions = [place.region if type(place) is Place else None for place in self.places]
        fresh = [outside.number for outside in recording.outside if outside.fresh and outside.address is None]
        counts = Counter(regions)
        kin: list[Any] = []
        for tensor, region in zip(recording.values, regions):
            if region is None:
                kin.append(("staying", None) if tensor.array.size else None)
            elif region < len(fresh):
                kin.append(("outside", fresh[region]))
            else:
                kin.append(("region", region) if counts[region] > 1 else None)
        return kin

    # --- random numbers -----------------------------------------------------------------------------------------------------------

    def _make_keys(self) -> None:
        """Places in the random stream: in the device's memory, where graphs read them."""
        self._drawing = [call for call in self.calls if call.draws and not call.eager]
        self._keys = numpy.zeros((len(self._drawing), 4), numpy.int32)
        for row, call in enumerate(self._drawing):
            self._set_key(row, call.key_now)
        self._sent = self._keys.copy()
        self._placed = cuda_arrays.from_numpy(self._keys, self.device)
        for row, call in enumerate(self._drawing):
            call.key_now = self._placed[row, :2], self._placed[row, 2:]

    def _set_key(self, row: int, key: tuple[int, int]) -> None:
        self._keys[row] = numpy.array([word & 0xFFFFFFFFFFFFFFFF for word in key], numpy.uint64).view(numpy.int32)

    def set_key(self, event: Any, key: Any) -> None:
        """The place in the random stream where an op draws in this step."""
        call = self.calls[event.calls - 1]
        if not call.draws:
            return
        if call in self._drawing:
            self._set_key(self._drawing.index(call), key)
        else:
            call.key_now = key

    # --- computing ----------------------------------------------------------------------------------------------------------------

    def run(self, start: int, stop: int, is_held: Callable[[int], bool] | None = None) -> None:
        """Computes the calls from `start` to `stop`. `is_held` says whether somebody may read a value (its number)."""
        if not start:
            self.at = self.graphs.first
            self.pieces = []
        if self._drawing and not numpy.array_equal(self._keys, self._sent):
            copies.from_host(self._placed.pointer, self._keys.ctypes.data, self._keys.nbytes, self.device)
            self._sent[...] = self._keys
        kept = [
            region
            for calls, number, region in self._made
            if start < calls <= stop and self._last[region] < stop and (is_held is None or is_held(number))
        ]
        piece, rest = self.at, frozenset(kept)
        ending, self.ending = self.ending, None
        if ending is not None and ending.calls != stop:
            ending = None
        assert piece.stop == start, "a program goes on where it has stopped"
        try:
            while piece.stop < stop:
                piece = self.graphs.run(piece, stop, rest, ending)
                self.pieces.append(piece.stop)
            self.has_stepped = piece.ending is not None and piece.ending.ending is ending
        except BaseException:  # the walk runs these calls anew, after Ctrl-C, too
            self.graphs.undo_stores(start, piece.stop, piece.bindings)
            raise
        self.at = piece
        self._show(piece)

    def before_store(self, number: int) -> CudaArray:
        """What the target of a store held before it, in a step in which the call of this number was computed."""
        place = self.calls[number].outputs[0]
        assert place is not None
        return own_copy(self.at.bindings.at(place))

    def _show(self, piece: Piece) -> None:
        """Tells where values lie now."""
        if piece.shown is None or not piece.lasting:
            bindings = piece.bindings
            there = [
                bindings.at(place) if type(place) is not Place or place.region in bindings.memory else None
                for place in self.places
            ]
            gone = {number for number, array in enumerate(there) if array is None}
            shown = [
                cuda_arrays.outline_of(self.arrays[number]) if array is None else array
                for number, array in enumerate(there)
            ]
            gradients = [
                None
                if place is None or (type(place) is Place and place.region not in bindings.memory)
                else bindings.at(place)
                for place in self._gradients
            ]
            piece.shown = SimpleNamespace(arrays=shown, gone=gone, gradients=gradients, of_path=None)
        shown = piece.shown
        self.arrays, self.gradients = shown.arrays, shown.gradients
        path = self._path
        if path is not None:
            if shown.of_path is None:
                at = path.arrays_of(shown.arrays)
                of_leaves = [(leaf, number, Tensor.wrap(at[number])) for leaf, number, _ in path.gradients]
                shown.of_path = at, {path.numbers[number] for number in shown.gone}, {}, of_leaves
            path.arrays, path.gone, path.optimizers, path.gradients = shown.of_path

    def tell(self, path: Any) -> None:
        """The path that wants to know where values lie."""
        self._path = path
        path.gone = set(path.numbers)  # nothing is computed yet

    def spans(self) -> tuple[tuple[int, int], ...]:
        return ()

    @property
    def forms(self) -> list[Any]:
        """For reports: None for a call that is made between graphs; no launches for one that only gives views."""
        return [None if call.eager else [] if call.op is not None and call.op.view else [call] for call in self.calls]

    @property
    def refused(self) -> dict[int, str]:
        """Calls that are made between graphs, and why."""
        return {number: call.eager for number, call in enumerate(self.calls) if call.eager}

    @property
    def launches(self) -> int:
        """Graphs that were started in the latest step, and calls between them."""
        return len(self.pieces)

    def gain(self) -> float:
        """How many microseconds a step is likely to be faster than as it is written."""
        return sum([-_LOST if call.eager else _SAVED for call in self.calls])

    # --- the check ------------------------------------------------------------------------------------------------------------------

    def check(self, recording: Recording, exact: bool = False) -> bool:
        """Makes all calls again on the recorded step's inputs, and compares each result with what the step had made.

        Graphs are compared with that when they are captured.
        """
        if self.differing:
            return False
        snapshots = list(recording.snapshots)
        latest = {number: own_copy(self.outside[number]) for _, number, _ in snapshots}
        for place, values in self.seeds:
            place[...] = values
        bindings, nodes = Bindings(self.graphs.first.bindings.memory), {}
        for (number, call), recorded in zip(enumerate(self.calls), recording.calls):
            while snapshots and snapshots[0][0] <= number:
                _, outside, values = snapshots.pop(0)
                self.outside[outside][...] = values
            try:
                self._check_call(call, recorded, bindings, nodes, exact)
            except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
                self.differing.append(f"{call.kind} {call.name} at {call.line} ({type(error).__name__}: {error})")
                break
            recorded.results = ()
        for number, values in latest.items():
            self.outside[number][...] = values
        self.memory.bytes = sum([whole_of(storage).nbytes for storage, _ in bindings.memory.values()])
        return not self.differing

    def _check_call(
        self, call: GpuCall | LoopCall, recorded: Any, bindings: Bindings, nodes: dict[int, Any], exact: bool
    ) -> None:
        plan, recorder, grad = MODES.plan, MODES.recorder, MODES.grad
        MODES.plan = MODES.recorder = None
        MODES.grad = 0
        try:
            call.compute(bindings, nodes)
        finally:
            MODES.plan, MODES.recorder, MODES.grad = plan, recorder, grad
        outputs = [None if place is None else bindings.at(place).numpy() for place in call.outputs]
        expected = [None if copied is None else copied.numpy() for copied in recorded.results[: len(outputs)]]
        if not gives(outputs, expected, exact):
            self.differing.append(f"{call.kind} {call.name} at {call.line}")


class _Buffers:
    """The memory of regions, by their numbers, as it is now."""

    def __init__(self, program: GpuProgram) -> None:
        self._program = program

    def __getitem__(self, region: int) -> CudaArray | None:
        """None: it has none at these sizes."""
        memory = self._program.at.bindings.memory.get(region)
        return None if memory is None else whole_of(memory[0])


def _first_gradients(recording: Recording) -> list[CudaArray]:
    """What the engine begins the step's backward passes with."""
    first, before = [], 0
    for event in recording.events:
        if event.kind == "backward":
            rule = next((call for call in recording.calls[before : event.calls] if call.kind == "rule"), None)
            if rule is not None:
                first += [array for array in _incoming(rule) if type(array) is CudaArray]
        before = event.calls
    return first


def _incoming(rule: Any) -> list[Any]:
    g = rule.compute.g
    return list(g.parts.values()) if hasattr(g, "parts") else [g]
