"""Ops on Batcheds: the table of batch rules, the loop over examples for ops without one, and writes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from dynograd import arrays
from dynograd.errors import InplaceError
from dynograd.interpreter import named_outputs
from dynograd.ops.op import Op
from dynograd.tensor.tensor import Tensor, wrap
from dynograd.transforms.batching.batched import (
    Batched,
    BatchError,
    Level,
    example,
    highest_level,
    in_a_row,
    make_batched,
    run,
    stretched,
)

_fallbacks: dict[str, int] = {}
RULES: dict[str, Callable[[Call], Any]] = {}


def vmap_fallbacks(clear: bool = False) -> dict[str, int]:
    """Ops that `vmap` ran example by example because they have no batch rule, with the number of calls; fastest programs have none.

    Args:
        clear: begin to count anew.
    Returns:
        A dict from names of ops to numbers of calls.

    >>> before = dynograd.func.vmap_fallbacks(clear=True)
    >>> dynograd.func.vmap(lambda x: x.exp().sum())(dynograd.zeros(3, 2))
    tensor([2., 2., 2.])
    >>> dynograd.func.vmap_fallbacks()
    {}
    """
    result = dict(_fallbacks)
    if clear:
        _fallbacks.clear()
    return result


def rule(*names: str) -> Callable[[Callable[[Call], Any]], Callable[[Call], Any]]:
    """Registers the batch rule of the ops `names`: from a `Call` to what the op gives for all examples, along dim 0."""

    def register(function: Callable[[Call], Any]) -> Callable[[Call], Any]:
        for name in names:
            RULES[name] = function
        return function

    return register


class Call:
    """An op called with batched arguments, as batch rules see it.

    `given` has the arguments by name, batched ones with the examples along dim 0; `batched` names those.
    """

    __slots__ = ("batched", "given", "level", "op", "original", "size")

    def __init__(self, op: Op, original: dict[str, Any], level: Level) -> None:
        self.op, self.original, self.level, self.size = op, original, level, level.size
        self.given, self.batched = dict(original), set()
        for name in op.array_names:
            value = original[name]
            if name == op.list_name:
                if any(type(element) is Batched and element.level is level for element in value):
                    self.batched.add(name)
            elif type(value) is Batched and value.level is level:
                self.given[name] = value.inner
                self.batched.add(name)

    def __getitem__(self, name: str) -> Any:
        return self.given[name]

    def front(self, name: str) -> Any:
        """The argument with the examples along dim 0, stretched if it is the same for all."""
        value = self.given[name]
        if value is None or name in self.batched:
            return value
        return stretched(as_tensor(value), self.size)

    def fronts(self, name: str) -> list[Any]:
        """The same for the list argument."""
        return [
            element.inner
            if type(element) is Batched and element.level is self.level
            else stretched(as_tensor(element), self.size)
            for element in self.original[name]
        ]

    def rank(self, name: str) -> int:
        """The dims of one example."""
        value = self.given[name]
        return getattr(value, "ndim", 0) - (name in self.batched)

    def shape(self, name: str) -> tuple[int, ...]:
        shape = tuple(self.given[name].shape)
        return shape[1:] if name in self.batched else shape

    def with_(self, **changed: Any) -> Any:
        """The op on all examples at once, some arguments changed."""
        return self.op.function(**{**self.given, **changed})


def as_tensor(value: Any) -> Any:
    """Raw arrays and numbers beside batched tensors, as tensors."""
    return value if isinstance(value, Tensor) else wrap(arrays.as_result(value))


def run_op(op: Op, arguments: dict[str, Any]) -> Any:
    if op.kind == "elementwise":
        result = _of_equal_ranks(op, arguments)
        if result is not None:
            return result
    values: list[Any] = []
    for name in op.array_names:
        value = arguments[name]
        values += value if name == op.list_name and isinstance(value, (list, tuple)) else [value]
    for value in values:
        if hasattr(type(value), "__dynograd_rows__") and not _any_holds_rows(values):  # ragged: batches are inside
            return type(value).__dynograd_op__(op, arguments)
    level = highest_level(values)
    assert level is not None
    function = RULES.get(op.name)
    if function is None and op.kind == "elementwise":
        function = RULES["elementwise"]
    if function is not None:
        result = function(Call(op, arguments, level))
        if result is not NotImplemented:
            return _dressed(level, result)
    if op.decomposition is not None:
        result = op.decomposition(**arguments)
        return result if op.outputs in (None, "list") or hasattr(result, "_fields") else named_outputs(op)(*result)
    _fallbacks[op.name] = _fallbacks.get(op.name, 0) + 1
    return _dressed(level, one_by_one(Call(op, arguments, level)))


def _any_holds_rows(values: list[Any]) -> bool:
    """Whether one of the Batcheds is a vmap over the rows of a ragged tensor."""
    for value in values:
        while type(value) is Batched:
            value = value.inner
            if hasattr(type(value), "__dynograd_rows__"):
                return True
    return False


def _of_equal_ranks(op: Op, arguments: dict[str, Any]) -> Any:
    """An elementwise op on Batcheds of one level and rank, and numbers: nothing has to be aligned. None: it is not so easy."""
    level: Any = None
    rank, ready = 0, dict(arguments)
    for name in op.array_names:
        value = arguments[name]
        if type(value) is Batched:
            inner = value.inner
            if level is None:
                level, rank = value.level, inner.ndim
                if not level.number:
                    return None
            elif value.level is not level or inner.ndim != rank:
                return None
            ready[name] = inner
        elif type(value) is not float and type(value) is not int:
            return None
    return make_batched(level, op.function(**ready))


def _dressed(level: Level, result: Any) -> Any:
    if isinstance(result, tuple):
        results = [make_batched(level, tensor) for tensor in result]
        return type(result)(*results) if hasattr(result, "_fields") else tuple(results)
    return make_batched(level, result)


def one_by_one(call: Call) -> Any:
    """The op on each example, results stacked; in an empty batch on an example of zeros, for the shape of its result."""
    results = []
    for number in range(call.size or 1):
        arguments = dict(call.given)
        for name in call.batched:
            if name == call.op.list_name:
                arguments[name] = [
                    example(element.inner, number)
                    if type(element) is Batched and element.level is call.level
                    else element
                    for element in call.original[name]
                ]
            else:
                arguments[name] = example(arguments[name], number)
        results.append(call.op.function(**arguments))
    first = results[0]
    if not isinstance(first, tuple):
        return _stacked(call, results)
    result = [_stacked(call, list(parts)) for parts in zip(*results, strict=True)]
    return type(first)(*result) if hasattr(first, "_fields") else tuple(result)


def in_turn(function: Any, args: tuple, kwargs: dict) -> Any:
    """A function that reads values, on each example, results stacked."""
    level = highest_level((*args, *kwargs.values()))
    assert level is not None
    _fallbacks[function.__name__] = _fallbacks.get(function.__name__, 0) + 1

    def one(value: Any, number: int) -> Any:
        return example(value.inner, number) if type(value) is Batched and value.level is level else value

    results = [
        function(*[one(value, number) for value in args], **{key: one(value, number) for key, value in kwargs.items()})
        for number in range(level.size or 1)
    ]
    return _put_together(level, results)


def _put_together(level: Any, results: list[Any]) -> Any:
    """The results of the examples as one, tuples part by part."""
    first = results[0]
    if not isinstance(first, tuple):
        return make_batched(level, in_a_row(results, level.size))
    parts = [_put_together(level, list(part)) for part in zip(*results, strict=True)]
    return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)


def _stacked(call: Call, parts: list[Any]) -> Any:
    shapes = {tuple(part.shape) for part in parts}
    if len(shapes) > 1:
        raise BatchError(
            f"vmap: {call.op.name} gives results of different shapes for different examples ({sorted(shapes)[0]} and {sorted(shapes)[-1]}), "
            f"which cannot be one tensor. Use a form of fixed size (where, a mask), or loop over the examples."
        )
    return in_a_row(parts, call.size)


# --- writes ------------------------------------------------------------------------------------------------------------------


def _write(target: Any, value: Any, who: str, write: Callable[..., Any]) -> Any:
    """Writes batched values into batched memory, all examples at once."""
    level = highest_level((target, value))
    assert level is not None
    if not (type(target) is Batched and target.level is level):
        raise InplaceError(
            f"{who}: inside vmap, a batched value (one per example) cannot be written into a tensor of shape {tuple(target.shape)} that all "
            f"examples share. Use the out-of-place form, make the tensor from a batched one (zeros_like(x), x.new_zeros(...)), or pass it "
            f"to vmap with an in_dims."
        )
    if type(value) is Batched and value.level is level:
        inner = value.inner
        missing = target.inner.ndim - inner.ndim
        if missing > 0:
            inner = run("view", inner, (level.size, *(1,) * missing, *inner.shape[1:]))
    else:
        inner = value
    if tuple(inner.shape) != tuple(target.inner.shape):
        with suppress(ValueError):  # `write` says what is wrong
            inner = run("expand", inner, tuple(target.inner.shape))
    write(target.inner, inner, who)
    return target


Batched.__dynograd_op__ = staticmethod(run_op)
Batched.__dynograd_in_turn__ = staticmethod(in_turn)
Batched.__dynograd_write__ = staticmethod(_write)
