"""The CTC loss of padded targets, forward and backward, on CudaArrays; see `ctc_simt`. Sums are taken in one order: results repeat."""

from __future__ import annotations

import numpy

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import CudaArray, from_numpy, operations
from dynograd.kernels.layout.copies_cuda import contiguous
from dynograd.kernels.loss import ctc_simt as kernels

_FLOAT64, _INT32 = numpy.dtype(numpy.float64), numpy.dtype(numpy.int32)
_ROW_BYTES = 1024  # two numbers for each warp and more


def ctc_forward(
    log_probs: CudaArray,
    targets: CudaArray,
    input_lengths: CudaArray,
    target_lengths: CudaArray,
    blank: int,
    zero_infinity: bool,
) -> tuple[CudaArray, ...]:
    """(losses (N,), alphas, their bases, losses in float64 before zero_infinity); see `ctc_cpu`."""
    steps, count, classes = log_probs.shape
    width, device, size = targets.shape[1] + 1, log_probs.device_index, log_probs.itemsize
    kept = cuda_arrays.empty((count, steps, 2, width), log_probs.dtype, device)
    bases = cuda_arrays.empty((count, steps), _FLOAT64, device)
    losses = cuda_arrays.empty((count,), _FLOAT64, device)
    kernels.ctc_alphas[size](
        (count,), _threads(width, size), *_rows(log_probs), *map(contiguous, (targets, input_lengths, target_lengths)), blank,
        kept, bases, losses, steps, classes, width, shared=kernels.bytes_of(width, size),
    )  # fmt: skip
    result = losses.astype(log_probs.dtype)
    if zero_infinity:
        result = operations.elementwise("where", result == numpy.inf, 0.0, result)
    return result, kept, bases, losses


def ctc_backward(
    g: CudaArray,
    log_probs: CudaArray,
    targets: CudaArray,
    input_lengths: CudaArray,
    target_lengths: CudaArray,
    alphas: CudaArray,
    bases: CudaArray,
    losses: CudaArray,
    blank: int,
    zero_infinity: bool,
) -> CudaArray:
    """Gradient of log_probs, which are taken for the results of log_softmax: exp(log_probs) minus what the targets ask for."""
    steps, count, classes = log_probs.shape
    width, device, size = targets.shape[1] + 1, log_probs.device_index, log_probs.itemsize
    rows = _rows(log_probs)
    operands = (*rows, *map(contiguous, (targets, input_lengths, target_lengths)), blank)
    chances = cuda_arrays.empty(alphas.shape, alphas.dtype, device)
    chains = cuda_arrays.empty((count, 2, max(width - 1, 1)), _INT32, device)
    kernels.ctc_chances[size](
        (count,), _threads(width, size), *operands, alphas, bases, losses, chances, chains, steps, classes, width,
        shared=kernels.bytes_of(width, size),
    )  # fmt: skip
    by_batch = rows[1] == 1
    result = cuda_arrays.empty((count, steps, classes) if by_batch else log_probs.shape, log_probs.dtype, device)
    kernels.ctc_gradients[size](
        (count * steps,), kernels.ROW_THREADS, contiguous(g, log_probs.dtype), *operands, losses, chances, chains, zero_infinity, result,
        steps, classes, width, shared=_ROW_BYTES,
    )  # fmt: skip
    return result.transpose((1, 0, 2)) if by_batch else result


def places_in_rows(targets: CudaArray, lengths: list[int]) -> CudaArray:
    """(N, S): where the labels of each row stand in `targets`, which lie behind one another; any place beyond a row's length."""
    from dynograd.kernels.loss import ctc_cpu

    return from_numpy(ctc_cpu.places_in_rows(range(targets.shape[0]), lengths), targets.device_index)


def _rows(log_probs: CudaArray) -> tuple[CudaArray, int, int]:
    """(memory of rows, rows from one step to the next, from one sequence to the next), without a copy of batch-first memory."""
    steps, count, _ = log_probs.shape
    turned = log_probs.transpose((1, 0, 2))
    if not log_probs.is_contiguous and turned.is_contiguous:
        return turned, 1, steps
    return contiguous(log_probs), count, 1


def _threads(width: int, size: int) -> int:
    """Of a block: a power of 2, few sizes, since each is a variant of its own."""
    return min(max(32, 1 << (width - 1).bit_length()), kernels.MOST[size])
