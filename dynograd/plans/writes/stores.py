"""Stores: what a compiled step on a GPU writes whole into tensors from outside that stay: running statistics, counters, averages.

`target.copy_(value)` and `target.add_(1)` are an event "store" behind the op that computes the value, and a call of the program, so that a graph
need not end there. Until it is computed the target is an `Awaited` tensor: whoever asks for its memory has the step computed up to there. What it
held before is kept until the step is over, for a program that leaves the record.
"""

from __future__ import annotations

from threading import get_ident
from typing import Any

from dynograd import arrays
from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.autograd.modes import MODES
from dynograd.autograd.nodes import caller, line_text
from dynograd.autograd.writes import stamp
from dynograd.base import dtypes
from dynograd.base.shapes import Size
from dynograd.plans.calls import Call
from dynograd.plans.gpu.array_kinds import may_share, own_copy
from dynograd.plans.handed import turn_into
from dynograd.plans.passes import Event
from dynograd.tensor.tensor import Tensor

__all__ = ["RecordedStores", "StoreForm", "WalkedStores", "restored"]

_ARRAY, _NODE = Tensor.__dict__["array"], Tensor.__dict__["node"]


class StoreForm:
    """`target` becomes `source`."""

    def __init__(self, source: Any, target: Any) -> None:
        self.source, self.target = source, target

    def __call__(self) -> list[Any]:
        old = own_copy(self.target)
        self.target[...] = self.source
        return [old, self.target]


def _is_plain(target: Any) -> bool:
    """Whether a tensor is one that can be awaited: without history, views or hooks, and with memory in one piece."""
    return (
        type(target) is Tensor
        and target._meta is None
        and not target._requires_grad
        and target.node is None
        and type(target.array) is CudaArray
        and target.array.size > 0
        and bool(target.array.is_contiguous)
    )


class RecordedStores:
    """The part of a recording that notes them."""

    calls: list[Call]
    inside: int
    numbers: dict[int, int]
    on_gpu: bool
    outside: list[Any]
    reason: str
    values: list[Any]

    def may_store(self: Any, target: Any) -> bool:
        """Whether a write into all of `target` may be noted as a store."""
        if not self.on_gpu or self.inside or self.reason or not _is_plain(target) or id(target) in self.numbers:
            return False
        place = self._place_of(target)
        if self.reason or self.outside[place].fresh:
            return False
        others = [outside.array for outside in self.outside if outside.tensor is not target]
        others += [tensor.array for tensor in self.values]
        return not any([type(array) is CudaArray and may_share(array, target.array) for array in others])

    def store(self: Any, target: Any, value: Any) -> bool:
        """Writes `value` into `target`, and notes it; False: nothing is done."""
        number = self.numbers.get(id(value))
        if number is None or value._requires_grad or not self.may_store(target):
            return False
        source, array = value.array, target.array
        if source.shape != array.shape or source.dtype != array.dtype:
            return False
        form, event = StoreForm(source, array), Event("store", None, (), MODES.grad, caller(3))
        event.args = ("outside", self._place_of(target)), ("value", number)
        outputs = form()
        stamp(array)
        self.calls.append(
            Call("store", "store", None, (source, array), tuple(outputs), (), form, line=line_text(event.line))
        )
        self._over(event)
        return True


