"""Writes into views as ops: a copy of the base with another value where the view lies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynograd.interpreter.view_history import replay
from dynograd.ops.index.indexing import put_basic
from dynograd.ops.layout.views import permuted, reshaped
from dynograd.tensor.tensor import Tensor

__all__ = ["can_put", "put"]

Put = Callable[[Any, Any, tuple, Any], Tensor]
_puts: dict[str, Put] = {}


def puts(name: str) -> Callable[[Put], Put]:
    """Enters how a value is put where the op of this name shows a part of a tensor: of (base, value, statics, number of the output)."""

    def enter(function: Put) -> Put:
        _puts[name] = function
        return function

    return enter


def can_put(steps: tuple) -> bool:
    """Whether `put` knows all of the ops that made the view."""
    return all([op.name in _puts for op, _, _ in steps])


def put(base: Any, steps: tuple, value: Any) -> Tensor:
    """The base with `value` in the view that the steps describe. It may lie in the memory of `value`, but not in that of the base.

    Args:
        steps: op, statics and number of the output, from the base on.
        value: of the shape of the view.
    """
    (op, statics, number), *inner = steps
    if inner:
        value = put(replay(base, steps[:1]), tuple(inner), value)
    return _puts[op.name](base, value, statics, number)


@puts("basic_index")
def _put_at(base: Any, value: Any, statics: tuple, number: None) -> Tensor:
    return put_basic(base, value, statics[0])


@puts("split_with_sizes")
def _put_piece(base: Any, value: Any, statics: tuple, number: int) -> Tensor:
    sizes, dim = statics
    start = sum(sizes[:number])
    return put_basic(base, value, (slice(None),) * dim + (slice(start, start + sizes[number]),))


@puts("unbind")
def _put_row(base: Any, value: Any, statics: tuple, number: int) -> Tensor:
    return put_basic(base, value, (slice(None),) * statics[0] + (number, Ellipsis))


@puts("view")
def _put_reshaped(base: Any, value: Any, statics: tuple, number: None) -> Tensor:
    return reshaped(value, tuple(base.shape))


@puts("permute")
def _put_permuted(base: Any, value: Any, statics: tuple, number: None) -> Tensor:
    dims = [dim % base.ndim for dim in statics[0]]
    return permuted(value, tuple([dims.index(dim) for dim in range(base.ndim)]))
