"""Complex numbers on the GPU, twin of `complexes_cpu`: views of their parts, and arithmetic on these.

Triton has no complex numbers: sums, products and quotients are those of the real and imaginary parts, some launches each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import CudaArray, operations


def from_parts(real: CudaArray, imag: CudaArray) -> CudaArray:
    """real + i * imag, two real arrays of one shape and dtype."""
    result = cuda_arrays.empty(real.shape, numpy.result_type(real.dtype, numpy.complex64), real.device_index)
    operations.copy_into(result.real, real)
    operations.copy_into(result.imag, imag)
    return result


def view_as_real(x: CudaArray) -> CudaArray:
    """The memory of `x` with real and imaginary parts along a new last dim."""
    part = x.real
    return part.as_strided((*x.shape, 2), (*x.strides, part.itemsize))


def view_as_complex(x: CudaArray) -> CudaArray:
    """The memory of pairs along the last dim read as complex numbers; a copy where it does not lie so."""
    item = x.itemsize
    kind = numpy.result_type(x.dtype, numpy.complex64)
    if x.size and (
        x.strides[-1] != item or x.pointer % (2 * item) or any([step % (2 * item) for step in x.strides[:-1]])
    ):
        return from_parts(x[..., 0], x[..., 1])
    return CudaArray(x.storage, x.pointer, x.shape[:-1], x.strides[:-1], kind)


def angle(x: CudaArray) -> CudaArray:
    """The angle of complex numbers."""
    return operations.elementwise("atan2", x.imag, x.real)


def modulus(x: CudaArray) -> CudaArray:
    """The absolute value of complex numbers."""
    return operations.elementwise("hypot", x.real, x.imag)


# --- arithmetic: (real, imaginary) of each operand, a number for the parts that are one -----------------------------------------


def _product(a: Any, b: Any, c: Any, d: Any) -> tuple[Any, Any]:
    return a * c - b * d, a * d + b * c


def _quotient(a: Any, b: Any, c: Any, d: Any) -> tuple[Any, Any]:
    """Scaled by the larger part of the divisor (Smith 1962), so that squares do not overflow."""
    where = operations.elementwise
    larger = where("maximum", where("abs", c), where("abs", d)) if isinstance(c, CudaArray) else max(abs(c), abs(d))
    c, d = c / larger, d / larger
    a, b = a / larger, b / larger
    size = c * c + d * d
    return (a * c + b * d) / size, (b * c - a * d) / size


ARITHMETIC: dict[str, Callable[..., tuple[Any, Any]]] = {
    "add": lambda a, b, c, d: (a + c, b + d),
    "sub": lambda a, b, c, d: (a - c, b - d),
    "mul": _product,
    "div": _quotient,
    "neg": lambda a, b: (-a, -b),
    "conj": lambda a, b: (a, -b),
    "square": lambda a, b: _product(a, b, a, b),
}
