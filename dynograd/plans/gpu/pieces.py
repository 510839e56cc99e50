"""Pieces of a step that one CUDA graph computes: captured when they first come, checked in overwritten memory, and started again.

A piece goes on from what the pieces before it have left in memory, so that they make a tree: where a step is computed in other pieces than
before (since a value is read at another place, say), others are captured from there on.
"""

from __future__ import annotations

from typing import Any

from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.autograd.modes import MODES
from dynograd.cuda import allocator, graphs, streams
from dynograd.errors import DynogradError
from dynograd.plans.gpu.calls import GpuCall
from dynograd.plans.gpu.endings import BoundClipping, BoundEnding, Clipping, Ending
from dynograd.plans.gpu.loops import LoopCall, LoopGroup
from dynograd.plans.gpu.places import Bindings, Place, whole_of
from dynograd.plans.passes import saved_of
from dynograd.plans.programs import gives

__all__ = ["Piece", "Pieces"]

_MOST = 64  # pieces of a program; what comes then is computed call by call


class Piece:
    """What there is when the calls up to `stop` have been computed.

    Args:
        bindings: where values lie.
        nodes: of ops whose backward is still to come, by the ids that the record's had.
    """

    def __init__(self, stop: int, bindings: Bindings, nodes: dict[int, Any], lasting: bool) -> None:
        self.stop, self.bindings, self.nodes, self.lasting = stop, bindings, nodes, lasting
        self.graph: Any = None
        self.call: GpuCall | LoopCall | None = None  # that is made between graphs
        self.ending: BoundEnding | BoundClipping | None = None  # in its graph
        # By where they end, what else they keep, and their ending.
        self.next: dict[tuple[int, frozenset[int], Ending | Clipping | None], Piece] = {}
        self.shown: Any = None  # what the program tells of it


