"""The Python forms of calls: the same functions that eager mode calls, on the plan's memory."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy

from dynograd import arrays
from dynograd.arrays import SCALARS, as_result, ndarray
from dynograd.autograd.modes import MODES
from dynograd.autograd.nodes import OutputNode, Partial, asked
from dynograd.interpreter.dispatch import in_place
from dynograd.ops.op import Op
from dynograd.ops.readers import Entry
from dynograd.ops.reduce.deferred_sums import DeferredSum
from dynograd.plans.memory import write
from dynograd.tensor.tensor import Tensor

__all__ = [
    "CopyForm",
    "DeferredForm",
    "Forward",
    "RuleForm",
    "SumForm",
    "call_in_place",
    "call_with",
    "flat",
    "results_of",
    "writes_in_place",
]


def call_with(function: Any, op: Op, args: Any) -> Any:
    """A call with all parameters of the op in order."""
    count = _by_position(op)
    if count == len(args):
        return function(*args)
    return function(*args[:count], **dict(zip(op.parameter_names[count:], args[count:])))


@functools.cache
def _by_position(op: Op) -> int:
    kinds = [parameter.kind for parameter in op.public_signature.parameters.values()]
    return sum([kind is not inspect.Parameter.KEYWORD_ONLY for kind in kinds])


def writes_in_place(op: Op, args: tuple) -> bool:
    """Whether an op is called with `inplace=True`."""
    return op.has_inplace_argument and bool(args[op.parameter_names.index("inplace")])


def call_in_place(op: Op, args: tuple) -> Tensor:
    """The call with `inplace=True`: that of the method, which calls the op and writes what it gives."""
    named = dict(zip(op.parameter_names, args))
    return in_place(op, named[op.array_names[0]], tuple([named[name] for name in op.static_names]))


def flat(values: Any) -> list[Any]:
    result: list[Any] = []
    for value in values:
        if isinstance(value, (list, tuple)):
            result += flat(value)
        else:
            result.append(value)
    return result


def results_of(result: Any) -> tuple[list[Any] | None, Any]:
    if type(result) is Tensor:
        return [result], None
    if isinstance(result, (tuple, list)) and result and all([type(element) is Tensor for element in result]):
        make = result._make if hasattr(result, "_make") else type(result)  # type: ignore[attr-defined]
        return list(result), make
    return None, None


class Forward:
    """An op's function on tensors of the plan's memory; what its node saves anew goes to the node of the record."""

    def __init__(self, entry: Entry, args: tuple, grad: int, shadow: Any) -> None:
        self.entry, self.grad, self.shadow = entry, grad, shadow
        self.args = [stand_in(value) for value in args]
        self.places: dict[str, Any] = {}  # where what the op saves lies; rules may drop it from the node
        self.put: list[tuple[Any, Any]] | None = (
            None  # (array that the op has saved, where it was put): noted if it is a list
        )

    def relocated(self, at: Callable[[Any], Any]) -> None:
        for tensor in flat(self.args):
            if isinstance(tensor, Tensor):
                tensor.array = at(tensor.array)

    def set_key(self, key: Any) -> None:
        """The place in the random stream for this step."""
        op = self.entry.op
        self.args[op.parameter_names.index(op.row["by_row"])] = key
        shadow = self.shadow
        if shadow is not None:
            place = op.static_names.index(op.row["by_row"])
            shadow.attrs = (*shadow.attrs[:place], key, *shadow.attrs[place + 1 :])

    def __call__(self) -> list[Any]:
        MODES.grad = self.grad
        result = call_with(self.entry.apart(), self.entry.op, self.args)
        results, _ = results_of(result)
        assert results is not None
        if self.shadow is not None:
            node = next(tensor.node for tensor in results if tensor.node is not None)
            if type(node) is OutputNode:
                node = node.edges[0]
            self.take_saved(node)
        return [tensor.array for tensor in results]

    def take_saved(self, node: Any) -> None:
        """What the op has saved goes to the memory that the record's node has it in."""
        for name in node.saved_names:
            place = self.places.setdefault(name, getattr(self.shadow, name))
            saved = getattr(node, name)
            setattr(self.shadow, name, taken(saved, place))
            if self.put is not None:
                self.put += zip(flat([saved]), flat([getattr(self.shadow, name)]))


def taken(new: Any, kept: Any) -> Any:
    """What a node saves from now on: arrays in the memory of `kept`, all else as it is now.

    Raises:
        LookupError: an op has not saved what it saved when it was recorded: another call may read that there.
    """
    if new is kept:
        return kept
    if type(new) in (list, tuple):
        if type(kept) is not type(new) or len(new) != len(kept):
            return new
        return type(new)([taken(first, second) for first, second in zip(new, kept)])
    if type(kept) is not ndarray:
        return new
    if type(new) is not ndarray or new.shape != kept.shape or new.dtype != kept.dtype:
        raise LookupError("an op of a plan saves other things than when it was recorded")
    if not new.ndim and not kept.flags.writeable:  # a number beside the tensors
        return new
    if not numpy.may_share_memory(new, kept):
        write(kept, new)
    return kept


def stand_in(value: Any) -> Any:
    """A tensor of the same memory that takes no part in the program's graph."""
    if isinstance(value, Tensor):
        result = Tensor.wrap(value.array)
        result._requires_grad = bool(value._requires_grad)
        return result
    if type(value) in (list, tuple):
        return type(value)([stand_in(element) for element in value])
    return value


class RuleForm:
    """A backward rule, on the node of the record. It gives what it gave then, whatever the pass asks for that it runs in."""

    def __init__(self, shadow: Any, g: Any) -> None:
        self.shadow, self.g = shadow, g
        self.edges = None if asked.edges is None else asked.edges.intersection(shadow.edges)

    def relocated(self, at: Callable[[Any], Any]) -> None:
        g = self.g
        self.g = Partial({number: at(part) for number, part in g.parts.items()}) if type(g) is Partial else at(g)

    def __call__(self) -> Any:
        g = self.g
        outer, asked.edges = asked.edges, self.edges
        try:
            parts = self.shadow.apply(Partial(dict(g.parts)) if type(g) is Partial else g)
        finally:
            asked.edges = outer
        return [
            as_result(part) if isinstance(part, SCALARS) else part if type(part) is ndarray else None for part in parts
        ]


class SumForm:
    def __init__(self, total: Any, part: Any) -> None:
        self.total, self.part = total, part

    def relocated(self, at: Callable[[Any], Any]) -> None:
        self.total, self.part = at(self.total), at(self.part)

    def __call__(self) -> list[Any]:
        return [numpy.asarray(self.total + self.part)]


class CopyForm:
    def __init__(self, source: Any) -> None:
        self.source = source

    def relocated(self, at: Callable[[Any], Any]) -> None:
        self.source = at(self.source)

    def __call__(self) -> list[Any]:
        return [self.source]


class DeferredForm:
    def __init__(self, key: Any, make: Any, parts: list[Any]) -> None:
        self.key, self.make, self.parts = key, make, parts

    def relocated(self, at: Callable[[Any], Any]) -> None:
        self.parts = [(at(rows), at(others)) for rows, others in self.parts]

    def __call__(self) -> list[Any]:
        first, *others = self.parts
        total = DeferredSum(self.key, self.make, *first)
        total.parts += others
        return [arrays.as_result(total.dense())]
