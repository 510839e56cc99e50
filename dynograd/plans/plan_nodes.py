"""The history of what a compiled function gave, where its program differentiates that itself."""

from __future__ import annotations

import bisect
import itertools
import weakref
from typing import Any

from dynograd.amp.autocasting import STATE
from dynograd.arrays import address_of, buffers, ndarray
from dynograd.autograd.engine import run_backward
from dynograd.autograd.modes import MODES
from dynograd.autograd.nodes import FREED, Node, OutputNode, Partial, next_seq
from dynograd.autograd.writes import last_write, written_since
from dynograd.errors import InplaceError, OutOfMemoryError
from dynograd.interpreter.history import AliasBackward
from dynograd.plans.functions.contexts import Contexts, has_contexts
from dynograd.plans.gpu.array_kinds import address_range, may_share, own_copy
from dynograd.plans.gpu.choosing import program_of
from dynograd.plans.gradients import leaf_of, run_again
from dynograd.plans.handed import turn_into
from dynograd.plans.inputs import gradient_pointers_of, let_go
from dynograd.plans.memory import give_back_room
from dynograd.plans.passes import saved_of
from dynograd.plans.programs import nobody, write
from dynograd.plans.recording import Recording, call_with
from dynograd.plans.steps import told
from dynograd.plans.writes.flags import FlagsAgain
from dynograd.plans.writes.spoiling import HISTORIES, operands_of, written_by
from dynograd.plans.writes.stores import restored

__all__ = ["PlanNode"]


