"""How optimizers lay complex CudaArrays out: as real ones."""

from __future__ import annotations

from dynograd.arrays.cuda_arrays import CudaArray


def real_view(x: CudaArray) -> CudaArray:
    """A complex array's memory as (..., 2) numbers, real part and imaginary part."""
    part = x.real
    return CudaArray(x.storage, x.pointer, (*x.shape, 2), (*x.strides, part.itemsize), part.dtype)
