"""Rows picked by index, and gradients added back into them, on CudaArrays. Half types add up in float32."""

from __future__ import annotations

from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.kernels.index.scatters_cuda import add_slices, take, write_slices
from dynograd.kernels.layout.copies_cuda import contiguous, sum_dtype, zeros


def embedding_forward(weight: CudaArray, indices: CudaArray) -> CudaArray:
    """weight[indices]: shape of `indices` plus the weight's columns."""
    return take(weight, indices, 0, "embedding", False)


def embedding_backward(g: CudaArray, indices: CudaArray, num_rows: int, padding_idx: int | None) -> CudaArray:
    """Gradient of the (num_rows, D) weight: the sum of each row's uses; row `padding_idx` (None for none) gets 0."""
    result = zeros((num_rows, g.shape[-1]), sum_dtype(g.dtype), g.device_index)
    skipped = -1 if padding_idx is None else padding_idx
    lines = contiguous(g).reshape((indices.size, g.shape[-1]))
    add_slices(result, 0, contiguous(indices).reshape(-1), lines, "embedding", False, skipped)
    return result.astype(g.dtype, copy=False)


def add_rows(table: CudaArray, index: CudaArray, rows: CudaArray) -> None:
    """table[index] += rows, in place; the rows of an index that is there several times add up."""
    if table.is_contiguous and table.dtype == sum_dtype(table.dtype):
        add_slices(table, 0, index, rows, "", False)
        return
    wide = contiguous(table).astype(sum_dtype(table.dtype))
    add_slices(wide, 0, index, rows.astype(wide.dtype), "", False)
    table[...] = wide.astype(table.dtype)


def write_rows(table: CudaArray, index: CudaArray, rows: CudaArray) -> None:
    """table[index] = rows, in place; each index once."""
    if table.is_contiguous:
        write_slices(table, 0, index, rows, "", False)
        return
    whole = contiguous(table)
    write_slices(whole, 0, index, rows, "", False)
    table[...] = whole
