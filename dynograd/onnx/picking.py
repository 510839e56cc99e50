"""Ops that give as many elements as values say, `x[mask]` and `nonzero`: how many these are is a size of its own in the model."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from dynograd.onnx.records import Record
from dynograd.ops.op import registry
from dynograd.plans.recording import NO_MASKS, depends_on_values
from dynograd.plans.reporting.graphs import Node, Value
from dynograd.tensor.tensor import Tensor

__all__ = ["Pick", "changed", "picking_ops", "picks_in", "picks_of", "unmoved", "values_in"]

_OF_ANY_VALUES = ("bincount", "index_put_at")  # whose results may have one size, with `minlength` and always


@dataclass(frozen=True)
class Pick:
    """A size that follows from values.

    Args:
        name: of the size.
        node, result, axis: which axis of which result of which node.
    """

    name: str
    node: int
    result: int
    axis: int

    def value(self, record: Record) -> Value:
        """What has that size."""
        return record.nodes[self.node].results[self.result]

    def size(self, record: Record) -> int:
        """The size in a record."""
        return int(self.value(record).shape[self.axis])


@functools.cache
def picking_ops() -> frozenset[str]:
    """Names of the ops the shapes of whose results, or of whose operands, depend on values."""
    rows = {entry.name: entry.row["at_once"] or entry.row["partly_at_once"] or "" for entry in registry.values()}
    return frozenset({name for name, reason in rows.items() if "depends on values" in reason})


def picks_in(record: Record) -> list[int]:
    """The nodes of which values say how much they pick or write."""
    return [place for place, node in enumerate(record.nodes) if _picks(node)]


def _picks(node: Node) -> bool:
    if node.op is None or node.op.name not in picking_ops():
        return False
    inputs = [value for name, value in node.arguments.items() if name not in NO_MASKS]
    masks = [value for value in values_in(inputs) if value.dtype.name == "bool"]
    return depends_on_values(node.op, ()) or bool(masks)


def values_in(value: Any) -> list[Value]:
    """The tensors in an argument."""
    if isinstance(value, dict):
        return values_in(list(value.values()))
    if isinstance(value, (list, tuple)):
        return [each for part in value for each in values_in(part)]
    return [value] if isinstance(value, Value) else []


def picks_of(record: Record, others: Sequence[Record]) -> list[Pick]:
    """The sizes that differ in records of the same program at the same sizes of its inputs."""
    picks: list[Pick] = []
    for place in picks_in(record):
        for number, value in enumerate(record.nodes[place].results):
            for axis, size in enumerate(value.shape):
                if any([other.nodes[place].results[number].shape[axis] != size for other in others]):
                    picks.append(Pick(f"{record.nodes[place].name}_size_{len(picks)}", place, number, axis))
    return picks


def unmoved(record: Record, picks: Sequence[Pick]) -> list[Node]:
    """The nodes that have picked as many in each record: what follows from that number would be constant."""
    places = {*picks_in(record)} - {pick.node for pick in picks}
    return [node for node in map(record.nodes.__getitem__, sorted(places)) if node.name not in _OF_ANY_VALUES]


def changed(tensor: Tensor, turn: int) -> Tensor:
    """Other values of the same kind: a third of the tensor's own in places that are drawn, from the second turn on with other signs, too.

    Integers in order stay, since they are lengths or offsets.
    """
    array = tensor.detach().numpy()
    in_order = array.ndim == 1 and array.dtype.kind in "iu" and bool((numpy.diff(array) >= 0).all())
    if not turn or not array.size or in_order:
        return tensor
    draws = numpy.random.default_rng(turn)
    few = draws.integers(array.size, size=max(array.size // 3, 1))
    array = array.reshape(-1)[draws.choice(few, size=array.shape)]
    if turn > 1 and array.dtype.kind == "f":
        array = array * draws.choice([1, -1], size=array.shape).astype(array.dtype)
    if turn > 1 and array.dtype.kind == "b":
        array = draws.random(array.shape) < 0.5
    return Tensor.wrap(numpy.ascontiguousarray(array))
