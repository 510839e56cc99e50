"""What an `ExportedProgram` of `dynograd.export` says of itself, for its export to ONNX: an example, and the sizes that may differ."""

from __future__ import annotations

import math
from typing import Any

import numpy

from dynograd.base import dtypes
from dynograd.export.derived_dims import DerivedSize, derived
from dynograd.export.dynamic_shapes import Dim
from dynograd.export.encoding import built
from dynograd.export.exported_program import ExportedProgram
from dynograd.ragged import RaggedTensor
from dynograd.tensor.tensor import Tensor

__all__ = ["axes_of_program", "example_of"]

_LENGTHS = [3, 1, 2]  # of the rows of a ragged example


def example_of(program: ExportedProgram) -> tuple[Any, ...]:
    """Arguments that fit: numbers between -1 and 1, or 0 and 1 of whole numbers, which may be indices."""
    sizes = {}
    for number, (name, bounds) in enumerate(program.dims.items()):
        size = max(bounds.least, 2) + 2 * number
        sizes[name] = size if bounds.most is None else min(size, bounds.most)
    tensors = []
    for each in program.arguments.inputs:
        names = each.ragged[1:] if each.ragged else ()
        sizes.update(zip(names, (len(_LENGTHS), sum(_LENGTHS), max(_LENGTHS))))
        shape = [_form(size).at(sizes) if isinstance(size, str) else size for size in each.shape]
        dtype = getattr(dtypes, each.dtype).numpy
        numbers = (
            numpy.sin(numpy.arange(math.prod(shape))) if dtype.kind not in "iub" else numpy.arange(math.prod(shape)) % 2
        )
        values = Tensor.wrap(numbers.astype(dtype).reshape(shape))
        tensors.append(RaggedTensor(values, _LENGTHS, dim=each.ragged[0]) if each.ragged else values)
    return tuple([built(value, tensors, ()) for value in program.arguments.spec.values()])


def axes_of_program(program: ExportedProgram) -> dict[str, Any]:
    """Its dynamic axes, as `dynamic_shapes`; those of ragged inputs may be any without it."""
    dims = {name: Dim(name, min=bounds.least, max=bounds.most) for name, bounds in program.dims.items()}
    return {
        each.name: {axis: _dim(dims, size) for axis, size in enumerate(each.shape) if isinstance(size, str)}
        for each in program.arguments.inputs
        if not each.ragged
    }


def _form(text: str) -> DerivedSize:
    return derived(text) or DerivedSize(text)


def _dim(dims: dict[str, Dim], text: str) -> Dim:
    form = _form(text)
    return dims[form.root] * form.times + form.plus
