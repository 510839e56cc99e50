"""The table of ragged rules, and the call of an op as rules see it. `dispatch.py` says which rule an op takes, and what it does without one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from dynograd.base.signatures import annotations_of
from dynograd.ops.argument_kinds import UNSEEN
from dynograd.ops.op import Op, registry
from dynograd.ops.readers import Entry, entry_of
from dynograd.ragged.invoking import invoke, mapped
from dynograd.ragged.tensor import RaggedTensor
from dynograd.tensor.tensor import Tensor

__all__ = ["RULES", "Call", "Refusal", "Rule", "is_made_of_parts", "own_function", "ragged_rule", "results"]


class Refusal(NotImplementedError):
    """An op has no meaning for ragged tensors, or none for these dims; the message has the way out."""


class Rule:
    """How an op reads ragged tensors: what computes it, and the word for it in the table of the docs."""

    __slots__ = ("function", "kind", "note")

    def __init__(self, function: Callable[[Call], Any], kind: str, note: str) -> None:
        self.function, self.kind, self.note = function, kind, note


RULES: dict[str, Rule] = {}


def ragged_rule(
    *keys: str, kind: str = "written", note: str = ""
) -> Callable[[Callable[[Call], Any]], Callable[[Call], Any]]:
    """Registers the ragged rule of ops: from a `Call` to the result. A rule that gives NotImplemented leaves it to the default.

    Args:
        keys: names in `ops.op.registry`; of a composed face that covers an op (`cross_entropy.public`), that name.
        kind: the word for it in docs/ragged.md.
        note: what else the docs say of it.
    Returns:
        A decorator that gives back its function.
    Raises:
        AssertionError: there is no such op.

    >>> dynograd.ragged.ragged_rule("no_such_op")(lambda call: call.parts())
    Traceback (most recent call last):
        ...
    AssertionError: ragged rule: there is no op 'no_such_op' in the table of ops
    """

    def register(function: Callable[[Call], Any]) -> Callable[[Call], Any]:
        for key in keys:
            if key not in registry:
                raise AssertionError(f"ragged rule: there is no op {key!r} in the table of ops")
            RULES[key] = Rule(function, kind, note or (function.__doc__ or "").strip().split("\n")[0])
        return function

    return register


# Types of arguments that hold no others; subclasses of Tensor come in as they are met.
_ORDINARY = {RaggedTensor, Tensor, int, float, bool, str, type(None), slice}


def _are_ordinary(arguments: dict[str, Any]) -> bool:
    kinds = set(map(type, arguments.values()))
    if kinds <= _ORDINARY:
        return True
    for kind in kinds - _ORDINARY:
        if (
            issubclass(kind, Tensor)
            and not issubclass(kind, RaggedTensor)
            and not hasattr(kind, "__dynograd_in_turn__")
        ):
            _ORDINARY.add(kind)
    return kinds <= _ORDINARY


class Call:
    """An op called with ragged tensors, as rules see it: arguments by name (`call["input"]`), of which some are ragged."""

    __slots__ = ("arguments", "key", "name", "op")

    def __init__(self, key: str, op: Op, arguments: dict[str, Any]) -> None:
        self.key, self.op, self.arguments, self.name = key, op, arguments, op.name

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self.arguments.get(name, default)

    def with_(self, **changed: Any) -> Any:
        """The op again with some arguments changed."""
        return invoke(registry[self.key].function, self.op, {**self.arguments, **changed})

    def parts(self) -> Any:
        """What a composed op is made of, run as it is; its parts look up their own rules."""
        return invoke(own_function(self.key), self.op, self.arguments)

    def leaves(self) -> Iterator[tuple[str, Any]]:
        """(name, value) of every argument, those in lists and tuples one by one."""
        for name, value in self.arguments.items():
            if type(value) in (list, tuple):
                for entry in value:
                    yield name, entry
            elif type(value) is dict:
                yield from value.items()
            else:
                yield name, value

    def ragged(self) -> list[RaggedTensor]:
        """The ragged arguments."""
        if _are_ordinary(self.arguments):
            return [value for value in self.arguments.values() if value.__class__ is RaggedTensor]
        return [value for _, value in self.leaves() if isinstance(value, RaggedTensor)]

    def in_turn(self) -> Any:
        """An argument that is the example of a vmap over ragged rows, or None."""
        if _are_ordinary(self.arguments):
            return None
        for _, value in self.leaves():
            inner = value
            while hasattr(type(inner), "__dynograd_in_turn__"):
                inner = inner.inner
            if inner is not value and isinstance(inner, RaggedTensor):
                return value
        return None

    def map_ragged(self, change: Callable[[RaggedTensor], Any]) -> dict[str, Any]:
        """The arguments with `change(x)` in place of each ragged x."""
        return {name: mapped(value, change, RaggedTensor) for name, value in self.arguments.items()}

    def on(self, arguments: dict[str, Any]) -> Any:
        """The op on these arguments."""
        return invoke(registry[self.key].function, self.op, arguments)

    def refuse(self, why: str) -> Refusal:
        return Refusal(f"{self.name}: {why}")


def results(outcome: Any, change: Callable[[Any], Any]) -> Any:
    """`change(x)` for a result, or for each of several."""
    if isinstance(outcome, tuple):
        changed = [change(result) for result in outcome]
        return type(outcome)(*changed) if hasattr(outcome, "_fields") else tuple(changed)
    if isinstance(outcome, list):
        return [change(result) for result in outcome]
    return change(outcome)


def own_function(key: str) -> Callable[..., Any]:
    """The function of an op that does not look for ragged tensors itself."""
    function = registry[key].function
    entry = entry_of(inspect.unwrap(function))
    return entry.apart() if entry is not None and is_made_of_parts(entry) else function


def is_made_of_parts(entry: Entry) -> bool:
    """Whether it is the function of a composed op as users call it, which hands calls with ragged tensors on."""
    if entry.op is None or entry.op.kind != "composed" or entry.function.__closure__:  # made for another function
        return False
    seen = [name for name, annotation in annotations_of(entry.op.forward).items() if annotation not in UNSEEN]
    return [*annotations_of(entry.function)] == seen
