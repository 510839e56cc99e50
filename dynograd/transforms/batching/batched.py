"""Batched: a tensor seen as one of its slices. The reader of the table of ops behind `vmap`.

A Batched belongs to a level, one call of `vmap`; `inner` holds all examples along dim 0, and everything that asks for a shape is
told the shape of one example. An op on Batcheds is looked up in the table of batch rules, each of which says how the op reads
with one more dim in front; an op without a rule is run once per example, and `vmap_fallbacks()` tells so.

Batcheds of a later `vmap` hold those of an earlier one, and Duals (forward mode) are always inside: a batch of moving tensors is
a tensor that moves, so `jvp` and the tape only ever see whole batches.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy

from dynograd import arrays
from dynograd.arrays import CudaArray, MetaArray
from dynograd.base import random_streams
from dynograd.base.interrupts import InterruptSafe
from dynograd.base.shapes import Size
from dynograd.interpreter import TENSORS
from dynograd.interpreter.view_history import edge_of
from dynograd.kernels import kernel
from dynograd.ops.op import registry
from dynograd.tensor.creation import zeros
from dynograd.tensor.tensor import Tensor


class BatchError(RuntimeError):
    """A value was asked for that differs from example to example."""


class Level(InterruptSafe["Level"]):
    """One running call of `vmap`: how many examples, and what random ops do."""

    draw: Any = None  # what runs random functions; `draws.py` puts it here

    def __init__(self, size: int, draws: str) -> None:
        self.size, self.randomness, self.number = size, draws, 0
        self._taker = functools.partial(Level.draw)

    def _enter(self) -> Level:
        random_streams.takers.append(self._taker)
        _active.levels.append(self)
        self.number = len(_active.levels)
        return self

    def _leave(self) -> None:
        if self in _active.levels:
            _active.levels.remove(self)
        if self._taker in random_streams.takers:
            random_streams.takers.remove(self._taker)
        self.number = 0


class _Active(threading.local):
    def __init__(self) -> None:
        self.levels: list[Level] = []


_active = _Active()


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
    def array(self) -> Any:
        if hasattr(type(self.inner), "__dynograd_rows__"):
            return self.inner._example_array
        inner = self.inner.array
        if type(inner) in (CudaArray, MetaArray):
            return inner[0]
        first = inner[0, ...] if len(inner) else numpy.empty(inner.shape[1:], inner.dtype)
        shown = first.view(_Shown)
        shown.everything = arrays.all_values(inner)
        return shown

    @array.setter
    def array(self, value: Any) -> None:
        raise _no_value("assigning .array or .data")

    _requires_grad = property(
        lambda self: self.inner.requires_grad, lambda self, value: setattr(self.inner, "_requires_grad", value)
    )
    _grad = property(lambda self: None, lambda self, value: None)
    shape = property(lambda self: Size(self.inner.shape[1:]))
    ndim = property(lambda self: self.inner.ndim - 1)
    dtype = property(lambda self: self.inner.dtype)
    device = property(lambda self: self.inner.device)
    is_leaf = property(lambda self: self.inner.is_leaf)
    grad_fn = property(lambda self: self.inner.grad_fn)

    @property
    def node(self) -> Any:
        return edge_of(self.inner)

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
    def data(self) -> Any:
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

    def stride(self, dim: int | None = None, *, axis: int | None = None) -> Any:
        dim = axis if dim is None else dim
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
    def __dynograd_alike__(like: Batched, result: Tensor) -> Tensor:
        """`result` for each example, so that examples can be written into it."""
        inner = like.inner
        if hasattr(type(inner), "__dynograd_rows__"):
            return result
        every = stretched(result.detach(), like.level.size).clone()
        follow = getattr(type(inner), "__dynograd_alike__", None)
        batched = make_batched(like.level, every if follow is None else follow(inner, every))
        if result.requires_grad:
            batched.requires_grad = True
        return batched

    def __dynograd_become__(self, view: Batched) -> Batched:
        """Has the shape of a view of it from now on."""
        self.inner = view.inner
        return self

    # `calls.py` and `functions.py` put their functions here
    __dynograd_op__: Any = None
    __dynograd_in_turn__: Any
    __dynograd_write__: Any
    __dynograd_function__: Any


def make_batched(level: Level, inner: Any) -> Batched:
    result: Any = object.__new__(Batched)
    result._meta = None
    result.level, result.inner = level, inner
    return result


def is_batched(value: Any) -> bool:
    return type(value) is Batched


def highest_level(values: Iterable[Any]) -> Level | None:
    """The latest `vmap` among the Batcheds of `values`.

    Raises:
        BatchError: one of them comes from a `vmap` that is over.
    """
    result = None
    for value in values:
        if type(value) is Batched:
            level = value.level
            if not level.number:
                raise BatchError(
                    f"vmap: a tensor of shape {tuple(value.shape)} was kept from inside a vmap that is over. Return it from the function."
                )
            if result is None or level.number > result.number:
                result = level
    return result


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
    by_key: dict[int, Level] = {}
    for value in values:
        while type(value) is Batched:
            if value.level.number:
                by_key[value.level.number] = value.level
            value = value.inner
    return [by_key[number] for number in sorted(by_key)]


def example(value: Any, number: int) -> Any:
    """One of the examples; of an empty batch one of zeros, which shows what an op gives for an example."""
    if not value.shape[0]:
        value = run("cat", [value, zeros(1, *value.shape[1:], dtype=value.dtype, device=value.device)], 0)
    return run("basic_index", value, (number, Ellipsis))


def in_a_row(parts: list[Any], size: int) -> Tensor:
    """The results of the examples as a batch; of an empty batch the result of its example of zeros tells the shape."""
    batch = run("stack", parts, 0)
    return batch if size else run("basic_index", batch, (slice(0, 0),))


assert Batched not in TENSORS