class Pieces:
    """Computes calls in pieces.

    Args:
        calls: of the program.
        groups: those of them that one loop computes.
        last: of each region the last call that reads or writes it.
        inputs: where inputs lie.
        device: the number of the GPU.
        replaced: takes the names of groups that are computed call by call after all, for the report.
    """

    def __init__(
        self,
        calls: list[GpuCall | LoopCall],
        groups: list[LoopGroup],
        last: list[int],
        inputs: Bindings,
        device: int,
        replaced: list[str],
    ) -> None:
        self.calls, self.groups, self.last, self.device = calls, groups, last, device
        self.replaced = replaced
        self.last_use: dict[int, int] = {}  # of nodes
        for number, call in enumerate(calls):
            for node in (call.makes, call.uses):
                if node:
                    self.last_use[node] = number
        self.first = Piece(0, inputs, {}, True)
        self.pool = allocator.PrivateMemory(device)
        self.count = 0
        self.nodes: dict[int, Any] = {}  # of calls that are made between graphs, as they are in this step
        self.failed: tuple[int, str] | None = None
        for number, call in enumerate(calls):
            if call.eager:
                self.leave_out(number, call.eager)

    def run(self, before: Piece, stop: int, kept: frozenset[int], ending: Ending | Clipping | None = None) -> Piece:
        """Computes the calls behind a piece, up to `stop` or less far, and gives the piece that is there then.

        Args:
            kept: regions that somebody needs although no later call does.
            ending: what may be done at `stop` in the same graph; the piece's `ending` says whether it is.
        """
        start = before.stop
        if self.calls[start].eager:
            return self._call(before, start)
        end = next((number for number in range(start, stop) if self.calls[number].eager), stop)
        if ending is not None and (end < stop or ending.refused):
            ending = None
        piece = before.next.get((end, kept, ending))
        if piece is None:
            return self._new(before, end, kept, ending)
        if piece.ending is not None:
            piece.ending.write_numbers()
        piece.graph.replay()
        if piece.ending is not None:
            piece.ending.stamp()
        return piece

    def compute(self, before: Piece, stop: int, kept: frozenset[int], lasting: bool, grouped: bool = False) -> Piece:
        """The calls one by one, as they are written, or with groups of them `grouped`; what is not needed any more is let go at once."""
        bindings, nodes = Bindings(before.bindings.memory), dict(before.nodes)
        ends = self._ends(before, stop, kept)
        groups = self._groups_of(before.stop, stop, kept) if grouped else {}
        plan, recorder, grad = MODES.plan, MODES.recorder, MODES.grad
        MODES.plan = MODES.recorder = None
        MODES.grad = 0
        number = before.stop
        try:
            while number < stop:
                group = groups.get(number)
                if group is not None:
                    group.loop.run(bindings)
                    numbers, alone = range(number, group.last + 1), group.between
                else:
                    numbers = range(number, number + 1)
                    alone = [number]
                for number in alone:
                    self.calls[number].compute(bindings, nodes)
                for number in numbers:
                    self._let_go(number, ends, bindings, nodes, before)
                number = numbers.stop
        except Exception as error:
            if not lasting:
                self.undo_stores(before.stop, number, bindings)
            self.failed = number, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            raise
        finally:
            MODES.plan, MODES.recorder, MODES.grad = plan, recorder, grad
        return Piece(stop, bindings, nodes, lasting)

    def undo_stores(self, start: int, stop: int, bindings: Bindings) -> None:
        """What calls have written into tensors from outside is again what it was before them."""
        for call in reversed(self.calls[start:stop]):
            if call.kind == "store":
                old, target = call.outputs
                assert old is not None and target is not None
                bindings.at(target)[...] = bindings.at(old)

    def _let_go(
        self, number: int, ends: dict[int, list[int]], bindings: Bindings, nodes: dict[int, Any], before: Piece
    ) -> None:
        """What no call behind this one needs."""
        call = self.calls[number]
        for region in ends.get(number, ()):
            bindings.memory.pop(region, None)
        for node in (call.makes, call.uses):
            if node and self.last_use[node] == number and node not in before.nodes:
                nodes.pop(node, None)

    def _groups_of(self, start: int, stop: int, kept: frozenset[int]) -> dict[int, LoopGroup]:
        """The groups whose calls all lie in a piece, by their first ones, unless somebody needs what they do not write."""
        return {
            group.first: group
            for group in self.groups
            if start <= group.first and group.last < stop and group.unwritten.isdisjoint(kept)
        }

    def _ends(self, before: Piece, stop: int, kept: frozenset[int]) -> dict[int, list[int]]:
        """The regions that are done with in a piece, by the number of the call."""
        ends: dict[int, list[int]] = {}
        for number in range(before.stop, stop):
            call = self.calls[number]
            for region in call.reads | call.writes:
                if self.last[region] == number and region not in kept and region not in before.bindings.memory:
                    ends.setdefault(number, []).append(region)
        return ends

    # --- calls between graphs ---------------------------------------------------------------------------------------------------

    def _call(self, before: Piece, number: int) -> Piece:
        """A call that no graph has: what it gives is copied to where later graphs read it."""
        call = self.calls[number]
        key = number + 1, frozenset[int](), None
        known = before.next.get(key)
        bindings = Bindings(before.bindings.memory)
        plan, recorder, grad = MODES.plan, MODES.recorder, MODES.grad
        MODES.plan = MODES.recorder = None
        MODES.grad = 0
        try:
            call.compute(bindings, self._nodes_for(call, before))
        finally:
            MODES.plan, MODES.recorder, MODES.grad = plan, recorder, grad
        if known is None:
            piece = Piece(number + 1, bindings, dict(before.nodes), before.lasting)
            piece.call = call
            if before.lasting:
                before.next[key] = piece
            return piece
        for place in call.outputs:
            if type(place) is Place:
                fixed, result = known.bindings.at(place), bindings.at(place)
                if fixed.pointer != result.pointer:
                    fixed[...] = result
        return known

    def _nodes_for(self, call: GpuCall | LoopCall, before: Piece) -> dict[int, Any]:
        """Where the node of a call between graphs stands: with the latest ones, which change from step to step."""
        return before.nodes if call.uses in before.nodes else self.nodes

    # --- graphs -----------------------------------------------------------------------------------------------------------------

    def _new(self, before: Piece, stop: int, kept: frozenset[int], ending: Ending | Clipping | None) -> Piece:
        """A piece that comes for the first time: computed call by call, captured, and compared."""
        if not before.lasting or self.count >= _MOST:
            return self.compute(before, stop, kept, False)
        bound = None if ending is None else ending.bound()
        stored = self._stored(before.stop, stop)
        behind = [(whole, whole.copy()) for whole in (*self._memory_behind(before), *stored)]
        eager = self.compute(before, stop, kept, False)
        rehearsed = self._rehearsed(bound, eager)
        expected = [array.numpy() for array in (*self._results(eager, before.stop, stop), *stored)]
        for whole, copied in behind:  # rules may write into what an op has saved
            whole[...] = copied
        if bound is not None:
            if rehearsed is None:
                return self._without(bound, before, stop, kept)
            expected += rehearsed
            behind += [(array, array.copy()) for array in bound.written]
        graph = graphs.CUDAGraph()
        try:
            piece = self._captured(graph, before, stop, kept, bound)
        except (DynogradError, RuntimeError, TypeError, ValueError):
            if bound is not None:
                return self._without(bound, before, stop, kept)
            if self._drop_groups(before.stop, stop):
                return self.run(before, stop, kept)
            failed = range(before.stop, stop) if self.failed is None else [self.failed[0]]
            why = "" if self.failed is None else f": {self.failed[1]}"
            for number in failed:
                self.leave_out(number, f"it cannot be captured{why}")
            return self.run(before, stop, kept)
        results = self._results(piece, before.stop, stop)
        earlier = {whole.pointer for whole, _ in behind}
        self.pool.fill_idle(0xFF)
        for array in results:
            if array.size and array.storage.pointer not in earlier:
                whole_of(array.storage)[...] = 0xFF
        if bound is not None:
            stored += bound.results
            bound.send_rows()
            bound.write_numbers()
        graph.replay()
        if not gives([array.numpy() for array in (*results, *stored)], expected, False):
            for whole, copied in behind:
                whole[...] = copied
            if bound is not None:
                return self._without(bound, before, stop, kept)
            if self._drop_groups(before.stop, stop):
                return self.run(before, stop, kept)
            for number in range(before.stop, stop):
                self.leave_out(number, "a graph of it gave something else than its calls")
            return self.run(before, stop, kept)
        if bound is not None:
            bound.stamp()
        piece.graph, piece.ending = graph, bound
        self.count += 1
        before.next[stop, kept, ending if bound is not None else None] = piece
        return piece

    def _rehearsed(self, bound: Any, eager: Piece) -> list[Any] | None:
        """What an ending gives; None where it cannot be made."""
        if bound is None:
            return None
        try:
            rehearsed: list[Any] = bound.rehearse(eager.bindings)
        except (DynogradError, RuntimeError, TypeError, ValueError):
            return None
        return rehearsed

    def _without(self, bound: BoundEnding | BoundClipping, before: Piece, stop: int, kept: frozenset[int]) -> Piece:
        """The piece goes wrong with its ending, which is made behind graphs from now on."""
        bound.uncount()
        bound.ending.refused = True
        self.replaced.append(bound.ending.name)
        return self.run(before, stop, kept)

    def _drop_groups(self, start: int, stop: int) -> bool:
        """Calls of a piece that goes wrong are computed one by one; False: they have been so before."""
        inside = [group for group in self.groups if start <= group.first and group.last < stop]
        for group in inside:
            self.groups.remove(group)
            self.replaced.append(f"group {group.name}")
        return bool(inside)

    def leave_out(self, number: int, reason: str) -> None:
        """The call is made between graphs from now on, and with it what uses its node."""
        call = self.calls[number]
        call.eager = call.eager or reason
        if call.makes:
            self.nodes[call.makes] = None
            for other in self.calls:
                if other.uses == call.makes:
                    other.eager = other.eager or f"what {call.name} has saved is another thing in each step"

    def _captured(
        self, graph: Any, before: Piece, stop: int, kept: frozenset[int], bound: BoundEnding | BoundClipping | None
    ) -> Piece:
        self.failed = None
        with streams.StreamContext(_stream_of(self.device)):
            graph.capture_begin(self.pool, "thread_local")
            try:
                piece = self.compute(before, stop, kept, True, True)
                if bound is not None:
                    bound.point(piece.bindings)
                    bound.launch()
                return piece
            finally:
                graph.capture_end()

    def _memory_behind(self, before: Piece) -> list[CudaArray]:
        """All memory that calls behind a piece may read, and rules among them write."""
        storages = {id(storage): storage for storage, _ in before.bindings.memory.values()}
        for node in before.nodes.values():
            for array in saved_of(node):
                if type(array) is CudaArray and array.storage.nbytes:
                    storages[id(array.storage)] = array.storage
        return [whole_of(storage) for storage in storages.values()]

    def _stored(self, start: int, stop: int) -> list[CudaArray]:
        """The memory of tensors from outside that calls write."""
        targets = [call.outputs[1] for call in self.calls[start:stop] if call.kind == "store"]
        return list({target.pointer: target for target in targets if isinstance(target, CudaArray)}.values())

    def _results(self, piece: Piece, start: int, stop: int) -> list[CudaArray]:
        """What calls have made that is still there."""
        places = [place for call in self.calls[start:stop] for place in call.outputs if type(place) is Place]
        return [piece.bindings.at(place) for place in places if place.region in piece.bindings.memory]


_streams: dict[int, streams.Stream] = {}


def _stream_of(device: int) -> streams.Stream:
    """The stream on which pieces are captured."""
    if device not in _streams:
        _streams.setdefault(device, streams.Stream(device))
    return _streams[device]
