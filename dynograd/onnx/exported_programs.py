"""What an `ExportedProgram` of `dynograd.export` says of itself, for its export to ONNX: an example, and the sizes that may differ."""

from __future__ import annotations

import math
from typing import Any

import numpy

from dynograd.base import dtypes
from dynograd.errors import OnnxError
from dynograd.export.dynamic_shapes import Dim
from dynograd.export.encoding import built
from dynograd.export.exported_program import ExportedProgram
from dynograd.tensor.tensor import Tensor

__all__ = ["axes_of_program", "example_of"]


def example_of(program: ExportedProgram) -> tuple[Any, ...]:
    """Arguments that fit: numbers between -1 and 1, or zeros of whole numbers, which may be indices."""
    sizes = {}
    for number, (name, bounds) in enumerate(program.dims.items()):
        size = max(bounds.least, 2) + 2 * number
        sizes[name] = size if bounds.most is None else min(size, bounds.most)
    tensors = []
    for each in program.arguments.inputs:
        shape = [sizes[size] if isinstance(size, str) else size for size in each.shape]
        dtype = getattr(dtypes, each.dtype).numpy
        numbers = (
            numpy.sin(numpy.arange(math.prod(shape))) if dtype.kind not in "iub" else numpy.zeros(math.prod(shape))
        )
        tensors.append(Tensor.wrap(numbers.astype(dtype).reshape(shape)))
    return tuple([built(value, tensors, ()) for value in program.arguments.spec.values()])


def axes_of_program(program: ExportedProgram) -> dict[str, Any]:
    """Its dynamic axes, as `dynamic_shapes`.

    Raises:
        OnnxError: it has a ragged input.
    """
    ragged = next((each.name for each in program.arguments.inputs if each.ragged), None)
    if ragged is not None:
        raise OnnxError(
            f"onnx.export: {ragged} of {program.name} is ragged, and what a program does with rows is no call of ops. Export the module or function "
            f"that it was made of, with ragged='values' or 'padded'."
        )
    dims = {name: Dim(name, min=bounds.least, max=bounds.most) for name, bounds in program.dims.items()}
    return {
        each.name: {axis: dims[size] for axis, size in enumerate(each.shape) if isinstance(size, str)}
        for each in program.arguments.inputs
    }