class PlanNode(Node):
    """The history of what a compiled function gave: its backward is the plan's, or is recorded when it first comes.

    Args:
        walk: that of the function, at the place where the tensors are given.
        numbers: of those tensors.
        whole: the function has come to its end; else the plan's memory is not used for the backward.
    """

    __slots__ = (
        "bound",
        "contexts",
        "results",
        "keys",
        "leaves",
        "path",
        "outputs",
        "saved",
        "spoiled",
        "steps",
        "stop",
        "walk",
        "whole",
    )
    op = None
    saved_names = ("saved",)

    def __init__(self, walk: Any, numbers: list[int], whole: bool) -> None:
        self.walk, self.path, self.bound, self.whole = walk, walk.path, dict(walk.bound), whole
        self.seq, self.hooks, self.attrs = next_seq(), None, ()
        self.steps, places, with_contexts = _history_of(walk, numbers)
        self.contexts = Contexts(walk, with_contexts)
        self.keys = {}
        if self.path.keyed:
            self.keys = {step.number: step.key for step in self.path.steps if step.key is not None}
        tensors = [walk._outside_now(self.path, place) for place in places]
        self.edges = self.leaves = tuple([tensor if tensor._requires_grad else None for tensor in tensors])
        self.saved = [tensor.array for tensor in tensors]
        self.results: dict[int, Any] = {}  # the arrays of those tensors, which the program may write into
        self.outputs: dict[int, tuple[Any, Any]] = {}  # (the tensor, its node), weakly
        self.stop = walk.at.number
        self.spoiled = _spoiled(walk, self.steps, self.contexts)

    def name_of_output(self, number: int) -> str:
        return str(self.walk.values[number].history)

    def stands_for(self, number: int, tensor: Any, array: Any) -> OutputNode:
        """The node of a tensor that the function gives."""
        node = OutputNode(self, number)
        self.results[number] = array
        self.outputs[number] = weakref.ref(tensor), weakref.ref(node)
        return node

    def edge_of_output(self, output: Node) -> Node:
        """Outputs that are computed from one another get the histories that they have as it is written, once somebody looks between them."""
        if self.attrs is FREED or not self._lead_to_each_other():
            return output
        before = next_seq()
        mode, MODES.grad = MODES.grad, 1
        try:
            with self.walk.owner.aside(), restored(self.path):
                tensors = self._again(self.steps)
        finally:
            MODES.grad = mode
        _set_times([tensors[number].node for number in self.outputs], before, self.seq)
        for number, (tensor, node) in self.outputs.items():
            tensor, node = tensor(), node()
            if node is not None:  # what was computed from it leads on from there
                turn_into(node, AliasBackward)
                node.edges, node.attrs = (tensors[number].node,), None
            if tensor is not None and tensor.node is node:
                tensor.node = tensors[number].node
        self.outputs = {}
        edge: Node = output.edges[0]
        return edge

    def _lead_to_each_other(self) -> bool:
        for number in self.outputs:
            values = {
                value for step in needed_for(self.path, [number], self.stop)[0] for value in operands_of(step.args)[0]
            }
            if not values.isdisjoint(self.outputs.keys() - {number}):
                return True
        return False

    def _check(self, parts: dict[int, Any]) -> None:
        """Raises where what these values need was written later."""
        steps = needed_for(self.path, [*parts], self.stop)[0] if self.spoiled else []
        names = [self.spoiled[step.number] for step in steps if step.number in self.spoiled]
        if names:
            raise InplaceError(
                f"backward of {names[-1]}: one of the variables needed for gradient computation has been modified by an inplace "
                f"operation: the compiled function wrote into it after {names[-1]} had used it. Call backward before that, or clone()."
            )
        if last_write[0] > self.seq:
            self._check_results(parts)

    def _check_results(self, parts: dict[int, Any]) -> None:
        """Raises where the program has written into what the function gave, and these values need it as it was."""
        written = {number: line for number, array in self.results.items() if (line := written_since(array, self.seq))}
        if not written:
            return
        sources, arrays = self.walk.sources, self.path.arrays
        writes = [step for step in self.path.steps[: self.stop] if step.event.kind == "write"]
        in_place = {write.args[1][1] for write in writes}  # of these their own ops have saved a copy
        for step in reversed(needed_for(self.path, [*parts], self.stop)[0]):
            call = self.path.program.calls[step.event.calls - 1] if step.event.kind == "op" else None
            if call is None or call.node is None:
                continue
            saved = saved_of(call.node)
            since = min([start for start, end in self.path.checkpointed if start <= step.number < end], default=None)
            for number in [*step.results, *operands_of(step.args)[0]]:
                if number in step.results and number in in_place:
                    continue
                if since is not None and self.walk.first[number] >= since:
                    continue  # what a checkpointed part has made is computed again
                for other, line in written.items():
                    if sources[other] != sources[number] or not may_share(arrays[other], arrays[number]):
                        continue
                    if any([may_share(array, arrays[number]) for array in saved]):
                        raise InplaceError(
                            f"backward of {call.name}: one of the variables needed for gradient computation has been modified by an "
                            f"inplace operation: what the compiled function gave, of shape {tuple(arrays[other].shape)}, was written by "
                            f"{line}, after {call.name} had saved it. Use the out-of-place form there, or clone() before writing."
                        )

    def name(self) -> str:
        return "CompiledFunctionBackward"

    def op_name(self) -> str:
        return "a compiled function"

    def apply(self, g: Partial) -> tuple[Any, ...]:
        path, parts = self.path, g.parts
        self._check(parts)
        if not self.whole or path.parts is None or path.parts != tuple(sorted(parts)):
            return self._learn(parts)
        for (place, _), number in zip(path.program.seeds, path.parts):
            write(place, parts[number])
        program = path.program
        pointed, elsewhere = [], {}
        for place, pointer in program.gradient_pointers.items():
            array = buffers.empty(pointer.place.shape, pointer.place.dtype)
            if pointer.point(array):
                elsewhere[place] = array
                pointed.append((pointer, array))
        try:
            program.run(path.forward, len(program.calls), nobody)
        finally:
            let_go(pointed)
        gradients = [elsewhere.get(place, gradient) for place, gradient in enumerate(program.gradients)]
        self.edges = tuple([self.leaves[place] for place in path.receivers])
        return tuple(gradients)

    def apply_graph(self, g: Partial) -> tuple[Any, ...]:
        self._check(g.parts)
        self.walk.owner.balance.charge_anew(len(self.steps), 1)
        with self.walk.owner.aside():
            tensors = self._again(self.steps)
            roots = [(tensors[number].node, part) for number, part in g.parts.items()]
            leaves = [edge for edge in self.leaves if edge is not None]
            gradients = run_backward(roots, retain_graph=True, create_graph=True, targets=leaves, hooks_of_leaves=False)
            assert gradients is not None
            self.edges = tuple(leaves)
            return tuple(gradients)

    def _backward_of(
        self, steps: list[Any], parts: dict[int, Any], recording: Recording | None = None
    ) -> tuple[tuple[int, ...], list[Any]]:
        """`_run` of the steps' ops, which are computed anew."""
        mode = MODES.grad, MODES.task
        try:
            MODES.grad = 1
            with restored(self.path):
                tensors = self._again(steps)
            if recording is not None:
                recording.from_outside = True
            return self._run([(tensors[number].node, part) for number, part in parts.items()])
        finally:
            MODES.grad, MODES.task = mode

    def _run(self, roots: list[Any]) -> tuple[tuple[int, ...], list[Any]]:
        """The places of leaves among the edges, and what comes to them; in exact mode a leaf gets parts, which eager adds one by one to what it has."""
        places = [place for place, leaf in enumerate(self.leaves) if leaf is not None]
        leaves = [self.leaves[place] for place in places]
        parts: list[tuple[Any, Any]] | None = [] if self.walk.owner.exact else None
        sums = run_backward(roots, targets=leaves, hooks_of_leaves=False, apart=parts)
        assert sums is not None
        place_of = dict(zip(leaves, places))
        coming = [(leaf, part) for leaf, part in [*(parts or ()), *zip(leaves, sums)] if part is not None]
        self.edges = tuple([leaf for leaf, _ in coming])
        return tuple([place_of[leaf] for leaf, _ in coming]), [part for _, part in coming]

    def _again(self, steps: list[Any]) -> dict[int, Any]:
        """The function's ops on the same tensors, as they are written; results by number."""
        with FlagsAgain(self.path) as flags:
            return self._with_flags(steps, flags)

    def _with_flags(self, steps: list[Any], flags: FlagsAgain) -> dict[int, Any]:
        tensors: dict[int, Any] = dict(self.contexts.values)
        for step in steps:
            flags.until(step.number)
            event = step.event
            before, MODES.grad = MODES.grad, event.grad
            inside, STATE.inside_op = STATE.inside_op, True  # the record's ops are cast already
            try:
                if event.kind == "detach":
                    results = [tensors[step.args[0][1]].detach()]
                elif event.kind == "op":
                    result = call_with(event.entry.function, event.entry.op, self._arguments(step, tensors))
                    results = [result] if event.shape is None else list(result)
                elif event.kind in ("place", "grad"):
                    results = run_again(event.kind, self._arguments(step, tensors))
                elif event.kind == "function":
                    results = self.contexts.joined(step, self._arguments(step, tensors), tensors)
                elif event.kind == "flag":
                    results = [leaf_of(self._arguments(step, tensors)[0])]
                else:
                    results = []
                    if type(MODES.plan) is Recording and event.kind in ("differentiate", "ask"):
                        MODES.plan.note_again(event)
                    elif type(MODES.plan) is Recording and event.kind in ("write", "rename"):
                        MODES.plan.note_write(event, *[tensors[number] for _, number in step.args])
                    elif type(MODES.plan) is Recording and event.kind == "store":
                        target, value = self._arguments(step, tensors)
                        MODES.plan.store(target, value, again=True)
            finally:
                MODES.grad, STATE.inside_op = before, inside
            tensors.update(zip(step.results, results))
        return tensors

    def _arguments(self, step: Any, tensors: dict[int, Any]) -> list[Any]:
        return [self._actual(step, tensors, *described) for described in step.args]

    def _actual(self, step: Any, tensors: dict[int, Any], kind: str, content: Any) -> object:
        if kind == "value":
            return tensors[content]
        if kind == "outside":
            outside = self.path.outside[content]
            return self.bound[content] if outside.fresh else outside.tensor
        if kind == "list":
            return content[0]([self._actual(step, tensors, *part) for part in content[1]])
        return self.keys[step.number] if kind == "key" else content

    def _learn(self, parts: dict[int, Any]) -> tuple[Any, ...]:
        """Records the ops anew, and their backward with them; only computes them where a step is under way, which has a record of its own."""
        try:
            return self._learned(parts)
        finally:
            give_back_room()

    def _learned(self, parts: dict[int, Any]) -> tuple[Any, ...]:
        path, owner = self.path, self.walk.owner
        numbers = tuple(sorted(parts))
        seeds = [own_copy(parts[number]) for number in numbers]
        if MODES.plan is not None or owner.recording is not None:
            with owner.aside():
                return tuple(self._backward_of(self.steps, dict(zip(numbers, seeds)))[1])
        if self.walk.path is path and not self.walk.running:
            self.walk.let_go()  # the memory is another one from now on
        recording = owner.begin_recording()
        recording.bound, recording.numbers_stay = tuple(self.bound.values()), True
        try:
            is_one = self.whole and not any([self._is_apart(step) for step in path.steps])
            steps = path.steps if is_one else self.steps
            receivers, gradients = self._backward_of(steps, dict(zip(numbers, seeds)), recording)
        finally:
            owner.recording = None
            recording.end()
        try:
            return self._taken(recording, numbers, seeds, receivers, gradients)
        finally:
            recording.memory.end()

    def _taken(
        self, recording: Any, numbers: tuple[int, ...], seeds: list[Any], receivers: Any, gradients: list[Any]
    ) -> tuple[Any, ...]:
        """The gradients; what is made of the record of the backward pass."""
        path, owner = self.path, self.walk.owner
        if self.walk.family is not None:
            return tuple(gradients)
        if self.whole and path.parts is None and not recording.reason and len(recording.events) == len(path.events):
            forward = recording.events[-1].calls
            kept = [own_copy(array) for array in gradients]
            self.walk.shared.make_room(None, None)
            recording.let_go()
            give_back_room()
            keeps = list(range(len(recording.values))) if recording.on_gpu else path.program.keeps
            try:
                program = program_of(recording, self.walk.arena, keeps, seeds, gradients, owner.exact, forward)
            except OutOfMemoryError as error:
                owner.stop_learning(f"its backward has no plan: {error}")
                return tuple(kept)
            alike = [outside.fresh for outside in recording.outside] == [outside.fresh for outside in path.outside]
            if alike and forward == path.forward and program.check(recording, owner.exact):
                if not program.on_gpu:
                    staying = [outside.array for outside in recording.outside if not outside.fresh]
                    program.gradient_pointers = gradient_pointers_of(program, staying)
                path.take(program)
                path.parts, path.receivers = numbers, receivers
            return tuple(kept)
        if self.whole:
            why = recording.reason or "its gradients come to others of its tensors than they did"
            owner.stop_learning(f"its backward has no plan: {why} ({recording.line})")
        return tuple(gradients)

    def _is_apart(self, step: Any) -> bool:
        """Whether a step has a backward pass of its own, or calls a Function that nothing which was given leads to."""
        return step.event.kind == "exit" or (step.event.kind == "function" and step.number not in self.contexts.nodes)

    def release(self) -> None:
        self.attrs, self.bound, self.saved, self.results, self.contexts = FREED, {}, [], {}, Contexts()


