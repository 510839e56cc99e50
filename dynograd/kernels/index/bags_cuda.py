"""Bags of embedding indices and the factors of embedding gradients, on CudaArrays."""

from __future__ import annotations

import math
from typing import Any

import numpy

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import CudaArray, operations
from dynograd.cuda import streams
from dynograd.kernels.build import faults_cuda as faults
from dynograd.kernels.index import lookups_triton as kernels
from dynograd.kernels.index.lookups_cuda import counted, places_among
from dynograd.kernels.index.scatters_cuda import take, true_places
from dynograd.kernels.layout.copies_cuda import contiguous
from dynograd.kernels.layout.creation_cuda import counted_up

_INT64 = numpy.dtype(numpy.int64)


def inverse_frequencies(indices: CudaArray, rows: int, dtype: Any) -> CudaArray:
    """(*indices, 1): 1 / how often each index occurs."""
    counts = counted(contiguous(indices), rows)
    shares = operations.elementwise("reciprocal", counts.astype(numpy.float64))
    return take(shares.astype(dtype), indices, 0, "").reshape((*indices.shape, 1))


def unlike(indices: CudaArray, value: int, dtype: Any) -> CudaArray:
    """(*indices, 1): 0 where an index is `value`, else 1."""
    return (indices != value).astype(dtype).reshape((*indices.shape, 1))


def kept_places(indices: CudaArray, value: int) -> CudaArray:
    return true_places(operations.elementwise("ne", indices, value))


def equal_bags(bags: int, size: int, like: Any = None) -> CudaArray:
    """The bag of each index of a (bags, size) table, row by row."""
    device = streams.current_device() if like is None else like.device_index
    return contiguous(counted_up(bags, device).reshape((bags, 1)).broadcast_to((bags, size))).reshape((bags * size,))


def bag_numbers(offsets: CudaArray, total: int, include_last: bool) -> CudaArray:
    """The bag of each of `total` indices; bag b begins at offsets[b]."""
    starts = offsets[:-1] if include_last else offsets
    behind = places_among(starts, counted_up(total, offsets.device_index), True)
    return operations.elementwise("sub", behind, 1)


def offsets_problem(offsets: CudaArray, total: int, include_last: bool) -> str | None:
    """What is wrong with the offsets of bags, in words, or None. Values are looked at with DYNOGRAD_CUDA_SYNC=1 only."""
    from dynograd.kernels.index import bags_cpu

    if faults.immediate() or not offsets.size:
        return bags_cpu.offsets_problem(offsets.numpy(), total, include_last)
    return None


def inverse_counts(bags: CudaArray, count: int, dtype: Any) -> CudaArray:
    """(count, 1): 1 / how many indices each bag holds; 0 for an empty one."""
    sizes = counted(bags, count).astype(numpy.float64)
    shares = operations.elementwise("reciprocal", operations.elementwise("maximum", sizes, 1.0)) * (sizes > 0)
    return shares.astype(dtype).reshape((count, 1))


def largest_of_bags(rows: CudaArray, bags: CudaArray, count: int) -> tuple[CudaArray, CudaArray, CudaArray]:
    """(places, columns, found): where in `rows` the first largest entry of each bag's column stands, as an index pair of (count, D).

    found (count, 1) is 1, or 0 for an empty bag, whose places are 0. `bags` never falls.
    """
    device, columns = rows.device_index, rows.shape[1]
    edges = places_among(contiguous(bags), counted_up(count + 1, device), False)
    places = cuda_arrays.empty((count, columns), _INT64, device)
    largest = cuda_arrays.empty((count,), _INT64, device)
    if count and columns:
        block = min(128, 1 << max(columns - 1, 0).bit_length())
        tiles = -(-columns // block)
        kernels.largest_of_bags((count * tiles,), contiguous(rows), edges, places, largest, columns, tiles, BLOCK=block)
    result = (largest > 0).astype(rows.dtype).reshape((count, 1))
    return places, counted_up(columns, device).broadcast_to((count, columns)), result


def shrunk_rows(
    weight: CudaArray, indices: CudaArray, max_norm: float, norm_type: float
) -> tuple[CudaArray, CudaArray]:
    """The rows at `indices`, and what becomes of them when their norm is at most `max_norm`. Rows may be there several times."""
    rows = contiguous(indices).reshape(-1)
    out = cuda_arrays.empty((rows.size, weight.shape[1]), weight.dtype, weight.device_index)
    if out.size:
        kind = 3 if math.isinf(norm_type) else int(norm_type) if norm_type in (1, 2) else 0
        block = min(1024, 1 << max(weight.shape[1] - 1, 0).bit_length())
        kernels.shrunk_rows(
            (rows.size,),
            contiguous(weight),
            rows,
            out,
            rows.size,
            weight.shape[1],
            max_norm,
            norm_type,
            NORM=kind,
            BLOCK=block,
        )
    return rows, out
