"""Stores: what a compiled step writes whole into tensors from outside that stay: parameters, running statistics, averages.

`target.copy_(value)` and `target.sub_(0.1 * gradient)` are an event "store" behind the op that computes the value. What the target held before is kept
until the step is over, for a program that leaves the record.

On the CPU a walk computes the value and writes it at once; writes of what the step has not computed (`counter += 1`) are none of the record. On a GPU
each is a call of the program, so that a graph need not end there. Until it is computed the target is an `Awaited` tensor: whoever asks for its memory has
the step computed up to there.
"""

from __future__ import annotations

from threading import get_ident
from typing import Any

from dynograd import arrays
from dynograd.arrays import ndarray
from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.autograd.modes import MODES
from dynograd.autograd.nodes import caller, line_text
from dynograd.autograd.writes import stamp
from dynograd.base import dtypes
from dynograd.base.shapes import Size
from dynograd.interpreter import TENSORS
from dynograd.ops.layout.conversions import convert
from dynograd.plans.calls import Call
from dynograd.plans.gpu.array_kinds import may_share, own_copy
from dynograd.plans.handed import Handed, turn_into
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


def _fitting(target: Any, value: Any) -> Any:
    """What is written into a tensor on the CPU, in its dtype if that can take it."""
    if value.dtype is target.dtype or not dtypes.can_cast(value.dtype, target.dtype):
        return value
    return convert(value, target.dtype)


class _AtOnce:
    """What is written at once: the program has it computed, and computes nothing here."""

    def __call__(self) -> list[Any]:
        return []

    def relocated(self, at: Any) -> None:
        pass


def _is_written_at_once(target: Any) -> bool:
    """Whether a write into all of a tensor on the CPU gives nobody a history, and its memory is its own and in one piece."""
    array = target.array
    return (
        type(target) in TENSORS
        and target._meta is None
        and target.node is None
        and not (target._requires_grad and MODES.grad)
        and type(array) is ndarray
        and array.base is None
        and array.size > 0
        and bool(array.flags.c_contiguous)
    )


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
    current: set[int]
    inside: int
    known: dict[int, Any]
    numbers: dict[int, int]
    on_gpu: bool
    outside: list[Any]
    reason: str
    targets: list[Any]  # tensors on the CPU that were to be written: the next record knows them
    values: list[Any]
    writes: list[tuple[int, Any]]
    writes_outside: list[tuple[int, Any]]

    def may_store(self: Any, target: Any, operands: tuple) -> bool:
        """Whether a write into all of `target` of what is computed of the operands may be noted as a store."""
        if self.inside or self.reason or id(target) in self.numbers:
            return False
        if self.on_gpu:
            return _is_plain(target) and self._stays(target)
        if self.differentiating or not any([id(operand) in self.numbers for operand in operands]):
            return False
        if not _is_written_at_once(target):
            return False
        self.targets.append(target)
        return self._stays(target)

    def is_beside(self, target: Any, operands: tuple) -> bool:
        return False

    def _stays(self: Any, target: Any) -> bool:
        """Whether it is the same tensor in each step, whose memory no other has that the record knows."""
        known = self.known.get(id(target))
        if not self.on_gpu and (known is None or known() is not target):
            return False
        place = self._place_of(target)
        if self.reason or self.outside[place].fresh:
            return False
        others = [outside.array for outside in self.outside if outside.tensor is not target]
        others += [tensor.array for tensor in self.values]
        return not any([type(array) is type(target.array) and may_share(array, target.array) for array in others])

    def store(self: Any, target: Any, value: Any, again: bool = False) -> bool:
        """Writes `value` into `target`, and notes it; False: nothing is done.

        Args:
            again: it has been written: `value` is computed of what the target held later.
        """
        if id(value) not in self.numbers or value._requires_grad or not self.may_store(target, (value,)):
            return False
        if not self.on_gpu and value.shape == target.shape:
            value = _fitting(target, value)
        number = self.numbers.get(id(value))
        if number is None:
            return False
        source, array = value.array, target.array
        if source.shape != array.shape or source.dtype != array.dtype:
            return False
        event = Event("store", None, (), MODES.grad, caller(3))
        event.args = ("outside", self._place_of(target)), ("value", number)
        call = Call("store", "store", None, (source,), (), (), _AtOnce(), line=line_text(event.line))
        if self.on_gpu:
            form = StoreForm(source, array)
            before, _ = outputs = form()
            call = Call("store", "store", None, (source, array), tuple(outputs), (), form, line=call.line)
            call.note_results()  # before the target is another number
            if again:
                array[...] = before
        else:
            self.writes.append((len(self.calls), array))
            self.writes_outside.append((len(self.events), array))
            self.current.discard(self._place_of(target))
            if not again:
                array[...] = source
        if not again:
            stamp(array)
        self.note(call)
        self._over(event)
        return True


