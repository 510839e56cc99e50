"""Batched: a tensor seen as one of its slices. The reader of the table of ops behind `vmap`.

A Batched belongs to a level, one call of `vmap`; `inner` holds all examples along dim 0, and everything that asks for a shape is
told the shape of one example. An op on Batcheds is looked up in the table of batch rules, each of which says how the op reads
with one more dim in front; an op without a rule is run once per example, and `vmap_fallbacks()` tells so.

Batcheds of a later `vmap` hold those of an earlier one, and Duals (forward mode) are always inside: a batch of moving tensors is
a tensor that moves, so `jvp` and the tape only ever see whole batches.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy

from dynograd import arrays, randomness
from dynograd.arrays import CudaArray
from dynograd.errors import InplaceError
from dynograd.interpreter import TENSORS, named_outputs
from dynograd.kernels import kernel
from dynograd.ops.op import Op, registry
from dynograd.shapes import Size
from dynograd.tensor import Tensor, wrap

__all__ = ["BatchError", "Batched", "Level", "active_levels", "lowered", "raised", "rule", "vmap_fallbacks"]


class BatchError(RuntimeError):
    """A value was asked for that differs from example to example."""


class Level:
    """One running call of `vmap`: how many examples, and what random ops do."""

    def __init__(self, size: int, draws: str) -> None:
        self.size, self.randomness, self.number = size, draws, 0

    def __enter__(self) -> Level:
        from dynograd.transforms.batching.draws import draw_inside

        randomness.takers.append(draw_inside)
        _active.levels.append(self)
        self.number = len(_active.levels)
        return self

    def __exit__(self, *error: Any) -> None:
        _active.levels.remove(self)
        randomness.takers.pop()
        self.number = 0


class _Active(threading.local):
    def __init__(self) -> None:
        self.levels: list[Level] = []


_active = _Active()
_fallbacks: dict[str, int] = {}
RULES: dict[str, Callable[[Call], Any]] = {}


def active_levels() -> list[Level]:
    """The calls of `vmap` that are running, the outermost first."""
    return list(_active.levels)


@contextmanager
def without_last_level() -> Iterator[None]:
    """Inside, the innermost `vmap` does not run."""
    level = _active.levels.pop()
    try:
        yield
    finally:
        _active.levels.append(level)


def vmap_fallbacks(clear: bool = False) -> dict[str, int]:
    """Ops that `vmap` ran example by example because they have no batch rule, with the number of calls; fastest programs have none.

    >>> dynograd.func.vmap_fallbacks()
    {}
    """
    found = dict(_fallbacks)
    if clear:
        _fallbacks.clear()
    return found


def rule(*names: str) -> Callable[[Callable[[Call], Any]], Callable[[Call], Any]]:
    """Registers the batch rule of the ops `names`: from a `Call` to what the op gives for all examples, along dim 0."""

    def register(function: Callable[[Call], Any]) -> Callable[[Call], Any]:
        for name in names:
            RULES[name] = function
        return function

    return register


class _Shown(numpy.ndarray):
    """What a Batched shows as its array: shape and dtype of one example, and no values."""

    everything: Any  # the examples of all levels, for checks of values

    @staticmethod
    def __dynograd_kernel__(family: str, name: str) -> Any:
        if name in _ABOUT_SHAPES:
            return kernel(family, name, 0)
        raise _no_value(f"{name}()")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        raise _no_value(f"numpy.{ufunc.__name__}")

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function in _SHAPES_ONLY:
            return super().__array_function__(function, types, args, kwargs)
        raise _no_value(f"numpy.{function.__name__}")

    def item(self, *args: Any) -> Any:
        raise _no_value("item()")

    def tolist(self) -> Any:
        raise _no_value("tolist()")

    def astype(self, *args: Any, **kwargs: Any) -> Any:
        raise _no_value("astype()")


_ABOUT_SHAPES = {"attends_in_tiles", "causal_mask", "in_one_pass", "pays"}
_SHAPES_ONLY = {
    numpy.zeros_like,
    numpy.ones_like,
    numpy.empty_like,
    numpy.full_like,
    numpy.shape,
    numpy.ndim,
    numpy.size,
}


def _no_value(what: str) -> BatchError:
    return BatchError(
        f"vmap: {what} needs the value of a tensor that has one value per example. Keep it a tensor (where(condition, a, b) in place of "
        f"if, index with tensors in place of numbers), pass it to vmap with in_dims=None, or loop over the examples instead."
    )


class Batched(Tensor):
    """All examples in `inner`, along dim 0. To everything that is no op it looks like one of them, without values."""

    __slots__ = ()

    level: Level
    inner: Any

    @property
    def array(self) -> Any:  # type: ignore[override]
        inner = self.inner.array
        if type(inner) is CudaArray:
            return inner[0]
        first = inner[0, ...] if len(inner) else numpy.empty(inner.shape[1:], inner.dtype)
        shown = first.view(_Shown)
        shown.everything = arrays.all_values(inner)
        return shown

    @array.setter
    def array(self, value: Any) -> None:
        raise _no_value("assigning .array or .data")

    _requires_grad = property(  # type: ignore[assignment]
        lambda self: self.inner._requires_grad, lambda self, value: setattr(self.inner, "_requires_grad", value)
    )
    _grad = property(lambda self: None, lambda self, value: None)  # type: ignore[assignment]
    shape = property(lambda self: Size(self.inner.shape[1:]))  # type: ignore[assignment]
    ndim = property(lambda self: self.inner.ndim - 1)  # type: ignore[assignment]
    dtype = property(lambda self: self.inner.dtype)  # type: ignore[assignment]
    device = property(lambda self: self.inner.device)  # type: ignore[assignment]
    is_leaf = property(lambda self: self.inner.is_leaf)  # type: ignore[assignment]
    grad_fn = property(lambda self: self.inner.grad_fn)  # type: ignore[assignment]

    @property
    def node(self) -> Any:  # type: ignore[override]
        inner = self.inner
        return inner.node or (inner if inner._requires_grad else None)

    @node.setter
    def node(self, value: Any) -> None:
        self.inner.node = value

    @property
    def requires_grad(self) -> bool:
        return self.inner.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.inner.requires_grad = value

    @property
    def data(self) -> Any:  # type: ignore[override]
        return make_batched(self.level, self.inner.data)

    @data.setter
    def data(self, value: Any) -> None:
        raise _no_value("assigning .data")

    def detach(self) -> Any:
        return make_batched(self.level, self.inner.detach())

    def detach_(self) -> Any:
        self.inner.detach_()
        return self

    def is_contiguous(self, memory_format: Any = None) -> bool:
        return arrays.is_contiguous(self.inner.array) if memory_format is None else super().is_contiguous(memory_format)

    def stride(self, dim: int | None = None) -> Any:
        strides = tuple(self.inner.stride())[1:]
        return strides if dim is None else strides[dim]

    def backward(self, *args: Any, **kwargs: Any) -> None:
        raise BatchError(
            "vmap: backward() inside vmap would add one gradient per example to one .grad. Use func.grad inside vmap, or call backward on "
            "what vmap returned."
        )

    def item(self) -> Any:
        raise _no_value("item()")

    def tolist(self) -> Any:
        raise _no_value("tolist()")

    def numpy(self, *, force: bool = False) -> Any:
        raise _no_value("numpy()")

    def __bool__(self) -> bool:
        raise _no_value("bool() (an if, while, and, or)")

    def __int__(self) -> int:
        raise _no_value("int()")

    def __float__(self) -> float:
        raise _no_value("float()")

    def __complex__(self) -> complex:
        raise _no_value("complex()")

    def __index__(self) -> int:
        raise _no_value("an index or size")

    def __contains__(self, element: Any) -> bool:
        raise _no_value("in")

    def __repr__(self, **options: Any) -> str:
        return f"Batched({self.level.size if self.level.number else 'over'} x {tuple(self.shape)}, {self.inner!r})"

    def __deepcopy__(self, memo: dict) -> Any:
        raise BatchError("deepcopy: a tensor inside vmap cannot be copied so. Use clone().")

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise BatchError("pickle: a tensor inside vmap cannot be pickled. Return it from the function first.")

    @staticmethod
    def __dynograd_op__(op: Op, given: dict[str, Any]) -> Any:
        return run_op(op, given)

    @staticmethod
    def __dynograd_function__(function: Any, args: tuple, kwargs: dict) -> Any:
        from dynograd.transforms.batching.functions import run_function

        return run_function(function, args, kwargs)

    @staticmethod
    def __dynograd_in_turn__(function: Any, args: tuple, kwargs: dict) -> Any:
        return in_turn(function, args, kwargs)

    @staticmethod
    def __dynograd_write__(target: Tensor, value: Tensor, who: str, write: Callable[..., Any]) -> Any:
        return _write(target, value, who, write)


def make_batched(level: Level, inner: Any) -> Batched:
    made: Any = object.__new__(Batched)
    made._meta = None
    made.level, made.inner = level, inner
    return made


def is_batched(value: Any) -> bool:
    return type(value) is Batched


def highest_level(values: Iterable[Any]) -> Level | None:
    """The latest `vmap` among the Batcheds of `values`.

    Raises:
        BatchError: one of them comes from a `vmap` that is over.
    """
    found = None
    for value in values:
        if type(value) is Batched:
            level = value.level
            if not level.number:
                raise BatchError(
                    f"vmap: a tensor of shape {tuple(value.shape)} was kept from inside a vmap that is over. Return it from the function."
                )
            if found is None or level.number > found.number:
                found = level
    return found


# --- one more dim, or one less -----------------------------------------------------------------------------------------------


def run(name: str, *args: Any, **kwargs: Any) -> Any:
    """The op `name`."""
    return registry[name].function(*args, **kwargs)


def stretched(value: Any, size: int) -> Any:
    """`value` for each of `size` examples: a view."""
    shape = tuple(value.shape)
    return run("expand", run("view", value, (1, *shape)), (size, *shape))


def lowered(value: Any, level: Level) -> Any:
    """`value` with the examples of `level` along a dim 0 that ops see; what is the same for all is stretched."""
    if type(value) is Batched:
        if value.level is level:
            return value.inner
        if value.level.number > level.number:
            inner = lowered(value.inner, level)
            return make_batched(value.level, _swapped(inner))
    return stretched(value, level.size)


def raised(value: Any, level: Level) -> Any:
    """The opposite of `lowered`: dim 0 is hidden again."""
    if type(value) is Batched and value.level.number > level.number:
        return make_batched(value.level, raised(_swapped(value.inner), level))
    return make_batched(level, value)


def _swapped(value: Any) -> Any:
    return run("permute", value, (1, 0, *range(2, value.ndim)))


def all_lowered(value: Any, levels: Sequence[Level]) -> Any:
    """`lowered` at each of `levels` (outermost first)."""
    for level in reversed(levels):
        value = lowered(value, level)
    return value


def all_raised(value: Any, levels: Sequence[Level]) -> Any:
    for level in levels:
        value = raised(value, level)
    return value


def enclosed(value: Any) -> Any:
    """`value` with a place of its own for each example of every running `vmap`, so that its gradient is one per example."""
    for level in _active.levels:
        if not _holds(value, level):
            value = all_raised(lowered(value, level), [level])
    return value


def _holds(value: Any, level: Level) -> bool:
    while type(value) is Batched:
        if value.level is level:
            return True
        value = value.inner
    return False


def levels_of(*values: Any) -> list[Level]:
    """The levels at which one of `values` is batched, outermost first."""
    found: dict[int, Level] = {}
    for value in values:
        while type(value) is Batched:
            if value.level.number:
                found[value.level.number] = value.level
            value = value.inner
    return [found[number] for number in sorted(found)]


# --- ops ---------------------------------------------------------------------------------------------------------------------


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
                if any(type(one) is Batched and one.level is level for one in value):
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
            one.inner if type(one) is Batched and one.level is self.level else stretched(as_tensor(one), self.size)
            for one in self.original[name]
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


def run_op(op: Op, given: dict[str, Any]) -> Any:
    values: list[Any] = []
    for name in op.array_names:
        value = given[name]
        values += value if name == op.list_name and isinstance(value, (list, tuple)) else [value]
    level = highest_level(values)
    assert level is not None
    function = RULES.get(op.name)
    if function is None and op.kind == "elementwise":
        function = RULES["elementwise"]
    if function is not None:
        found = function(Call(op, given, level))
        if found is not NotImplemented:
            return _dressed(level, found)
    if op.decomposition is not None:
        found = op.decomposition(**given)
        return found if op.outputs in (None, "list") or hasattr(found, "_fields") else named_outputs(op)(*found)
    _fallbacks[op.name] = _fallbacks.get(op.name, 0) + 1
    return _dressed(level, one_by_one(Call(op, given, level)))


def _dressed(level: Level, found: Any) -> Any:
    if isinstance(found, tuple):
        made = [make_batched(level, one) for one in found]
        return type(found)(*made) if hasattr(found, "_fields") else tuple(made)
    return make_batched(level, found)


def one_by_one(call: Call) -> Any:
    """The op on each example, results stacked."""
    if not call.size:
        raise BatchError(f"vmap: {call.op.name} has no batch rule, and an empty batch has no example to run it on.")
    results = []
    for number in range(call.size):
        given = dict(call.given)
        for name in call.batched:
            if name == call.op.list_name:
                given[name] = [
                    example(one.inner, number) if type(one) is Batched and one.level is call.level else one
                    for one in call.original[name]
                ]
            else:
                given[name] = example(given[name], number)
        results.append(call.op.function(**given))
    first = results[0]
    if not isinstance(first, tuple):
        return _stacked(call, results)
    made = [_stacked(call, list(parts)) for parts in zip(*results, strict=True)]
    return type(first)(*made) if hasattr(first, "_fields") else tuple(made)


def in_turn(function: Any, args: tuple, kwargs: dict) -> Any:
    """A function that reads values, on each example, results stacked."""
    level = highest_level((*args, *kwargs.values()))
    assert level is not None
    _fallbacks[function.__name__] = _fallbacks.get(function.__name__, 0) + 1

    def one(value: Any, number: int) -> Any:
        return example(value.inner, number) if type(value) is Batched and value.level is level else value

    results = [
        function(*[one(value, number) for value in args], **{key: one(value, number) for key, value in kwargs.items()})
        for number in range(level.size)
    ]
    return make_batched(level, run("stack", results, 0))


def _stacked(call: Call, parts: list[Any]) -> Any:
    shapes = {tuple(one.shape) for one in parts}
    if len(shapes) > 1:
        raise BatchError(
            f"vmap: {call.op.name} gives results of different shapes for different examples ({sorted(shapes)[0]} and {sorted(shapes)[-1]}), "
            f"which cannot be one tensor. Use a form of fixed size (where, a mask), or loop over the examples."
        )
    return run("stack", parts, 0)


def example(value: Any, number: int) -> Any:
    return run("basic_index", value, (number, Ellipsis))


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


assert Batched not in TENSORS