class WalkedStores:
    """The part of a walk that follows them."""

    at: Any
    done: int
    awaited: list[tuple[int, Any]]  # (the number of the event, its target)
    path: Any
    running: bool
    written: list[tuple[int, Any, Any]]
    handed: list[Any]

    def may_store(self, target: Any) -> bool:
        """Whether the record has stores into `target`."""
        return self.running and id(target) in self.path.stored

    def store(self: Any, target: Any, value: Any) -> bool:
        """Goes over the store that the record has here; False: nothing is done."""
        if not self.may_store(target):
            return False
        for choice in (self.at, *self.at.others):
            event = choice.event
            if event is None or event.kind != "store" or choice.grad != MODES.grad:
                continue
            (_, place), (_, number) = choice.args
            if choice.path.outside[place].tensor is not target or self.handed[number] is not value:
                continue
            if number in self.read_numbers or not (type(target) is Awaited or _is_plain(target)):
                return False
            if choice is not self.at and not self._go_over(choice):
                continue
            self.at = choice.next
            self.awaited.append((choice.number, target))
            if type(target) is Tensor:
                turn_into(target, Awaited)
                _NODE.__set__(target, self)
            stamp(_ARRAY.__get__(target))
            return True
        return False

    def show_stored(self, computed: bool = True) -> None:
        """Targets of stores that are computed, or all, are plain tensors again."""
        waiting = []
        for number, target in self.awaited:
            if computed and self.path.events[number].calls > self.done:
                waiting.append((number, target))
        still = {id(target) for _, target in waiting}
        for _, target in self.awaited:
            if type(target) is Awaited and id(target) not in still:
                turn_into(target, Tensor)
                _NODE.__set__(target, None)
        self.awaited = waiting

    def note_stored(self: Any) -> None:
        """The walk ends: stores that were computed are writes, before which their targets held something else."""
        self.show_stored(False)
        path, program = self.path, self.path.program
        if not path.stored:
            return
        for step in path.steps[: self.at.number]:
            if step.event.kind == "store" and step.event.calls <= self.done:
                target = path.outside[step.args[0][1]].tensor
                self.written.append((step.number, target, program.before_store(step.event.calls - 1)))
        self.written.sort(key=lambda row: row[0])


class Awaited(Tensor):
    """A tensor from outside into which the walk has gone over a store that is not computed yet."""

    __slots__ = ()

    @property
    def array(self) -> CudaArray:
        return _settled(self).array

    @array.setter
    def array(self, array: Any) -> None:
        _settled(self).array = array

    @property
    def node(self) -> None:
        return None

    @node.setter
    def node(self, node: Any) -> None:
        _settled(self).node = node

    shape = property(lambda self: Size(_ARRAY.__get__(self).shape))
    dtype = property(lambda self: dtypes.BY_NUM[_ARRAY.__get__(self).dtype.num])
    device = property(lambda self: arrays.place_of(_ARRAY.__get__(self)))

    @staticmethod
    def __dynograd_settle__(tensor: Any) -> Tensor:
        return _settled(tensor)

    @staticmethod
    def __dynograd_plain__(tensor: Any) -> Tensor:
        return _settled(tensor)

    @staticmethod
    def __dynograd_op__(op: Any, arguments: dict[str, Any]) -> object:
        _settle_all(arguments.values())
        return op.function(**arguments)

    @staticmethod
    def __dynograd_function__(function: Any, args: tuple, kwargs: dict) -> object:
        _settle_all((*args, *kwargs.values()))
        return function.apply(*args, **kwargs)

    @staticmethod
    def __dynograd_write__(target: Any, value: Any, who: str, write: Any) -> object:
        _settle_all((target, value))
        return write(target, value, who)

    def __copy__(self) -> Tensor:
        return _settled(self).__copy__()

    def __deepcopy__(self, memo: dict) -> Tensor:
        return _settled(self).__deepcopy__(memo)

    def __reduce_ex__(self, protocol: Any) -> tuple:
        return _settled(self).__reduce_ex__(protocol)


Awaited.__name__ = Awaited.__qualname__ = "Tensor"  # as errors name it


def _settled(tensor: Any) -> Tensor:
    """The tensor, after the step has been computed up to its store; in another thread as it is now, apart."""
    if type(tensor) is not Awaited:
        assert isinstance(tensor, Tensor)
        return tensor
    walk = _NODE.__get__(tensor)
    if walk.thread != get_ident():
        return Tensor.wrap(_ARRAY.__get__(tensor))
    walk.catch_up()
    walk.show_stored(False)
    return tensor


def _settle_all(values: Any) -> None:
    for value in values:
        if type(value) is Awaited:
            _settled(value)
        elif isinstance(value, (list, tuple)):
            _settle_all(value)


class restored:
    """Inside, stores are computed; afterwards the targets hold what they held before."""

    def __init__(self, path: Any) -> None:
        self.targets = list(path.stored.values())

    def __enter__(self) -> None:
        self.copies = [own_copy(target.array) for target in self.targets]

    def __exit__(self, *_: object) -> None:
        for target, copied in zip(self.targets, self.copies):
            target.array[...] = copied
