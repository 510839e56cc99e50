"""Whether what a record holds as constant is so: the same program, of other values of the same sizes, must have the same record.

Programs and composed ops may compute with arrays beside ops (a mask made by NumPy, numbers drawn at random): a record has what came of that.
"""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.arrays import ndarray
from dynograd.onnx.records import Record
from dynograd.plans.reporting.graphs import Value
from dynograd.tensor.tensor import Tensor

__all__ = ["differing_line", "rolled"]


_SHRUNK = 0.97  # so that probabilities and positive numbers stay what they are


def rolled(tensor: Tensor, by: int) -> Tensor:
    """The tensor with rows in another order, and numbers a little smaller: other values, of the same kind.

    Integers in order stay, since they are lengths or offsets.
    """
    array = tensor.detach().numpy()
    if array.ndim == 1 and array.dtype.kind in "iu":
        steps = numpy.diff(array)
        if (steps >= 0).all() or (steps <= 0).all():
            return Tensor.wrap(array.copy())
    axis = next((axis for axis, size in enumerate(array.shape) if size > 1), None)
    array = array.copy() if axis is None else numpy.roll(array, by, axis)
    return Tensor.wrap((array * _SHRUNK**by).astype(array.dtype) if tensor.is_floating_point() else array)


def differing_line(first: Record, other: Record, sizes_too: bool = True) -> str | None:
    """The line of the first op with which two records of a program differ, of tensors that differ in their values; None: they are alike.

    Without `sizes_too` sizes may differ, as they do where they follow from values.
    """
    results = [{value for value, _, _ in record.made()} for record in (first, other)]
    differing = {
        place
        for place, (value, twin) in enumerate(zip(first.graph.inputs, other.graph.inputs))
        if value.kind != twin.kind
        or (
            value not in results[0]
            and value.kind != "argument"
            and not _is_same(first.outside[place], other.outside[place])
            and (sizes_too or value.shape == twin.shape)
        )
    }
    unlike = {first.graph.inputs[place] for place in differing}
    for node, twin in zip(first.nodes, other.nodes):
        shapes = [[value.shape for value in each.results] for each in (node, twin)]
        if node.name != twin.name or len(shapes[0]) != len(shapes[1]):
            return node.line
        if sizes_too and (shapes[0] != shapes[1] or not _are_alike(node.arguments, twin.arguments)):
            return node.line
        if unlike.intersection(node.inputs):
            return node.line
    if len(first.nodes) != len(other.nodes) or len(first.graph.inputs) != len(other.graph.inputs):
        return first.nodes[-1].line
    for structure, its_twin in zip(first.structures, other.structures):
        for body, second in zip(structure.bodies, its_twin.bodies):
            line = differing_line(body.record, second.record)
            if line is not None and not (body.captured or second.captured):
                return line
    return None


def _is_same(tensor: Tensor, other: Tensor) -> bool:
    return tensor is other or numpy.array_equal(
        tensor.detach().numpy(), other.detach().numpy(), equal_nan=tensor.is_floating_point()
    )


def _are_alike(value: Any, other: Any) -> bool:
    """Whether arguments that are no tensors are the same."""
    if isinstance(value, Value):
        return isinstance(other, Value)
    if isinstance(value, dict):
        return list(value) == list(other) and all([_are_alike(value[key], other[key]) for key in value])
    if isinstance(value, (list, tuple)):
        return len(value) == len(other) and all([_are_alike(part, twin) for part, twin in zip(value, other)])
    if isinstance(value, ndarray):
        return isinstance(other, ndarray) and numpy.array_equal(value, other)
    return value is other or repr(value) == repr(other)
