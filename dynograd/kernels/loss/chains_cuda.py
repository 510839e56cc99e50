"""Linear chains on CudaArrays; see `chains_cpu` for what is computed and `chains_simt` for how. Sums are taken in one order: results repeat."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.kernels.layout.copies_cuda import contiguous, zeros
from dynograd.kernels.loss import chains_simt as kernels

_FLOAT64, _INT32, _INT64 = numpy.dtype(numpy.float64), numpy.dtype(numpy.int32), numpy.dtype(numpy.int64)
_BLOCKS = 256  # of the gradient, each with its own sums of the transitions' gradient
_ROOM = 1 << 24  # numbers of these sums, at most


def chain_likelihoods(
    emissions: CudaArray, transitions: CudaArray, first: CudaArray, last: CudaArray, tags: Any, starts: CudaArray, lengths: CudaArray,
    step: int,
) -> tuple[CudaArray, ...]:  # fmt: skip
    """(log-likelihoods (B,), levels in float64, the same again: the gradient needs no sums)."""
    rows, count = emissions.shape
    sequences, device = starts.shape[0], emissions.device_index
    levels = cuda_arrays.empty((rows, count), _FLOAT64, device)
    result = cuda_arrays.empty((sequences,), _FLOAT64, device)
    if sequences:
        kernels.likelihoods[emissions.itemsize](
            (sequences,), _threads(count), *map(contiguous, (emissions, transitions, first, last)), *_tags(tags, starts),
            *map(contiguous, (starts, lengths)), step, levels, result, rows, count,
        )  # fmt: skip
    return result.astype(emissions.dtype), levels, levels


def chain_gradients(
    g: CudaArray, emissions: CudaArray, transitions: CudaArray, first: CudaArray, last: CudaArray, tags: Any, starts: CudaArray,
    lengths: CudaArray, step: int, levels: CudaArray, sums: CudaArray,
) -> tuple[CudaArray, ...]:  # fmt: skip
    """Gradients of the emissions, the transitions, `first` and `last`."""
    rows, count = emissions.shape
    sequences, device, kind = starts.shape[0], emissions.device_index, emissions.dtype
    blocks = max(1, min(sequences, _BLOCKS, _ROOM // (count * count)))
    result, moves, ends = (
        zeros(shape, kind, device) for shape in ((rows, count), (blocks, count, count), (blocks, 2, count))
    )
    if sequences:
        chances = cuda_arrays.empty((blocks, 2, count), kind, device)
        kernels.gradients[emissions.itemsize](
            (blocks,), _threads(count), contiguous(g, kind), *map(contiguous, (emissions, transitions, last)), *_tags(tags, starts),
            *map(contiguous, (starts, lengths)), step, levels, result, moves, ends, chances, rows, count, sequences,
        )  # fmt: skip
    both = ends.sum(0)
    return result, moves.sum(0), both[0], both[1]


def best_paths(
    emissions: CudaArray,
    transitions: CudaArray,
    first: CudaArray,
    last: CudaArray,
    starts: CudaArray,
    lengths: CudaArray,
    step: int,
) -> tuple[CudaArray, CudaArray]:
    """(tags (M,) of the best paths, 0 in rows of no sequence; scores (B,))."""
    rows, count = emissions.shape
    sequences, device = starts.shape[0], emissions.device_index
    tags, scores = zeros((rows,), _INT64, device), cuda_arrays.empty((sequences,), _FLOAT64, device)
    if sequences:
        levels = cuda_arrays.empty((rows, count), _FLOAT64, device)
        origins = cuda_arrays.empty((rows, count), _INT32, device)
        kernels.best_paths[emissions.itemsize](
            (sequences,), _threads(count), *map(contiguous, (emissions, transitions, first, last, starts, lengths)), step, levels,
            origins, tags, scores, rows, count,
        )  # fmt: skip
    return tags, scores.astype(emissions.dtype)


def _tags(tags: Any, like: CudaArray) -> tuple[CudaArray, bool]:
    return (contiguous(like), False) if tags is None else (contiguous(tags), True)


def _threads(count: int) -> int:
    """Of a block: whole warps."""
    return min(-(-count // 32) * 32, kernels.MOST)