def _set_times(nodes: list[Any], before: int, end: int) -> None:
    """Nodes made after `before` count as made shortly before `end`, in the same order."""
    now = next_seq()
    share = 0.5 / (now - before)
    seen = set(nodes)
    for node in nodes:  # grows while it is read
        for edge in node.edges:
            if edge is not None and edge.seq > before and edge not in seen:
                seen.add(edge)
                nodes.append(edge)
    for node in nodes:
        node.seq = end - (now - node.seq) * share


def needed_for(path: Any, numbers: list[int], stop: int) -> tuple[list[Any], list[int]]:
    """The steps before `stop` that these values are computed by, and the tensors from outside that come into them."""
    needed, steps, places = set(numbers), [], set()
    for step in reversed(path.steps[:stop]):
        if step.event.kind in HISTORIES and not needed.isdisjoint(step.results):
            steps.append(step)
            values, outside = operands_of(step.args)
            needed.update(values)
            places.update(outside)
    return steps[::-1], sorted(places)


_MOST_HISTORIES = 64  # of a path: which results somebody has may be others in each call


def _history_of(walk: Any, numbers: list[int]) -> tuple[list[Any], list[int], list[Any]]:
    """`needed_for` the place where the walk is, and those of these steps that `Contexts` looks at; it is found once for the same results."""
    known, stop = walk.path.histories, walk.at.number
    key = stop, *numbers
    history = known.get(key)
    if history is None:
        if len(known) == _MOST_HISTORIES:
            known.clear()
        steps, places = needed_for(walk.path, numbers, stop)
        history = known[key] = steps, places, [step for step in steps if has_contexts(walk, step)]
    return history


