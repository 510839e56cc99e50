"""Resampling along one dim of CudaArrays, and its transpose: sparse matrices as in `interpolations_cpu`, kept on the device."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy
import triton.language as tl

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.kernels.image import interpolations_cpu as cpu
from dynograd.kernels.image import poolings_triton as kernels
from dynograd.kernels.index.scatters_cuda import take
from dynograd.kernels.layout.copies_cuda import contiguous, is_big, three

_BLOCK = 1024  # elements of a program, 8 for each thread of Triton's 4 warps


def resample(x: CudaArray, dim: int, count: int, rule: str, align_corners: bool, scale: float | None) -> CudaArray:
    """x with `count` places along `dim`; `rule` is "nearest", "nearest-exact", "linear" or "cubic"."""
    if rule in ("nearest", "nearest-exact"):
        return take(x, _nearest(x.device_index, x.shape[dim], count, rule, scale), dim, "")
    wide = x.itemsize == 8
    return _product(
        x, dim, count, *_tables("matrix", x.device_index, wide, x.shape[dim], count, rule, align_corners, scale)
    )


def resample_backward(
    g: CudaArray, dim: int, size: int, rule: str, align_corners: bool, scale: float | None
) -> CudaArray:
    """The transpose of `resample` from `size` places."""
    wide = g.itemsize == 8
    return _product(
        g, dim, size, *_tables("transposed", g.device_index, wide, size, g.shape[dim], rule, align_corners, scale)
    )


def _product(x: CudaArray, dim: int, count: int, starts: CudaArray, places: CudaArray, weights: CudaArray) -> CudaArray:
    """A sparse matrix (row i holds the entries from starts[i] to starts[i + 1]) applied along `dim`."""
    out = cuda_arrays.empty((*x.shape[:dim], count, *x.shape[dim + 1 :]), x.dtype, x.device_index)
    if out.size:
        _, size, inner = three(x, dim)
        grid = (-(-out.size // _BLOCK),)
        acc: Any = tl.float64 if x.itemsize == 8 else tl.float32
        kernels.weighted_sums(
            grid,
            contiguous(x),
            starts,
            places,
            weights,
            out,
            size,
            count,
            inner,
            out.size,
            ACC=acc,
            BIG=is_big(out.size),
            BLOCK=_BLOCK,
        )
    return out


@lru_cache(maxsize=256)
def _nearest(device: int, size: int, count: int, rule: str, scale: float | None) -> CudaArray:
    return cuda_arrays.from_numpy(cpu.nearest(size, count, rule, scale), device)


@lru_cache(maxsize=256)
def _tables(name: str, device: int, wide: bool, *how: Any) -> tuple[CudaArray, CudaArray, CudaArray]:
    starts, places, weights = getattr(cpu, name)(*how)
    kind = numpy.float64 if wide else numpy.float32
    first, second = [cuda_arrays.from_numpy(table.astype(numpy.int64), device) for table in (starts, places)]
    return first, second, cuda_arrays.from_numpy(weights.astype(kind), device)
