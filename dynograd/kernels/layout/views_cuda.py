"""Strided views of CudaArrays, and the sums that undo those whose elements overlap."""

from __future__ import annotations

from math import prod
from typing import Any

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import CudaArray, operations
from dynograd.cuda import streams
from dynograd.kernels.layout import views_cpu
from dynograd.kernels.layout import views_triton as kernels
from dynograd.kernels.layout.copies_cuda import contiguous, is_big, sum_dtype, zeros


def reshaped_copy(x: CudaArray, shape: tuple[int, ...]) -> CudaArray:
    """The elements of `x` in row-major order in new memory of `shape`."""
    out = cuda_arrays.empty(tuple(shape), x.dtype, x.device_index)
    operations.copy_into(out.reshape(x.shape), x)
    return out


def view_as_dtype(x: CudaArray, dtype: Any) -> CudaArray:
    return x.view(dtype)


def diagonal(x: CudaArray, offset: int, dim1: int, dim2: int) -> CudaArray:
    """A writable view of the diagonal of dims `dim1` and `dim2`, as the last dim."""
    dim1, dim2 = dim1 % x.ndim, dim2 % x.ndim
    rows, columns = x.shape[dim1], x.shape[dim2]
    count = max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))
    skip = (offset * x.strides[dim2] if offset >= 0 else -offset * x.strides[dim1]) if count else 0
    kept = [dim for dim in range(x.ndim) if dim not in (dim1, dim2)]
    shape = (*[x.shape[dim] for dim in kept], count)
    return x.as_strided(shape, (*[x.strides[dim] for dim in kept], x.strides[dim1] + x.strides[dim2]), skip)


def diagonal_fill(g: CudaArray, shape: tuple[int, ...], offset: int, dim1: int, dim2: int) -> CudaArray:
    """Zeros of `shape` that hold `g` on a diagonal."""
    out = zeros(shape, g.dtype, g.device_index)
    operations.copy_into(diagonal(out, offset, dim1, dim2), g)
    return out


def diagonal_put(x: CudaArray, src: CudaArray, offset: int, dim1: int, dim2: int) -> CudaArray:
    """A copy of `x` that holds `src` on a diagonal."""
    out = x.copy()
    operations.copy_into(diagonal(out, offset, dim1, dim2), src)
    return out


def unfold_forward(x: CudaArray, dim: int, size: int, step: int) -> CudaArray:
    """Windows of `size` along `dim`, `step` apart, as a new last dim (a view)."""
    count = (x.shape[dim] - size) // step + 1
    shape = (*x.shape[:dim], count, *x.shape[dim + 1 :], size)
    return x.as_strided(shape, (*x.strides[:dim], x.strides[dim] * step, *x.strides[dim + 1 :], x.strides[dim]))


def unfold_backward(g: CudaArray, shape: tuple[int, ...], dim: int, size: int, step: int) -> CudaArray:
    """Each window's gradient added to where the window was."""
    kind = sum_dtype(g.dtype)
    if g.size == 0 or g.dtype.kind == "c":
        out = zeros(shape, kind, g.device_index)
        if g.size:
            for part in ("real", "imag"):
                getattr(out, part)[...] = unfold_backward(getattr(g, part).copy(), shape, dim, size, step)
        return out
    out = cuda_arrays.empty(shape, kind, g.device_index)
    inner, count = prod(shape[dim + 1 :]), g.shape[dim]
    kernels.sum_windows(
        (-(-out.size // 1024),),
        contiguous(g),
        out,
        shape[dim],
        count,
        inner,
        size,
        step,
        -(-size // step),
        out.size,
        BIG=is_big(out.size),
        BLOCK=1024,
    )
    return out.astype(g.dtype, copy=False)


def as_strided(x: CudaArray, size: tuple[int, ...], stride: tuple[int, ...], offset: int) -> CudaArray:
    """The memory of `x` from `offset` elements after its first one, with any strides (in elements)."""
    return x.as_strided(tuple(size), tuple([step * x.itemsize for step in stride]), offset * x.itemsize)


def memory_places(
    shape: tuple[int, ...],
    stride: tuple[int, ...],
    size: tuple[int, ...],
    new_stride: tuple[int, ...],
    offset: int,
    like: Any = None,
) -> tuple[CudaArray, CudaArray]:
    """(positions in an `as_strided` view, positions in its input) of the elements that share memory. Made on the CPU."""
    index = streams.current_device() if like is None else like.device_index
    inside, places = views_cpu.memory_places(shape, stride, size, new_stride, offset)
    return cuda_arrays.from_numpy(inside, index), cuda_arrays.from_numpy(places, index)