class _Ranges:
    """The memory of some arrays."""

    def __init__(self, arrays: list[Any]) -> None:
        rows = sorted([address_range(array) for array in arrays])
        self.lows = [low for low, _ in rows]
        self.highest = [*itertools.accumulate([high for _, high in rows], max)]

    def meet(self, array: Any) -> bool:
        """Whether an array may lie in it."""
        if type(array) is ndarray and array.flags.c_contiguous:
            low = address_of(array)
            high = low + array.nbytes
        else:
            low, high = address_range(array)
        place = bisect.bisect_left(self.lows, high)
        return place > 0 and self.highest[place - 1] > low


def _spoiled(walk: Any, steps: list[Any], contexts: Contexts) -> dict[int, str]:
    """The steps that have saved or used what the function itself wrote later, by their numbers, with the names of their ops."""
    path = walk.path
    if walk.boundary < 0 and not walk.written and not path.stored:
        return {}
    writes = [(number, tensor.array) for number, tensor, _ in walk.written]
    writes += [  # what comes anew in each step is saved in the plan's memory
        (number, path.program.outside[place])
        for number, tensor, _ in walk.written
        for place, value in walk.bound.items()
        if may_share(value.array, tensor.array)
    ]
    for step in path.steps[: walk.at.number]:
        if step.event.kind == "step":
            since = walk.write_times[step.number]
            writes += [(step.number, array) for array in written_by(step.event.subject, since)]
        elif step.event.kind == "store":
            writes.append((step.number, path.outside[step.args[0][1]].array))
    spoiled = {}
    written = _Ranges([array for _, array in writes])
    for step in steps:
        call = path.program.calls[step.event.calls - 1] if step.event.kind == "op" else None
        used = contexts.saved(step) if step.event.kind == "function" else []
        if call is not None and call.node is not None:
            used = saved_of(call.node)
        used = [*used, *[walk._outside_now(path, place).array for place in operands_of(step.args)[1]]]
        used = [array for array in used if written.meet(array)]
        if used and any(
            [may_share(array, other) for number, other in writes if number > step.number for array in used]
        ):
            spoiled[step.number] = told(step) if call is None else call.name
    return spoiled
