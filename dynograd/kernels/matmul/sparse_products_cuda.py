"""Products of compressed rows with dense matrices, on CudaArrays. Half types add up in float32."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.cuda import driver
from dynograd.kernels.build import faults_cuda as faults
from dynograd.kernels.build.through_host_cuda import through_host
from dynograd.kernels.elementwise.loops_cuda import compute_type, triton_type
from dynograd.kernels.index.lookups_cuda import places_among
from dynograd.kernels.index.scatters_cuda import take
from dynograd.kernels.layout.copies_cuda import contiguous
from dynograd.kernels.layout.creation_cuda import counted_up
from dynograd.kernels.matmul import sparse_products_cpu
from dynograd.kernels.matmul import sparse_products_triton as kernels
from dynograd.kernels.sort.sorting_cuda import order_of

_INT64 = numpy.dtype(numpy.int64)


def product(values: CudaArray, crow: CudaArray, col: CudaArray, dense: CudaArray) -> CudaArray:
    """(rows, K): the sparse matrix times `dense` (C, K)."""
    if values.dtype.kind == "c":
        return _on_host("product")(values, crow, col, dense)
    rows, width = crow.size - 1, dense.shape[1]
    out = cuda_arrays.empty((rows, width), values.dtype, values.device_index)
    if out.size:
        block, constants = _tile(width, values.dtype)
        kernels.product(
            (rows, -(-width // block)), contiguous(values), contiguous(crow, _INT64), contiguous(col, _INT64), contiguous(dense),
            out, *_checks(col, dense.shape[0]), width, COLS=block, **constants,
        )  # fmt: skip
    return out


def transposed_product(values: CudaArray, crow: CudaArray, col: CudaArray, dense: CudaArray, columns: int) -> CudaArray:
    """(columns, K): the transpose of the sparse matrix times `dense` (rows, K)."""
    if values.dtype.kind == "c":
        return _on_host("transposed_product")(values, crow, col, dense, columns)
    device = values.device_index
    col = contiguous(col, _INT64)
    order = order_of(col, columns)
    rows = places_among(contiguous(crow, _INT64)[1:], counted_up(col.size, device), True)
    starts = places_among(take(col, order, 0, ""), counted_up(columns + 1, device), False)
    return product(take(contiguous(values), order, 0, ""), starts, take(rows, order, 0, ""), dense)


def sampled(left: CudaArray, right: CudaArray, crow: CudaArray, col: CudaArray) -> CudaArray:
    """(entries,): `left @ right.T` where the sparse matrix has entries."""
    if left.dtype.kind == "c":
        return _on_host("sampled")(left, right, crow, col)
    out = cuda_arrays.empty((col.size,), left.dtype, left.device_index)
    rows, width = left.shape
    if out.size and rows:
        block, constants = _tile(width, left.dtype)
        kernels.sampled(
            (rows,), contiguous(left), contiguous(right), contiguous(crow, _INT64), contiguous(col, _INT64), out,
            *_checks(col, right.shape[0]), width, COLS=block, **constants,
        )  # fmt: skip
    return out


def _tile(width: int, kind: Any) -> tuple[int, dict[str, Any]]:
    most = 1 << 16 if driver.is_emulated() else 256
    block = min(most, 1 << max(width - 1, 15).bit_length())
    return block, dict(ACC=triton_type(compute_type(kind)), num_warps=2 if block < 256 else 4)


def _checks(col: CudaArray, columns: int) -> tuple[Any, ...]:
    return faults.word(col.device_index), faults.site("sparse", col, 0, columns), columns


@cache
def _on_host(name: str) -> Callable[..., Any]:
    return through_host(f"sparse_products.{name}", getattr(sparse_products_cpu, name))
