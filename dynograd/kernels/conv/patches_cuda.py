"""Windows of images as columns, and columns added back into images, on CudaArrays."""

from __future__ import annotations

from typing import Any

import triton.language as tl

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.kernels.layout import paddings_triton as kernels
from dynograd.kernels.layout.copies_cuda import bits, contiguous, is_big

_BLOCK = 1024  # elements of a program, 8 for each thread of Triton's 4 warps


def columns_of_patches(x: CudaArray, kernel: Any, dilation: Any, padding: Any, stride: Any) -> CudaArray:
    """(N, C, H, W) to (N, C * kernel places, windows): each column is a window."""
    counts = _counts(x.shape[2:], kernel, dilation, padding, stride)
    shape = (x.shape[0], x.shape[1] * kernel[0] * kernel[1], counts[0] * counts[1])
    out = cuda_arrays.empty(shape, x.dtype, x.device_index)
    if out.size:
        sizes = (x.shape[1], *x.shape[2:], *counts, *kernel, *dilation, *padding, *stride, out.size)
        kernels.columns_of_patches(
            (-(-out.size // _BLOCK),), bits(contiguous(x)), bits(out), *sizes, BIG=is_big(out.size), BLOCK=_BLOCK
        )
    return out


def patches_of_columns(
    columns: CudaArray, sizes: Any, kernel: Any, dilation: Any, padding: Any, stride: Any
) -> CudaArray:
    """The transpose: (N, C * kernel places, windows) added into (N, C, *sizes)."""
    counts = _counts(sizes, kernel, dilation, padding, stride)
    channels = columns.shape[1] // (kernel[0] * kernel[1])
    out = cuda_arrays.empty((columns.shape[0], channels, *sizes), columns.dtype, columns.device_index)
    if out.size:
        numbers = (channels, *sizes, *counts, *kernel, *dilation, *padding, *stride, out.size)
        wide = tl.float64 if out.dtype.itemsize == 8 else tl.float32
        kernels.patches_of_columns(
            (-(-out.size // _BLOCK),), contiguous(columns), out, *numbers, ACC=wide, BIG=is_big(out.size), BLOCK=_BLOCK
        )
    return out


def _counts(sizes: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> list[int]:
    return [
        (size + 2 * p - d * (k - 1) - 1) // s + 1
        for size, k, d, p, s in zip(sizes, kernel, dilation, padding, stride, strict=True)
    ]