class WalkedStores:
    """The part of a walk that follows them."""

    at: Any
    done: int
    awaited: list[tuple[int, Any]]  # (the number of the event, its target)
    path: Any
    running: bool
    bound: dict[int, Any]
    written: list[tuple[int, Any, Any]]
    handed: list[Any]
    read_numbers: dict[int, Any]

    def may_store(self, target: Any, operands: tuple) -> bool:
        """Whether the record has stores into `target`."""
        return (
            self.running
            and id(target) in self.path.stored
            and (self.path.program.on_gpu or any([isinstance(operand, Handed) for operand in operands]))
        )

    def store(self: Any, target: Any, value: Any) -> bool:
        """Goes over the store that the record has here; False: nothing is done."""
        if not self.may_store(target, (value,)):
            return False
        if not self.path.program.on_gpu and value.shape == target.shape:
            value = _fitting(target, value)
            if not self.running:
                return MODES.plan is not None and MODES.plan.store(target, value)
        for choice in (self.at, *self.at.others):
            event = choice.event
            if event is None or event.kind != "store" or choice.grad != MODES.grad:
                continue
            (_, place), (_, number) = choice.args
            if choice.path.outside[place].tensor is not target or self.handed[number] is not value:
                continue
            at_once = not self.path.program.on_gpu
            if number in self.read_numbers or not (
                self._may_write_at_once(target, choice, place)
                if at_once
                else (type(target) is Awaited or _is_plain(target))
            ):
                return False
            if choice is not self.at and not self._go_over(choice):
                continue
            self.at = choice.next
            if at_once:
                self.catch_up()
                if self.running:  # else it has been run anew, and this with it
                    self.written.append((choice.number, target, target.array.copy()))
                    self.write_at_once(target, choice)
                return True
            self.awaited.append((choice.number, target))
            if type(target) is Tensor:
                turn_into(target, Awaited)
                _NODE.__set__(target, self)
            stamp(_ARRAY.__get__(target))
            return True
        return False

    def is_beside(self, target: Any, operands: tuple) -> bool:
        """Whether a write has nothing to do with what the step has made, and gives nobody a history."""
        grad, plain = MODES.grad, TENSORS
        for value in (target, *operands):
            if isinstance(value, Tensor) and (type(value) not in plain or (grad and value._requires_grad)):
                return False
        return not any([self.handed[number] is target for number in self.read_numbers])

    def bound_in(self, array: Any) -> list[int]:
        """The tensors from outside, others in each step, that lie in the memory of `array`, by number."""
        apart = type(array) is ndarray and array.base is None
        return [
            number
            for number, value in self.bound.items()
            if not (apart and type(value.array) is ndarray and value.array.base is None and value.array is not array)
            and may_share(value.array, array)
        ]

    def _may_write_at_once(self, target: Any, step: Any, place: int) -> bool:
        """Whether the tensor has the memory that the record knows, and none that the plan has copied it from."""
        return target.array is step.path.outside[place].array and not self.bound_in(target.array)

    def write_at_once(self: Any, target: Any, step: Any) -> None:
        """The target holds the value, which is computed, from now on."""
        self.note_write_at(step.number)
        target.array[...] = self.where(step.args[1][1])
        stamp(target.array, step.event.line)

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
        if not path.stored or not program.on_gpu:
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
