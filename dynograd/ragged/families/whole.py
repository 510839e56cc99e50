"""Ops that take the packed elements as they are: copies, conversions, and reductions of all elements."""

from __future__ import annotations

from typing import Any

from dynograd.base.shapes import normalize_dim
from dynograd.ops.op import registry, rows_with
from dynograd.ragged.calls import Call, ragged_rule, results
from dynograd.ragged.families.selecting import row_of
from dynograd.ragged.invoking import run
from dynograd.ragged.tensor import RaggedTensor

__all__ = ["on_packed"]


@ragged_rule(*rows_with("ragged", "packed"), kind="packed", note="the packed elements as they are")
def on_packed(call: Call) -> Any:
    """The op on the packed elements; the rows stay."""
    like = call.ragged()[0]
    arguments = call.map_ragged(lambda x: x.packed)
    if "memory_format" in arguments:
        arguments["memory_format"] = None
    result = call.on(arguments)
    return like if result is like.packed else results(result, like.with_packed)


@ragged_rule("to", "type_as", kind="packed")
def to(call: Call) -> Any:
    """The packed elements in another dtype or on another device; the offsets follow."""
    x = call["input"]
    if not isinstance(x, RaggedTensor):
        return call.on(call.map_ragged(lambda x: _one_element(x)))
    return on_packed(
        Call(call.key, call.op, call.map_ragged(lambda other: other if other is x else _one_element(other)))
    )


def _one_element(x: RaggedTensor) -> Any:
    """A tensor of the dtype and device of `x`."""
    inner = x.packed
    while isinstance(inner, RaggedTensor):
        inner = inner.packed
    return inner


@ragged_rule("unbind", kind="rows")
def unbind(call: Call) -> Any:
    """Dim 0: the rows, as views of the packed elements. Another dim: its slices; the ragged dim has no common ones."""
    x = call["input"]
    dim = normalize_dim("unbind", call["dim"], x.ndim)
    if dim:
        size = x.shape[dim]
        if not isinstance(size, int):
            raise call.refuse(
                f"dim {dim} is ragged: rows have different numbers of slices (lengths {x.partition.lengths.tolist()[:8]}). Use dim 0."
            )
        return tuple([run("select", x, dim, number) for number in range(size)])
    part = x.partition
    if x.place == 1 and not isinstance(x.packed, RaggedTensor) and part.count:
        return tuple(registry["split_with_sizes"].function(x.packed, tuple(part.lengths.tolist()), 0))
    return tuple([row_of(x, number) for number in range(part.count)])
