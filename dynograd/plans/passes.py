"""One backward pass of a step that is recorded: what the engine tells of it."""

from __future__ import annotations

from typing import Any

from dynograd import arrays
from dynograd.arrays import SCALARS, Array, address_of, as_result, ndarray
from dynograd.autograd import engine
from dynograd.autograd.nodes import FREED, OutputNode, Partial, caller
from dynograd.autograd.packing import map_saved
from dynograd.interpreter.history import AliasBackward
from dynograd.interpreter.tensor_parts import Meta
from dynograd.kernels.build.launches import noting
from dynograd.nn.backward_hooks import BackwardHookFunction
from dynograd.ops.reduce.deferred_sums import DeferredSum
from dynograd.plans.calls import Call, is_unchanged, result_of
from dynograd.plans.gpu.array_kinds import PLAIN, is_writeable, may_share
from dynograd.plans.python_forms import CopyForm, DeferredForm, RuleForm, SumForm
from dynograd.tensor.tensor import Tensor

__all__ = ["HOOKED", "Event", "Pass", "has_hooks", "hooked", "is_constant", "is_plain", "saved_of", "unrecorded"]


_BESIDE_HOOKS = "hooks of leaves beside an autograd.Function with a backward of its own"
HOOKED = 2  # in the place of whether a leaf had a gradient: it has hooks, which decide what becomes of the new one


class Event:
    """What the program did next: an op with its operands, a backward pass, or the step of an optimizer.

    Operands are described: ("value", number), ("outside", number), ("same", object) or ("list", descriptions).
    """

    __slots__ = ("args", "by_rule", "calls", "entry", "grad", "kind", "line", "results", "shape", "subject")

    def __init__(self, kind: str, entry: Any, args: tuple, grad: int, line: Any) -> None:
        self.kind, self.entry, self.args, self.grad, self.line = kind, entry, args, grad, line
        self.results: list[int] = []  # numbers of the values
        self.shape: Any = (
            None  # how the results lie in what the op gives: None for one tensor, else a function of a list of them
        )
        self.calls = 0  # so many calls were noted when it was over
        self.by_rule = False  # whether a backward rule called the op, not the program
        self.subject: Any = (
            None  # of a backward pass (leaf, number of its gradient, whether it had one); of a step the optimizer
        )


