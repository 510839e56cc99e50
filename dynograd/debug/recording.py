"""What the ops of a program did while `provenance()` was on: a `Call` for each, a `Value` for each tensor, a `Passage` for each node of a
backward pass. `explaining.py` and its neighbours read it.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Iterator
from types import FrameType, SimpleNamespace
from typing import Any

import numpy

from dynograd import arrays
from dynograd.autograd.modes import MODES, unwatch, watch
from dynograd.autograd.nodes import Partial, frame_at, frame_outside, line_text, next_seq, place_of
from dynograd.autograd.writes import last_write, written_since
from dynograd.debug.modules import ModuleStack, path_of
from dynograd.ops.op import registry
from dynograd.ops.reduce.deferred_sums import DeferredSum
from dynograd.optim.hooks import register_optimizer_step_post_hook
from dynograd.profiler.ranges import listen, stop_listening
from dynograd.ragged.tensor import RaggedTensor
from dynograd.tensor.tensor import Tensor
from dynograd.transforms.batching.batched import Batched

__all__ = ["Call", "Passage", "Update", "Value", "current", "forget", "provenance", "tensors_in"]


_NOWHERE: tuple[Call | None, FrameType | None] = (None, None)
"""No node runs; else the call that made it, and the frame of the program that runs backward."""


class Value:
    """A tensor as an op gave it, or got it from outside.

    `call` made it, as result `number`; None: it came from outside. `memory` is its array, or None where too much was held; `nonfinite` says
    whether it had NaN or infinities then, None where that is found out when it is asked for. `since` is when one was noted that was
    written into later, and so became this one.
    """

    __slots__ = (
        "call",
        "dtype",
        "memory",
        "is_leaf",
        "nonfinite",
        "number",
        "offsets",
        "readers",
        "requires_grad",
        "shape",
        "since",
        "tensor",
        "time",
    )

    def __init__(self, tensor: Tensor, call: Call | None, number: int) -> None:
        self.call, self.number, self.time = call, number, next_seq()
        self.shape, self.dtype = tensor.shape, tensor.dtype
        self.requires_grad, self.is_leaf = tensor.requires_grad, tensor.is_leaf
        self.tensor = weakref.ref(tensor)
        self.readers: list[Call] = []
        self.memory: Any = None
        self.nonfinite: bool | None = None
        self.since: int | None = None
        self.offsets: Any = None
        """Of a ragged tensor with one ragged dim, behind the first: where each row begins."""
        if isinstance(tensor, RaggedTensor) and tensor.place == 1 and not isinstance(tensor.packed, RaggedTensor):
            self.offsets = numpy.asarray(arrays.to_numpy(array_of(tensor.offsets())))

    @property
    def line(self) -> str | None:
        return None if self.call is None else self.call.line

    def numbers(self) -> numpy.ndarray | None:
        """The elements as they are now, of a ragged tensor row behind row; None where they are no longer held."""
        array = self.memory
        if array is None:
            tensor = self.tensor()
            array = None if tensor is None else array_of(tensor)
        elif isinstance(array, Tensor):
            array = array_of(array)
        return None if array is None else numpy.asarray(arrays.to_numpy(array))

    def is_finite(self) -> bool:
        """Whether all elements were numbers when it was made."""
        if self.nonfinite is None:
            numbers = self.numbers()
            self.nonfinite = numbers is not None and not arrays.is_finite(numbers)
        return not self.nonfinite


class Call:
    """A call of an op: `operands` are (name, `Value`) pairs, `arguments` the rest as texts, `module` the modules it ran in, outermost first.

    `recording` says whether gradients were recorded; `inside` names the op within it that first gave NaN or an infinity.
    """

    __slots__ = ("arguments", "inside", "module", "op", "operands", "place", "recording", "results")

    def __init__(self, op: str, place: Any, module: tuple[Any, ...], recording: bool) -> None:
        self.op, self.place, self.module, self.recording = op, place, module, recording
        self.operands: list[tuple[str, Value]] = []
        self.arguments: list[str] = []
        self.results: list[Value] = []
        self.inside: str | None = None

    @property
    def line(self) -> str:
        return line_text(self.place)

    @property
    def path(self) -> str:
        """`Model.encoder.0` for an op of that module; "" outside of modules."""
        return ".".join([part for part in path_of(self.module) if part])


class Passage:
    """A node that ran in a backward pass: the gradient that came, and those that it gave, by edge; None where too much was held."""

    __slots__ = ("call", "grad", "name", "node", "outer", "passed_on", "time")

    def __init__(self, node: Any, call: Call | None) -> None:
        self.node, self.call, self.name, self.time = node, call, node.name(), next_seq()
        self.outer = _NOWHERE  # the node that this one ran within, of a pass within a pass, and where
        self.grad: Any = None
        self.passed_on: list[Any] = []

    @property
    def line(self) -> str | None:
        return None if self.call is None else self.call.line

    def came(self) -> numpy.ndarray | None:
        """The gradient that came; None where it is one of several parts, or no longer held."""
        return _numbers(self.grad)

    def gave(self) -> list[numpy.ndarray | None]:
        """Those that it gave, by edge."""
        return [_numbers(part) for part in self.passed_on]


class Update:
    """A step of an optimizer: when, where, of which class, at which learning rates."""

    __slots__ = ("kind", "optimizer", "place", "rates", "time")

    def __init__(self, optimizer: Any, place: Any) -> None:
        self.optimizer, self.kind = weakref.ref(optimizer), type(optimizer).__name__
        self.rates = [group["lr"] for group in optimizer.param_groups if "lr" in group]
        self.place, self.time = place, next_seq()

    @property
    def line(self) -> str:
        return line_text(self.place)

    def parameters(self) -> list[Tensor]:
        """Those that the optimizer has now."""
        optimizer = self.optimizer()
        groups = [] if optimizer is None else optimizer.param_groups
        return [parameter for group in groups for parameter in group["params"]]


class _Later:
    """A gradient of few rows, as what it is the product of."""

    __slots__ = ("make", "nbytes", "parts")

    def __init__(self, gradient: DeferredSum) -> None:
        self.make, self.parts = gradient.make, list(gradient.parts)
        self.nbytes = sum(getattr(rows, "nbytes", 0) for rows, _ in self.parts)


def _numbers(part: Any) -> numpy.ndarray | None:
    if type(part) is _Later:
        part = sum([part.make(rows, others) for rows, others in part.parts])
    return None if part is None else numpy.asarray(arrays.to_numpy(part))


class provenance:
    """Notes of each op on this thread which tensors went in, what came out, on which line and in which module, and the gradients of backward.

    `explain` then tells where a value comes from. A step takes 1.2 to 2 times as long meanwhile; compiled steps and scopes of `autobatch` run
    op by op.

    Args:
        most: so many calls are kept, the latest ones.
        hold: bytes of results that are kept, so that their values can be shown, the latest ones.

    >>> with dynograd.debug.provenance():
    ...     x = tensor([1.0, 0.0])
    ...     y = (x.log() * x).sum()
    >>> dynograd.explain(y).op
    'log'
    """

    def __init__(self, *, most: int = 100_000, hold: int = 1 << 28) -> None:
        if most < 1 or hold < 0:
            raise ValueError(f"provenance: expected most >= 1 and hold >= 0, got most={most}, hold={hold}.")
        self.most, self.hold = most, hold
        self._known: dict[int, Value] = {}  # by the id of the tensor, which another one may get: `value_of` asks
        self.calls: deque[Call] = deque()
        self.passages: deque[Passage] = deque()
        self.updates: deque[Update] = deque(maxlen=most)
        self.calls_of_nodes: weakref.WeakKeyDictionary[Any, Call] = weakref.WeakKeyDictionary()
        self._holders: deque[tuple[Any, int]] = deque()
        self._held = 0
        self._thread = 0
        self._open: list[Call] = []
        self._modules = ModuleStack()
        self._node = _NOWHERE
        self._watcher, self._listener = self._note_node, SimpleNamespace(begin=self._begin, end=self._end)

    # --- on and off -----------------------------------------------------------------------------------------------------------

    def __enter__(self) -> provenance:
        if self._thread:
            raise RuntimeError("provenance: this object is on already. Make another one for a scope within it.")
        self._thread = threading.get_ident()
        listen(self._listener)
        watch(self._watcher)
        self._modules.turn_on()
        self._steps = register_optimizer_step_post_hook(self._note_update)
        _open.append(self)
        return self

    def __exit__(self, *error: Any) -> None:
        _open.remove(self)
        _latest[:] = [self]
        self._modules.turn_off()
        self._steps.remove()
        unwatch(self._watcher)
        stop_listening(self._listener)
        self._thread = 0
        self._open.clear()

    # --- ops ------------------------------------------------------------------------------------------------------------------

    def _begin(self, kind: str, name: str, args: tuple) -> Call | Passage | str | None:
        if threading.get_ident() != self._thread:
            return None
        if kind == "backward":
            return self._begin_node(*args)
        if kind != "op" or MODES.running is not None or (MODES.task is not None and not MODES.grad):
            return None  # what the groups of a scope and backward rules compute with are no ops of the program
        if self._open:
            return name
        call = Call(name, self._place(), tuple(self._modules.open), bool(MODES.grad))
        call.operands, call.arguments = self._read(name, args)
        self._open.append(call)
        return call

    def _end(self, mark: Any, result: Any) -> None:
        if isinstance(mark, Passage):
            self._end_node(mark, result)
        elif isinstance(mark, str):
            self._end_inner(mark, result)
        elif mark is not None:
            self._open.clear()
            if result is not None:
                self._keep(mark, result)

    def _place(self) -> tuple[Any, int] | None:
        """The user's line; of ops within a backward rule that of the forward op."""
        frame = frame_outside(frame_at(2))
        call, caller = self._node
        if call is not None and (frame is None or frame is caller):
            return call.place
        return None if frame is None else (frame.f_code, frame.f_lasti)

    def _read(self, op: str, args: tuple) -> tuple[list[tuple[str, Value]], list[str]]:
        row = registry.get(op)
        names = () if row is None else row.parameter_names
        operands: list[tuple[str, Value]] = []
        arguments = []
        for position, argument in enumerate(args):
            name = names[position] if position < len(names) else ""
            if isinstance(argument, Tensor):
                operands.append((name, self._value_of(argument)))
            elif isinstance(argument, (list, tuple)) and any([isinstance(entry, Tensor) for entry in argument]):
                operands += [
                    (f"{name}[{number}]", self._value_of(entry))
                    for number, entry in enumerate(argument)
                    if isinstance(entry, Tensor)
                ]
            elif type(argument) in (bool, int, float, str, tuple, list) and not name.startswith("_"):
                arguments.append(f"{name}={argument!r}" if name else repr(argument))
        return operands, arguments

    def _value_of(self, tensor: Tensor) -> Value:
        value = self._known.get(id(tensor))
        if value is None or value.tensor() is not tensor:
            value = self._known[id(tensor)] = Value(tensor, None, 0)
            self._look_at(value, tensor)
        elif value.call is None and last_write[0] > value.time and _is_written(tensor, value.time):
            later = self._known[id(tensor)] = Value(tensor, None, 0)
            later.since, later.readers = value.time, value.readers
            self._look_at(later, tensor)
            return later
        return value

    @property
    def roots(self) -> weakref.WeakSet[Any]:
        """Modules that were called by the program itself."""
        return self._modules.roots

    def value_of(self, tensor: Tensor) -> Value | None:
        """What was noted of a tensor.

        Args:
            tensor: any.
        Returns:
            A `Value`; None for a tensor that no op was seen to make or read.
        """
        value = self._known.get(id(tensor))
        return value if value is not None and value.tensor() is tensor else None

    def _look_at(self, value: Value, tensor: Tensor) -> None:
        """Holds the memory, as far as there is room, and looks whether all elements are numbers."""
        if MODES.recorder is not None or tensor.device.type == "meta":
            value.memory = tensor if tensor.device.type != "meta" else None  # of a scope: nobody has computed it yet
            return
        array = array_of(tensor)
        value.nonfinite = not arrays.is_finite(array)
        value.memory = array
        self._hold(value, array.nbytes)

    def _hold(self, holder: Any, nbytes: int) -> None:
        self._holders.append((holder, nbytes))
        self._held += nbytes
        while self._held > self.hold and self._holders:
            oldest, size = self._holders.popleft()
            self._held -= size
            if isinstance(oldest, Passage):
                oldest.grad, oldest.passed_on = None, [None] * len(oldest.passed_on)
            else:
                oldest.memory = None

    def _keep(self, call: Call, result: Any) -> None:
        for _, operand in call.operands:
            operand.readers.append(call)
        for number, tensor in enumerate(tensors_in((result,))):
            value = Value(tensor, call, number)
            self._look_at(value, tensor)
            call.results.append(value)
            self._known[id(tensor)] = value
            while isinstance(tensor, Batched):  # what `vmap` gives back in the end
                tensor = tensor.inner
                self._known[id(tensor)] = whole = Value(tensor, call, number)
                self._look_at(whole, tensor)
        self.calls.append(call)
        if len(self.calls) > self.most:
            oldest = self.calls.popleft()
            for _, operand in oldest.operands:
                operand.readers.remove(oldest)
            oldest.operands = []
            if len(self._known) > 2 * self.most:
                self._known = {key: value for key, value in self._known.items() if value.tensor() is not None}

    def _end_inner(self, op: str, result: Any) -> None:
        """An op that another one is made of: the innermost that first gives something that is no number is remembered."""
        call = self._open[0] if self._open else None
        if call is None or call.inside is not None or result is None or MODES.recorder is not None:
            return
        for tensor in tensors_in((result,)):
            if tensor.device.type != "meta" and not arrays.is_finite(array_of(tensor)):
                call.inside = op

    # --- backward, and steps of optimizers --------------------------------------------------------------------------------------

    def _note_update(self, optimizer: Any, *_: Any) -> None:
        if threading.get_ident() == self._thread:
            self.updates.append(Update(optimizer, place_of(frame_at(2))))

    def _note_node(self, node: Any) -> None:
        if self._open:
            self.calls_of_nodes[node] = self._open[0]
            return
        place, (call, _) = self._place(), self._node
        if call is None or place != call.place:  # a Function of the user's, or a write into a view
            call = Call(node.name(), place, tuple(self._modules.open), True)
        self.calls_of_nodes[node] = call

    def _begin_node(self, node: Any, grad: Any) -> Passage:
        call = self.calls_of_nodes.get(node)
        if call is None:
            call = next((self.calls_of_nodes[edge] for edge in node.edges if edge in self.calls_of_nodes), None)
        passage = Passage(node, call)
        passage.grad = _kept(grad)
        passage.outer, self._node = self._node, (call, frame_outside(frame_at(2)))
        return passage

    def _end_node(self, passage: Passage, results: Any) -> None:
        self._node, passage.outer = passage.outer, _NOWHERE
        if results is None:  # the rule has raised an error
            return
        passage.passed_on = [_kept(part) for part in results]
        self.passages.append(passage)
        if len(self.passages) > self.most:
            self.passages.popleft()
        self._hold(passage, sum([part.nbytes for part in (passage.grad, *passage.passed_on) if part is not None]))


