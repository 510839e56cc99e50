"""`torch._higher_order_ops`: functions of functions that a tracer would see; here they run as the Python that they are."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from dynograd.tensor.top_level import cond, while_loop
from dynograd.utils import _pytree

dynograd: Any = sys.modules["dynograd"]  # its public names, as programs have them: it lies above this layer

__all__ = ["associative_scan", "cond", "map", "scan", "while_loop"]


def associative_scan(
    combine_fn: Callable[[Any, Any], Any],
    xs: Any,
    dim: int,
    reverse: bool = False,
    combine_mode: str = "pointwise",
    **options: Any,
) -> object:
    """Running results of an associative function along a dim of a structure of tensors, in log2(n) rounds.

    >>> from dynograd._higher_order_ops.associative_scan import associative_scan
    >>> associative_scan(lambda a, b: a * b, tensor([1, 2, 3, 4]), dim=0)
    tensor([ 1,  2,  6, 24])
    """
    leaves, spec = _pytree.tree_flatten(xs)
    if reverse:
        leaves = [leaf.flip(dim) for leaf in leaves]
    count, step = leaves[0].shape[dim], 1
    while step < count:
        early = [leaf.narrow(dim, 0, count - step) for leaf in leaves]
        late = [leaf.narrow(dim, step, count - step) for leaf in leaves]
        joined = combine_fn(_pytree.tree_unflatten(early, spec), _pytree.tree_unflatten(late, spec))
        results = _pytree.tree_leaves(joined)
        leaves = [dynograd.cat([leaf.narrow(dim, 0, step), result], dim) for leaf, result in zip(leaves, results)]
        step *= 2
    if reverse:
        leaves = [leaf.flip(dim) for leaf in leaves]
    return _pytree.tree_unflatten(leaves, spec)


def scan(
    combine_fn: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any,
    *,
    dim: int = 0,
    reverse: bool = False,
    **options: Any,
) -> tuple[Any, Any]:
    """(the last state, the outputs joined along a new first dim): `combine_fn(state, x)` gives the next state and an output.

    >>> from dynograd._higher_order_ops.scan import scan
    >>> scan(lambda state, x: (state + x, state * x), tensor(0), tensor([1, 2, 3]))
    (tensor(6), tensor([0, 2, 9]))
    """
    leaves, spec = _pytree.tree_flatten(xs)
    places = range(leaves[0].shape[dim])
    outputs: list[Any] = []
    form: Any = None
    for place in reversed(places) if reverse else places:
        init, output = combine_fn(init, _pytree.tree_unflatten([leaf.select(dim, place) for leaf in leaves], spec))
        values, form = _pytree.tree_flatten(output)
        outputs.append(values)
    if reverse:
        outputs.reverse()
    return init, _pytree.tree_unflatten([dynograd.stack(column) for column in zip(*outputs)], form)


def map(f: Callable[..., Any], xs: Any, *args: Any) -> object:
    """Results of `f` for each row of a structure of tensors, joined along a new first dim."""
    leaves, spec = _pytree.tree_flatten(xs)
    rows = [f(_pytree.tree_unflatten([leaf[place] for leaf in leaves], spec), *args) for place in range(len(leaves[0]))]
    columns = zip(*[_pytree.tree_leaves(row) for row in rows])
    return _pytree.tree_unflatten([dynograd.stack(column) for column in columns], _pytree.tree_structure(rows[0]))
