"""Triangles and diagonals of matrices on CudaArrays."""

from __future__ import annotations

from typing import Any

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.kernels.layout import creation_triton as kernels
from dynograd.kernels.layout.copies_cuda import bits, contiguous, empty_like
from dynograd.kernels.layout.creation_cuda import index_of
from dynograd.kernels.linalg import triangles_cpu


def tril(x: CudaArray, diagonal: int) -> CudaArray:
    """The elements on and below a diagonal of the last two dims; zeros above."""
    return _kept(x, diagonal, True)


def triu(x: CudaArray, diagonal: int) -> CudaArray:
    """The elements on and above a diagonal of the last two dims; zeros below."""
    return _kept(x, diagonal, False)


def _kept(x: CudaArray, diagonal: int, lower: bool) -> CudaArray:
    x = contiguous(x)
    out = empty_like(x)
    if x.itemsize == 16:
        parts = [_kept(part.copy(), diagonal, lower) for part in (x.real, x.imag)]
        out.real[...], out.imag[...] = parts
        return out
    if x.size:
        rows, columns = x.shape[-2:]
        grid = (-(-x.size // 1024),)
        diagonal = max(-rows - 1, min(diagonal, columns + 1))
        kernels.triangle(
            grid,
            bits(x),
            bits(out),
            rows,
            columns,
            diagonal,
            x.size,
            LOWER=lower,
            BIG=x.size > (1 << 31) - 2048,
            BLOCK=1024,
        )
    return out


def triangle_indices(rows: int, columns: int, offset: int, lower: bool, device: Any = None) -> CudaArray:
    """(2, N): row and column numbers of the elements on and below (or above) a diagonal, row by row. Made on the CPU."""
    return cuda_arrays.from_numpy(triangles_cpu.triangle_indices(rows, columns, offset, lower), index_of(device))
