"""Ready calls: groups whose batch rule is one call of the op call it themselves.

Most rules say only with which static arguments the op is called on all rows at once (`cat` along the next dim). That is found out when the
first group of a form runs, by watching the rule, and holds for groups of other sizes when two sizes have agreed.
"""

from __future__ import annotations

from typing import Any

from dynograd.transforms.batching import elementwise, orders, products, reductions, views
from dynograd.transforms.batching.batched import Batched, Level
from dynograd.transforms.batching.calls import RULES, Call

# Where rules choose by shapes and static arguments alone, and check no values.
_BY_SHAPES = {module.__name__ for module in (elementwise, orders, products, reductions, views)}


class ReadyCalls:
    """What is known of a form: for each way in which its operands come (which of them have rows), the static arguments."""

    __slots__ = ("known", "rule")

    def __init__(self, rule: Any) -> None:
        self.rule = rule
        # Static arguments and the size of the group that they are for (0: any). None: the rule does more.
        self.known: dict[tuple[bool, ...], tuple[int, dict[str, Any]] | None] = {}

    def call(self, op: Any, arguments: dict[str, Any], stacked: tuple[bool, ...], size: int) -> Any:
        """The op on all rows; None where it is not known how it is called."""
        result = self.known.get(stacked)
        if result is None or (result[0] and result[0] != size):
            return None
        arguments.update(result[1])
        return op.function(**arguments)

    def watch(self, op: Any, level: Level, arguments: dict[str, Any], stacked: tuple[bool, ...]) -> Any:
        """What the rule gives for all rows, along dim 0; NotImplemented: it does not apply, or there is nothing to find out."""
        if self.rule is None or self.known.get(stacked, ()) is None:
            return NotImplemented
        call = _Watched(op, arguments, level)
        rule = self.rule(call)
        statics = call.statics() if call.found is rule and call.calls == 1 else None
        before = self.known.get(stacked, ())
        if statics is None or before is None:
            self.known[stacked] = None
        elif before and before[0] != level.size and _same(before[1], statics):
            self.known[stacked] = 0, statics
        else:
            self.known[stacked] = level.size, statics
        return rule


def ready_calls(op: Any) -> ReadyCalls | None:
    """Of a form of the op; None where its rule may do more than one call."""
    rule = RULES.get(op.name) or (RULES["elementwise"] if op.kind == "elementwise" else None)
    return ReadyCalls(rule) if rule is not None and rule.__module__ in _BY_SHAPES else None


class _Watched(Call):
    """A call that notes what its rule does with it."""

    __slots__ = ("calls", "changed", "found")

    def __init__(self, op: Any, arguments: dict[str, Any], level: Level) -> None:
        super().__init__(op, arguments, level)
        self.calls, self.changed, self.found = 0, {}, None

    def with_(self, **changed: Any) -> Any:
        self.calls, self.changed = self.calls + 1, changed
        self.found = super().with_(**changed)
        return self.found

    def statics(self) -> dict[str, Any] | None:
        """The static arguments that the op was called with; None where its operands were not those of the group as they are."""
        statics = {}
        for name, value in self.changed.items():
            if name == self.op.list_name:
                inner = [element.inner if type(element) is Batched else element for element in self.original[name]]
                if len(inner) != len(value) or any(
                    [first is not other for first, other in zip(inner, value, strict=True)]
                ):
                    return None
            elif name in self.op.array_names:
                if value is not self.given[name]:
                    return None
            else:
                statics[name] = value
        if self.op.list_name is not None and self.op.list_name not in self.changed:
            return None
        return statics


def _same(first: dict[str, Any], other: dict[str, Any]) -> bool:
    try:
        return bool(first == other)
    except (RuntimeError, ValueError):  # arrays among them
        return False