class Pass:
    """One backward pass: what the engine tells of it."""

    def __init__(self, recording: Any) -> None:
        self.recording = recording
        self.leaves: list[Any] = []
        self.parts: list[tuple[int, Tensor]] = []  # what has gone straight into the gradients of leaves
        self.nodes: list[Any] = []  # those that it has gone through
        self.begun, recording.begun = (
            recording.begun,
            None,
        )  # the request, described, if the program made it in this step
        self.first_enter: Event | None = None  # of a pass through `autograd.Function`s

    def rule(self, node: Any, g: Any, create_graph: bool) -> tuple[Any, ...]:
        """Gradients of a node's inputs."""
        if id(node) in self.recording.functions and not self.recording.reason:
            return self.recording.backward_of(self, node, g)
        shadow = self.recording.shadows.get(id(node))
        saved = [] if shadow is None else saved_of(shadow)
        before = [(array, result_of(array)) for array in saved if type(array) is ndarray]
        with noting() as launches:
            gradients = tuple([as_result(part) if isinstance(part, SCALARS) else part for part in node.apply(g)])
        recording = self.recording
        self.nodes.append(node)
        if recording.reason or type(node) in (OutputNode, AliasBackward):
            return gradients
        if shadow is None:
            recording.refuse(unrecorded(node))
            return gradients
        if node.hooks is not None:
            recording.refuse(hooked(node))
        for part in gradients:
            if type(part) is DeferredSum:
                part.notes = self
            elif part is not None and type(part) not in PLAIN:
                recording.refuse(f"the gradient of {node.op_name()} is a {type(part).__name__}")
        incoming = tuple(g.parts.values()) if type(g) is Partial else (g,)
        for part in incoming:
            if type(part) not in PLAIN:
                recording.refuse(f"the gradient that comes to {node.op_name()} is a {type(part).__name__}")
        if recording.reason:
            return gradients
        recording.note(
            Call(
                "rule",
                node.op_name(),
                node.op,
                (*incoming, *saved),
                tuple([part if type(part) in PLAIN else None for part in gradients]),
                shadow.attrs if type(shadow.attrs) is tuple else (),
                RuleForm(shadow, g),
                list(launches),
                shadow,
                recording.lines.get(id(node), ""),
                any([not is_unchanged(array, result) for array, result in before])
                or self._gives_what_is_saved(gradients, incoming, saved),
            )
        )
        return gradients

    def _gives_what_is_saved(self, gradients: Any, incoming: Any, saved: list[Any]) -> bool:
        """Whether a rule gives memory of what its node has saved: right for what comes to it now, which may be another number in other steps."""
        own = [part for part in gradients if type(part) is ndarray and not any([may_share(part, g) for g in incoming])]
        if not any([may_share(part, array) for part in own for array in saved]):
            return False
        if self.begun is None or self.begun[2] != ("same", None):
            return True
        return any([may_share(g, output) for g in incoming for call in self.recording.calls for output in call.made()])

    def add(self, total: Any, part: Any) -> Any:
        """The sum of two gradients of one node or leaf."""
        if type(total) is Partial and type(part) is Partial:
            for number, g in part.parts.items():
                total.parts[number] = self.add(total.parts[number], g) if number in total.parts else g
            return total
        parts = total, part  # while somebody has these, the sum comes into memory of its own
        with noting() as launches:
            result = engine._sum(*parts)
        recording = self.recording
        if recording.reason or type(result) is Partial:
            return result
        if DeferredSum in (type(total), type(part)):  # it has told of what it has computed
            if type(result) not in (*PLAIN, DeferredSum):
                recording.refuse(f"a sum of gradients, {type(total).__name__} and {type(part).__name__}")
            return result
        if type(total) not in PLAIN or type(total) is not type(part):
            recording.refuse(f"a sum of gradients, {type(total).__name__} and {type(part).__name__}")
            return result
        recording.note(Call("sum", "sum", None, (total, part), (result,), (), SumForm(total, part), list(launches)))
        return result

    def added(self, leaf: Any, part: Any) -> None:
        """A part of a gradient went straight into the one that its leaf has."""
        recording = self.recording
        self._look_at(leaf)
        if not recording.reason:
            self.parts.append((recording._place_of(leaf), Tensor.wrap(part)))
            recording.summed[id(leaf._grad)] = leaf._grad

    def _number_parts(self) -> None:
        """Values are numbered in the order of events: what has gone straight into gradients belongs to the one at the end of the pass."""
        self.leaves += [(place, self.recording._new_value(part), True) for place, part in self.parts]
        self.parts = []

    def _look_at(self, leaf: Any) -> None:
        recording = self.recording
        if not recording.reason:
            if id(leaf) in recording.numbers:
                recording.refuse("a leaf that the step has made gets a gradient")
            elif not isinstance(leaf, Tensor) or not (has_hooks(leaf) or is_plain(leaf)):
                recording.refuse("a leaf that is a view")
            elif leaf._grad is not None and not has_hooks(leaf) and not _takes(leaf._grad, leaf):
                recording.refuse("gradients are added to one of another kind")

    def _with_hooks(self, leaf: Any, g: Any) -> None:
        """A leaf gets its gradient, and so do its hooks: code of the program, which may write into all that it can reach."""
        recording = self.recording
        if recording.on_gpu:
            recording.refuse("a hook of a leaf on a GPU")
            leaf.accumulate_grad(g)
            return
        others = [recording.values[number].array for _, number, had in self.leaves if had is False]
        before = [array.copy(order="K") for array in others]
        number = None if recording.reason else recording._new_value(Tensor.wrap(g.copy(order="K")))
        if number is not None:
            place = recording._place_of(leaf)
            recording.note(Call("copy", "copy", None, (g,), (recording.values[number].array,), (), CopyForm(g)))
            self.leaves.append((place, number, HOOKED))
        leaf.accumulate_grad(g)
        recording.current.clear()
        if any([array.tobytes() != copied.tobytes() for array, copied in zip(others, before)]):
            recording.refuse("a hook writes into the gradient of another leaf")

    def accumulate(self, leaf: Any, g: Any) -> None:
        """A leaf gets its gradient."""
        recording = self.recording
        self._number_parts()
        self._look_at(leaf)
        if type(g) is DeferredSum:
            g = g.dense()
        if not recording.reason and has_hooks(leaf):
            self._with_hooks(leaf, g)
            return
        if leaf._grad is not None:
            leaf.accumulate_grad(g)
            if not recording.reason:
                self.leaves.append((recording._place_of(leaf), recording._new_value(Tensor.wrap(g)), True))
                recording.summed[id(leaf._grad)] = leaf._grad
            return
        leaf.accumulate_grad(g)
        grad = leaf._grad
        if recording.reason or grad is None:
            return
        number = recording._new_value(grad)
        if grad.array is not g:
            is_seen = id(g) in recording.by_array or any([outside.array is g for outside in recording.outside])
            address = address_of(g)
            is_its_own = arrays.owns_memory(g) and address not in recording.own_gradients and not is_seen
            if is_its_own and g.strides == grad.array.strides:
                recording.own_gradients[address] = (
                    number,
                    recording.memory.outline(g),
                )  # the plan's leaf has it without a copy
            else:
                recording.note(Call("copy", "copy", None, (g,), (grad.array,), (), CopyForm(g)))
        self.leaves.append((recording._place_of(leaf), number, False))

    def settled(self, deferred: DeferredSum) -> Array:
        """A deferred sum with the parts that wait."""
        recording, parts = self.recording, list(deferred.parts)
        with noting() as launches:
            result = deferred.of_parts()
        if not recording.reason:
            operands = tuple([array for pair in parts for array in pair])
            compute = DeferredForm(deferred.key, deferred.make, parts)
            recording.note(Call("deferred", "deferred", None, operands, (result,), (), compute, list(launches)))
        return result if deferred.total is None else self.add(deferred.total, result)

    def gives_at_once(self, leaf: Any, nodes: list[Any]) -> bool:
        """Whether a leaf gets its gradient as soon as that is complete: backwards of Functions come before or behind its hooks."""
        recording = self.recording
        if not recording.reason and has_hooks(leaf) and any([id(node) in recording.functions for node in nodes]):
            recording.refuse(_BESIDE_HOOKS)
        return bool(recording.reason)

    def end(self, roots: list[tuple[Any, Any]], retain: bool) -> None:
        recording = self.recording
        self._number_parts()
        seeds = ("same", None) if self.begun is None else self.begun[2]
        if recording.reason:
            return
        if (recording.in_backward or self.first_enter) and any([had is HOOKED for _, _, had in self.leaves]):
            recording.refuse(_BESIDE_HOOKS)
        elif recording.in_backward and any([had for _, _, had in self.leaves]):
            recording.refuse("the backward of an autograd.Function adds to gradients")
        numbers = [recording.node_of(root) for root, _ in roots]
        if None in numbers:
            recording.refuse("a backward pass from a tensor that the step did not make")
            return
        described = "list", (tuple, tuple([("value", number) for number in numbers]))
        event = Event("backward", None, (described, ("same", bool(retain)), seeds), 0, caller(2))
        event.subject, event.results = self.leaves, [number for _, number, _ in self.leaves]
        self.note_used()
        self.note_end()
        recording._over(event)

    def note_end(self) -> None:
        """The event that is to come ends the pass: what it gives to whom is known where a walk comes to its first Function."""
        if self.first_enter is not None:
            leaves = tuple([(place, had) for place, _, had in self.leaves])
            self.first_enter.subject = *self.first_enter.subject[:2], (leaves, len(self.recording.events))

    def note_used(self) -> None:
        """The event that is to come has used up what nodes had saved."""
        recording = self.recording
        for node in self.nodes:
            if node.attrs is FREED:
                recording.used.setdefault(id(node), len(recording.events))
        recording.visited += self.nodes
        recording.note_visits(self.nodes)