_open: list[provenance] = []  # those that are on, of all threads
_latest: list[provenance] = []  # the last one that was left


def current() -> provenance | None:
    """The innermost scope that is on on this thread, else the last one that was left."""
    mine = [scope for scope in _open if scope._thread == threading.get_ident()]
    return mine[-1] if mine else (_latest[0] if _latest else None)


def forget() -> None:
    """Lets go of what the last `provenance()` has noted; the next one does so, too.

    >>> dynograd.debug.forget()
    """
    _latest.clear()


def _is_written(tensor: Tensor, since: int) -> bool:
    """Whether a plain tensor, whose memory is there, was written into."""
    plain = MODES.recorder is None and tensor.device.type != "meta"
    return plain and written_since(array_of(tensor), since) is not None


def array_of(tensor: Tensor) -> arrays.Array:
    """The array of a tensor; of a ragged one that of its elements, of one within `vmap` that of all examples."""
    while isinstance(tensor, RaggedTensor):
        tensor = tensor.packed
    return arrays.all_values(tensor.array)


def tensors_in(values: Any) -> Iterator[Tensor]:
    """The tensors in nested lists and tuples."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(value)


def _kept(part: Any) -> arrays.Array | _Later | None:
    """A gradient as it is held: an array, or what one is made of; None where there is none, or one of several parts."""
    if part is None or isinstance(part, Partial):
        return None
    if type(part) is DeferredSum:
        return _Later(part) if part.total is None else arrays.copy(part.total)
    part = getattr(part, "entries", part)  # of a sparse gradient
    array = part.array if isinstance(part, Tensor) else part
    return array if arrays.is_array(array) else None
