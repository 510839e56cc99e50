"""A GPU kernel against its CPU twin, on the same numbers."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.arrays.cuda_arrays import CudaArray, from_numpy
from dynograd.kernels import module_of

__all__ = ["compared", "on_device"]

_TOLERANCES = {"float64": 1e-9, "float32": 2e-5, "float16": 2e-3, "bfloat16": 2e-2}


def on_device(value: Any) -> Any:
    """Arrays as CudaArrays with the same strides where they are a transposed or sliced whole, anything else as it is."""
    value = numpy.asarray(value) if isinstance(value, numpy.generic) else value
    if not isinstance(value, numpy.ndarray):
        return value
    order = sorted(range(value.ndim), key=lambda place: -value.strides[place])
    moved = from_numpy(value.transpose(order), 0)
    return moved.transpose(tuple([int(place) for place in numpy.argsort(order)]))


def compared(
    family: str, name: str, *arguments: Any, loose: float = 1.0, where: Any = None, given: Any = None
) -> tuple[Any, Any]:
    """(what the GPU kernel gives, what the CPU kernel gives) once their shapes, dtypes and values have been compared.

    Args:
        loose: a factor for the tolerance.
        given: other arguments for the GPU's kernel.
    """
    expected = getattr(module_of(f"{family}_cpu"), name)(*arguments)
    mine = [on_device(argument) for argument in arguments] if given is None else given
    result = getattr(module_of(f"{family}_cuda"), name)(*mine)
    pairs = zip(result, expected, strict=True) if isinstance(expected, tuple) else [(result, expected)]
    for number, (element, other) in enumerate(pairs):
        if other is None or isinstance(other, (bool, str)):
            assert element == other
            continue
        other = numpy.asarray(other)
        assert isinstance(element, CudaArray)
        assert element.shape == other.shape, number
        assert element.dtype == other.dtype, number
        near(element, other, loose)
    return result, expected


def near(result: CudaArray, wanted: Any, loose: float = 1.0) -> None:
    """Compares values as exactly as their dtype allows, relative to the largest."""
    shown = result.numpy()
    if wanted.dtype.kind in "iub":
        numpy.testing.assert_array_equal(shown, wanted)
        return
    shown, wide = shown.astype("float64"), wanted.astype("float64")
    tolerance = _TOLERANCES[str(wanted.dtype)] * loose
    scale = max(1.0, float(numpy.abs(wide[numpy.isfinite(wide)]).max(initial=0.0)))
    numpy.testing.assert_allclose(shown, wide, rtol=tolerance, atol=tolerance * scale)
