"""A call of a program for several sizes that is made anew for each of them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from dynograd.autograd.nodes import Node
from dynograd.plans.calls import Call
from dynograd.plans.lowering.forms import Check
from dynograd.plans.sized.values import Common

__all__ = ["CheckedCall", "SizedCall"]

_NOT_OURS = ("edges", "hooks", "seq", "__weakref__")  # of a node: its place in the graph


class SizedCall:
    """A call that is made anew for each size, and computed in its Python form or by kernels that are looked for then."""

    def __init__(self, calls: Sequence[Call], number: int, common: Common, is_lowered: bool) -> None:
        self.first, self.number, self.is_lowered = calls[0], number, is_lowered
        first, of = calls[0], common.of
        self.common = common
        self.inputs: Any = of([call.inputs for call in calls], number)
        self.outputs = of([call.outputs for call in calls], number)
        self.saved = of([call.saved for call in calls], number)
        key = None if first.op is None else first.op.row["by_row"]
        key_place = None if key is None else first.op.static_names.index(key)
        self.statics = of([_without(call.statics, key_place, first.statics) for call in calls], number)
        self.node: dict[str, Any] = {}
        nodes = [call.node for call in calls]
        if first.node is not None:
            for name in _names_of(type(first.node)):
                saved: list[Any] = [getattr(node, name, None) for node in nodes]
                if name == "attrs" and key_place is not None:
                    saved = [_without(value, key_place, first.node.attrs) for value in saved]
                self.node[name] = of(saved, number)
        self.compute: dict[str, Any] = {}
        for name, value in vars(first.compute).items():
            values: list[Any] = [getattr(call.compute, name) for call in calls]
            if isinstance(value, Node) or name == "places":
                continue
            if name == "args" and key is not None:
                place = first.op.parameter_names.index(key)
                values = [_without(tuple(args), place, value) for args in values]
            self.compute[name] = of(values, number)

    def call_at(self, numbers: list[int], nodes: dict[int, Any]) -> Call:
        """The call at other sizes. `nodes` are those made already, by the id of the first program's."""
        first, value_at = self.first, self.common.at
        node = first.node
        if node is not None:
            new = nodes.get(id(node))
            if new is None:
                new = nodes[id(node)] = copy.copy(node)
                for name, value in self.node.items():
                    if value is not None or getattr(node, name, None) is not None:
                        setattr(new, name, value_at(value, numbers))
            node = new
        compute = copy.copy(first.compute)
        for name, value in vars(compute).items():
            if isinstance(value, Node):
                setattr(compute, name, node)
            elif name == "places":
                setattr(compute, name, {})
            else:
                content = value_at(self.compute[name], numbers)
                setattr(compute, name, list(content) if name == "args" else content)
        call = copy.copy(first)
        call.inputs, call.outputs = value_at(self.inputs, numbers), value_at(self.outputs, numbers)
        call.statics, call.saved = value_at(self.statics, numbers), value_at(self.saved, numbers)
        call.node, call.compute, call.launches = node, compute, []
        return call


class CheckedCall:
    """A call whose kernels have formulas, and whose numbers are looked at first."""

    def __init__(self, calls: Sequence[Call], number: int, common: Common, checks: Sequence[Any]) -> None:
        self.number, self.common = number, common
        self.call = SizedCall(calls, number, common, True)
        self.kind: type[Check] = type(checks[0])
        self.values: Any = common.of([check.values for check in checks], number)

    def at(self, numbers: list[int]) -> Check:
        """What looks at them at other sizes."""
        return self.kind(_Made(self.call, numbers), *self.common.at(self.values, numbers))


class _Made:
    """A call at some sizes, which is made when it is computed."""

    def __init__(self, call: SizedCall, numbers: list[int]) -> None:
        self.call, self.numbers = call, numbers

    def compute(self) -> Sequence[Any]:
        return self.call.call_at(self.numbers, {}).compute()


def _without(values: Any, place: int | None, others: Any) -> object:
    """The values, with that of `others` at one place: random keys are others in each step."""
    if place is None or type(values) is not tuple or len(values) <= place:
        return values
    return (*values[:place], others[place], *values[place + 1 :])


def _names_of(kind: type) -> list[str]:
    names = [
        name
        for part in kind.__mro__
        for name in getattr(part, "__slots__", ())
        if isinstance(getattr(part, "__slots__", ()), tuple)
    ]
    return [name for name in dict.fromkeys(names) if name not in _NOT_OURS]
