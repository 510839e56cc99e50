"""Dropout of elements in one pass, alone or with a residual added, on CudaArrays. The mask is the one of `random_cpu`."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.kernels.layout.copies_cuda import contiguous, empty_like, is_half
from dynograd.kernels.random import random_triton as kernels
from dynograd.kernels.random.random_cpu import threshold_of
from dynograd.kernels.random.random_cuda import _BLOCK, halves


def in_one_pass(x: CudaArray) -> bool:
    """Whether the kernels here take this array: float32 and half types, row by row."""
    return (x.dtype.char == "f" or is_half(x.dtype)) and x.size > 0 and x.is_contiguous


def dropout_forward(seed: Any, offset: Any, x: CudaArray, p: float) -> tuple[CudaArray, CudaArray]:
    """(y, mask): x times 0 with probability p and 1 / (1 - p) otherwise; mask (uint8) says which stay.

    Seed and offset may be two int32 each on the device, as CUDA graphs need it.
    """
    return _dropped(seed, offset, x, x, p, False)


def dropout_add_forward(
    seed: Any, offset: Any, x: CudaArray, residual: CudaArray, p: float
) -> tuple[CudaArray, CudaArray]:
    """(y, mask) with y = residual + dropout(x)."""
    return _dropped(seed, offset, x, residual, p, True)


def _dropped(
    seed: Any, offset: Any, x: CudaArray, residual: CudaArray, p: float, add: bool
) -> tuple[CudaArray, CudaArray]:
    y = empty_like(x)
    kept = cuda_arrays.empty(x.shape, numpy.uint8, x.device_index)
    grid = (-(-x.size // (4 * _BLOCK)),)
    numbers = int(threshold_of(p)), _scale(p), *halves(seed), *halves(offset), x.size
    kernels.dropout(grid, x, residual, y, kept, *numbers, ADD=add, PLACED=type(seed) is CudaArray, BLOCK=_BLOCK)
    return y, kept


def dropout_backward(g: CudaArray, mask: CudaArray, p: float) -> CudaArray:
    """Gradient of the input."""
    g = contiguous(g)
    gx = empty_like(g)
    kernels.dropout_gradient((-(-g.size // 1024),), g, contiguous(mask), gx, _scale(p), g.size, BLOCK=1024)
    return gx


def _scale(p: float) -> Any:
    return float(numpy.float32(1 / (1 - p) if p < 1 else 0))