def unrecorded(node: Any) -> str:
    """Why no step is recorded that has a node which no recorded op has made."""
    if node.op is not None:
        return f"{node.op_name()} was not recorded"
    if getattr(node, "function", None) is BackwardHookFunction:
        return "a full backward hook of a module"
    return f"{node.op_name()}, an autograd.Function with a backward of its own"


def hooked(node: Any) -> str:
    """Why no step is recorded that has a node with hooks."""
    if node.hooks.before or node.hooks.prehooks or node.hooks.after:
        return f"a hook on a gradient of {node.op_name()}"
    return f"a hook on a gradient of {node.op_name()}, or retain_grad() of its result"


def has_hooks(leaf: Any) -> bool:
    """Whether code of the program runs when it gets a gradient."""
    meta = leaf._meta
    return type(meta) is Meta and meta.view is None and _hooks_in(meta)


def is_plain(leaf: Any) -> bool:
    """Whether it is no view, and has no hooks."""
    meta = leaf._meta
    return meta is None or (type(meta) is Meta and meta.view is None and not _hooks_in(meta))


def _hooks_in(meta: Meta) -> bool:
    hooks = meta.hooks
    return bool((hooks is not None and (hooks.before or hooks.prehooks or hooks.after)) or meta.after_accumulate)


def _takes(grad: Any, leaf: Any) -> bool:
    """Whether a gradient can be added to this one in place."""
    return type(grad) is Tensor and not grad._requires_grad and grad.shape == leaf.shape and grad.dtype is leaf.dtype


def is_constant(array: Any) -> bool:
    """Whether it is a number beside the tensors, which nobody writes."""
    return not array.ndim and not is_writeable(array)


def saved_of(node: Any) -> list[Any]:
    """The arrays that it has saved."""
    saved: list[Any] = []

    def note(value: Any) -> Any:
        if type(value) in PLAIN:
            saved.append(value)
        return value

    for name in node.saved_names:
        map_saved(getattr(node, name), note)
    return saved
