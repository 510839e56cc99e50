"""Ops on ragged tensors: the table of ragged rules, and how an op finds its rule.

An op that gets a ragged tensor is looked up in `RULES` by its key in the table of ops (`add.public` is the public face of `add`).
Without a rule an elementwise op computes on packed elements (`elementwise.py`), a composed one is run as it is, its parts finding their
rules, and anything else is run on rows of equal shape together (`groups.py`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

from dynograd.errors import RaggedSizeError
from dynograd.interpreter import named_outputs
from dynograd.ops.op import Op, registry
from dynograd.ops.readers import Entry, entry_of
from dynograd.ragged.tensor import RaggedTensor, make
from dynograd.tensor.tensor import Tensor

__all__ = ["RULES", "Call", "Refusal", "own_function", "ragged_rule", "run_call", "run_op"]


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


def _are_ordinary(given: dict[str, Any]) -> bool:
    kinds = set(map(type, given.values()))
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

    __slots__ = ("given", "key", "name", "op")

    def __init__(self, key: str, op: Op, given: dict[str, Any]) -> None:
        self.key, self.op, self.given, self.name = key, op, given, op.name

    def __getitem__(self, name: str) -> Any:
        return self.given[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self.given.get(name, default)

    def with_(self, **changed: Any) -> Any:
        """The op again with some arguments changed."""
        return invoke(registry[self.key].function, self.op, {**self.given, **changed})

    def parts(self) -> Any:
        """What a composed op is made of, run as it is; its parts look up their own rules."""
        return invoke(own_function(self.key), self.op, self.given)

    def leaves(self) -> Iterator[tuple[str, Any]]:
        """(name, value) of every argument, those in lists and tuples one by one."""
        for name, value in self.given.items():
            if type(value) in (list, tuple):
                for one in value:
                    yield name, one
            elif type(value) is dict:
                yield from value.items()
            else:
                yield name, value

    def ragged(self) -> list[RaggedTensor]:
        """The ragged arguments."""
        if _are_ordinary(self.given):
            return [value for value in self.given.values() if value.__class__ is RaggedTensor]
        return [value for _, value in self.leaves() if isinstance(value, RaggedTensor)]

    def map_ragged(self, change: Callable[[RaggedTensor], Any]) -> dict[str, Any]:
        """The arguments with `change(x)` in place of each ragged x."""
        return {name: mapped(value, change) for name, value in self.given.items()}

    def on(self, given: dict[str, Any]) -> Any:
        """The op on these arguments."""
        return invoke(registry[self.key].function, self.op, given)

    def refuse(self, why: str) -> Refusal:
        return Refusal(f"{self.name}: {why}")


def mapped(value: Any, change: Callable[[Any], Any], kind: type = RaggedTensor) -> Any:
    """`value`, or the values in a list, tuple or dict, with `change(x)` in place of each that is of `kind`."""
    if isinstance(value, kind):
        return change(value)
    if type(value) in (list, tuple):
        return type(value)(mapped(one, change, kind) for one in value)
    if type(value) is dict:
        return {key: mapped(one, change, kind) for key, one in value.items()}
    return value


def results(found: Any, change: Callable[[Any], Any]) -> Any:
    """`change(x)` for a result, or for each of several."""
    if isinstance(found, tuple):
        made = [change(one) for one in found]
        return type(found)(*made) if hasattr(found, "_fields") else tuple(made)
    if isinstance(found, list):
        return [change(one) for one in found]
    return change(found)


def own_function(key: str) -> Callable[..., Any]:
    """The function of an op that does not look for ragged tensors itself."""
    function = registry[key].function
    entry = entry_of(inspect.unwrap(function))
    return entry.apart() if entry is not None and is_made_of_parts(entry) else function


def is_made_of_parts(entry: Entry) -> bool:
    """Whether it is the function of a composed op as users call it, which hands calls with ragged tensors on."""
    if entry.op is None or entry.op.kind != "composed" or entry.function.__closure__:  # made for another function
        return False
    return tuple(inspect.signature(entry.function).parameters) == tuple(entry.op.signature.parameters)


def invoke(function: Callable[..., Any], op: Op, given: dict[str, Any]) -> Any:
    """`function` with arguments by name, each passed the way its signature wants it."""
    if _takes_names(op):
        return function(**given)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    starred = False
    for name, parameter in op.signature.parameters.items():
        if name not in given:  # left to its default
            starred = True
        elif parameter.kind is parameter.VAR_POSITIONAL:
            args += given[name]
            starred = True
        elif parameter.kind is parameter.VAR_KEYWORD:
            kwargs.update(given[name])
        elif parameter.kind is parameter.KEYWORD_ONLY or starred:
            kwargs[name] = given[name]
        else:
            args.append(given[name])
    return function(*args, **kwargs)


@cache
def _takes_names(op: Op) -> bool:
    return not any(
        [
            one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD, one.POSITIONAL_ONLY)
            for one in op.signature.parameters.values()
        ]
    )


def run_op(op: Op, given: dict[str, Any]) -> Any:
    """An op of the table that was given a ragged tensor."""
    if op.kind == "elementwise" and op.name not in RULES:
        found = _same_rows(op, given)
        if found is not None:
            return found
    return run_call(op.name, given)


def _same_rows(op: Op, given: dict[str, Any]) -> Any:
    """An elementwise op on ragged tensors that share their rows, and numbers: nothing has to be aligned. None: it is not so easy."""
    like: Any = None
    ready = dict(given)
    for name in op.array_names:
        value = given[name]
        if value.__class__ is RaggedTensor:
            packed = value.packed
            if like is None:
                like, rank = value, packed.ndim
            elif value.partition is not like.partition or value.place != like.place or packed.ndim != rank:
                return None
            ready[name] = packed
        elif value.__class__ is not float and value.__class__ is not int:
            return None
    found = op.function(**ready)
    return None if found.__class__ is tuple else make(found, like.partition, like.place)


def _in_turn(call: Call) -> Any:
    """An argument that is the example of a vmap over ragged rows, or None."""
    if _are_ordinary(call.given):
        return None
    for _, value in call.leaves():
        inner = value
        while hasattr(type(inner), "__dynograd_in_turn__"):
            inner = inner.inner
        if inner is not value and isinstance(inner, RaggedTensor):
            return value
    return None


def run_call(key: str, given: dict[str, Any]) -> Any:
    op = registry[key]
    call = Call(key, op, given)
    value = _in_turn(call)
    if value is not None:  # a vmap over rows comes first
        return call.parts() if op.kind == "composed" else type(value).__dynograd_op__(op, given)
    rule = RULES.get(key)
    if rule is not None:
        found = rule.function(call)
        if found is not NotImplemented:
            return found
    if op.kind == "elementwise":
        from dynograd.ragged.families.elementwise import elementwise

        return elementwise(call)
    from dynograd.ragged.families.groups import grouped
    from dynograd.ragged.families.levels import is_deep, lifted

    deep = any([is_deep(one) for one in call.ragged()])
    if deep and (rule is not None or not _knows_levels(call)):
        return lifted(call)
    if op.kind == "composed" and not goes_by_groups(op):
        try:
            return call.parts()
        except RaggedSizeError:
            if deep:  # below, its dims would have other numbers
                raise
    elif op.decomposition is not None and not goes_by_groups(op):
        found = op.decomposition(**given)
        return found if op.outputs in (None, "list") or hasattr(found, "_fields") else named_outputs(op)(*found)
    return grouped(call)


def goes_by_groups(op: Op) -> bool:
    """Whether the op reads whole matrices, images or signals of a batch: its rows go together by shape at once."""
    return op.row["ragged"] == "groups"


def _knows_levels(call: Call) -> bool:
    """Whether a composed op without a rule is run as it is on several levels: its dims have fixed numbers, or it is about the upper level."""
    from dynograd.ragged.families.levels import names_upper_dims

    return call.op.kind == "composed" and (call.op.row["ragged"] == "levels" or names_upper_dims(call))


def kind_of(name: str) -> tuple[str, str]:
    """(kind, note) of the rule of an op and its public face, for the docs."""
    face = f"{name}.public"
    found = _kind_of(face if face in registry else name)
    return _kind_of(name) if found[0] == "parts" and face in registry and name in registry else found


def _kind_of(key: str) -> tuple[str, str]:
    rule = RULES.get(key)
    if rule is not None:
        return rule.kind, rule.note
    op = registry[key]
    if op.row["inner"]:
        return "inner", "parts of other ops"
    if op.kind == "elementwise":
        return (
            "elementwise",
            "computed on the packed elements; dense operands are repeated for the elements of their row",
        )
    if (op.kind == "composed" or op.decomposition is not None) and not goes_by_groups(op):
        return "parts", "made of ops with ragged rules"
    return "groups", "rows of equal shape are computed together"


def ragged_in(values: Iterable[Any]) -> bool:
    return any([value.__class__ is RaggedTensor for value in values])


def _write(target: Any, value: Any, who: str, write: Callable[..., Any]) -> Any:
    """Writes `value` into the elements of a ragged tensor; dense values are repeated for the elements of their row."""
    if not isinstance(target, RaggedTensor):
        if isinstance(value, RaggedTensor):
            raise Refusal(
                f"{who}: a ragged tensor (lengths {value.partition}) cannot be written into a dense one of shape {tuple(target.shape)}. Write "
                f"x.to_padded(), or write into a ragged tensor."
            )
        return None
    if not isinstance(value, RaggedTensor):
        from dynograd.ragged.families.elementwise import repeated

        inner = repeated(who, value, target) if isinstance(value, Tensor) else value
    else:
        target.partition.check_same(who, value.partition, ("the", "the written"))
        inner = value.packed
    if isinstance(inner, Tensor) and tuple(inner.shape) != tuple(target.packed.shape):
        inner = registry["expand.public"].function(inner, tuple(target.packed.shape))
    write(target.packed, inner, who)
    return target


RaggedTensor.__dynograd_op__ = staticmethod(run_op)
RaggedTensor.__dynograd_write__ = staticmethod(_write)
