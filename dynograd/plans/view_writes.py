"""Writes into views as ops: a copy of the base with another value where the view lies."""

from __future__ import annotations

from typing import Any

from dynograd.interpreter.view_history import replay
from dynograd.ops.index.indexing import put_basic
from dynograd.ops.layout.views import permuted, reshaped
from dynograd.tensor.tensor import Tensor

__all__ = ["can_put", "put"]


def can_put(steps: tuple) -> bool:
    """Whether `put` knows all of the ops that made the view."""
    return all([op.name in _PUT for op, _, _ in steps])


def put(base: Any, steps: tuple, value: Any) -> Tensor:
    """The base with `value` in the view that the steps describe. It may lie in the memory of `value`, but not in that of the base.

    Args:
        steps: op, statics and number of the output, from the base on.
        value: of the shape of the view.
    """
    (op, statics, number), *inner = steps
    if inner:
        value = put(replay(base, steps[:1]), tuple(inner), value)
    return _PUT[op.name](base, value, statics, number)


def _put_at(base: Any, value: Any, statics: tuple, number: None) -> Tensor:
    return put_basic(base, value, statics[0])


def _put_piece(base: Any, value: Any, statics: tuple, number: int) -> Tensor:
    sizes, dim = statics
    start = sum(sizes[:number])
    return put_basic(base, value, (slice(None),) * dim + (slice(start, start + sizes[number]),))


def _put_row(base: Any, value: Any, statics: tuple, number: int) -> Tensor:
    return put_basic(base, value, (slice(None),) * statics[0] + (number, Ellipsis))


def _put_reshaped(base: Any, value: Any, statics: tuple, number: None) -> Tensor:
    return reshaped(value, tuple(base.shape))


def _put_permuted(base: Any, value: Any, statics: tuple, number: None) -> Tensor:
    dims = [dim % base.ndim for dim in statics[0]]
    return permuted(value, tuple([dims.index(dim) for dim in range(base.ndim)]))


_PUT = {
    "basic_index": _put_at,
    "permute": _put_permuted,
    "split_with_sizes": _put_piece,
    "unbind": _put_row,
    "view": _put_reshaped,
}
