"""Random numbers on CUDA devices: the stream and the numbers of `random_cpu`, bit for bit but where the text of a function says so.

Functions that make new arrays take `device`, a `dynograd.base.devices.device` (None: the current one).
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import CudaArray, operations
from dynograd.kernels.build.launch_arguments_cuda import Double
from dynograd.kernels.layout.copies_cuda import contiguous, is_half
from dynograd.kernels.layout.creation_cuda import index_of
from dynograd.kernels.random import random_triton as kernels
from dynograd.kernels.random.random_cpu import _numpy_dtype, _part, blocks_needed, threshold_of
from dynograd.kernels.sort.sorting_cuda import topk

__all__ = [
    "bernoulli",
    "blocks_needed",
    "dropout_mask",
    "exponential",
    "integers",
    "multinomial",
    "normal",
    "permutation",
    "random_bits",
    "threshold_of",
    "uniform",
]

_BLOCK = 256  # counters of a program, each of which gives several numbers
_INT64, _FLOAT64 = numpy.dtype(numpy.int64), numpy.dtype(numpy.float64)


def halves(word: Any) -> tuple[Any, Any]:
    """The lower and the upper 32 bits of a word as signed numbers, as kernels take them; of one on the device where they lie."""
    if type(word) is CudaArray:
        return word[:1], word[1:]
    low, high = word & 0xFFFFFFFF, word >> 32 & 0xFFFFFFFF
    return low - ((low & 0x80000000) << 1), high - ((high & 0x80000000) << 1)


def _signed(word: int) -> int:
    """A 64-bit word as a signed number."""
    word &= 0xFFFFFFFFFFFFFFFF
    return word - ((word >> 63) << 64)


def _fill(
    kernel: Any, seed: Any, offset: Any, out: CudaArray, per_block: int, *parameters: Any, **constants: Any
) -> CudaArray:
    """Runs a kernel over the blocks of words that make `out`."""
    grid = (-(-out.size // (per_block * _BLOCK)),)
    kernel(grid, out, *parameters, *halves(seed), *halves(offset), out.size, **constants, BLOCK=_BLOCK)
    return out


def random_bits(seed: int, offset: int, count: int, device: Any = None) -> CudaArray:
    """(count,) uint32: the words of the stream."""
    out = cuda_arrays.empty((count,), numpy.uint32, index_of(device))
    return _fill(kernels.fill_bits, seed, offset, out, 4)


def uniform(
    seed: int, offset: int, shape: tuple[int, ...], dtype: Any, low: float = 0.0, high: float = 1.0, device: Any = None
) -> CudaArray:
    """Uniform over [low, high), never `high`."""
    dtype = _numpy_dtype(dtype)
    if dtype.kind == "c":
        return _as_complex(uniform(seed, offset, (*shape, 2), _part(dtype), low, high, device), dtype)
    first, last = dtype.type(low), dtype.type(high)
    out = cuda_arrays.empty(tuple(shape), dtype, index_of(device))
    most = numpy.nextafter(last, first) if last > first else last
    if is_half(dtype):
        wide = numpy.float32
        span, limit = wide(last) - wide(first), wide(most) if last > first else wide(numpy.inf)
        bits = ml_dtypes.finfo(dtype).nmant + 1
        numbers = [float(number) for number in (span, wide(first), limit)]
        return _fill(kernels.fill_uniform16, seed, offset, out, 4, *numbers, BITS=bits)
    kind: Any = Double if dtype.itemsize == 8 else float
    numbers = [kind(number) for number in (last - first, first, most)]
    if dtype.itemsize == 8:
        return _fill(kernels.fill_uniform64, seed, offset, out, 2, *numbers)
    return _fill(kernels.fill_uniform32, seed, offset, out, 4, *numbers)


def normal(
    seed: int, offset: int, shape: tuple[int, ...], dtype: Any, mean: Any = 0.0, std: Any = 1.0, device: Any = None
) -> CudaArray:
    """Normal with the given mean and standard deviation (numbers, or arrays that broadcast to `shape`), by Box and Muller."""
    dtype = _numpy_dtype(dtype)
    if isinstance(mean, CudaArray) or isinstance(std, CudaArray):
        device = (mean if isinstance(mean, CudaArray) else std).device if device is None else device
    plain = isinstance(std, (int, float)) and isinstance(mean, (int, float))
    if dtype.kind == "c":
        parts = normal(seed, offset, (*shape, 2), _part(dtype), 0.0, math.sqrt(0.5), device)
        if not plain:
            raise NotImplementedError(
                "normal: complex dtypes take a number as mean and deviation on a GPU; x.cpu() works."
            )
        if (std, mean) != (1.0, 0.0):
            parts = parts * std
            operations.copy_into(parts[..., 0], parts[..., 0] + mean)
        return _as_complex(parts, dtype)
    wide = dtype if dtype.itemsize == 8 or plain else numpy.dtype(numpy.float32)
    out = cuda_arrays.empty(tuple(shape), wide, index_of(device))
    numbers = (float(std), float(mean)) if plain else (1.0, 0.0)
    if dtype.itemsize == 8:
        result = _fill(kernels.fill_normal64, seed, offset, out, 2, *[Double(number) for number in numbers])
    else:
        result = _fill(kernels.fill_normal32, seed, offset, out, 4, *numbers)
    if plain:
        return result
    std, mean = [option.astype(result.dtype) if isinstance(option, CudaArray) else option for option in (std, mean)]
    result = operations.elementwise("add", operations.elementwise("mul", result, std), mean)
    return result.astype(dtype, copy=False)


def exponential(
    seed: int, offset: int, shape: tuple[int, ...], dtype: Any, rate: float = 1.0, device: Any = None
) -> CudaArray:
    """Exponential with mean 1 / rate, by inversion; never 0 unless the division underflows."""
    dtype = _numpy_dtype(dtype)
    out = cuda_arrays.empty(tuple(shape), dtype, index_of(device))
    if dtype.itemsize == 8:
        return _fill(kernels.fill_exponential64, seed, offset, out, 2, Double(2.0**-53), Double(rate))
    return _fill(kernels.fill_exponential32, seed, offset, out, 4, 2.0**-24, float(rate))


def integers(
    seed: int, offset: int, shape: tuple[int, ...], low: int, high: int, dtype: Any = numpy.int64, device: Any = None
) -> CudaArray:
    """Integers of [low, high), up to 2**64 different ones, as `dtype` (which may be floating)."""
    dtype, width = _numpy_dtype(dtype), high - low
    direct = dtype.kind in "iu" or dtype.kind == "f" or is_half(dtype)
    out = cuda_arrays.empty(tuple(shape), dtype if direct else _INT64, index_of(device))
    _fill(kernels.fill_integers, seed, offset, out, 2, _signed(low), _signed(width), ANY=width == 1 << 64)
    return out.astype(dtype, copy=False)


def bernoulli(
    seed: int, offset: int, probabilities: Any, shape: tuple[int, ...], dtype: Any, device: Any = None
) -> CudaArray:
    """1 with the given probability (a number, or an array that broadcasts to `shape`), else 0."""
    dtype = _numpy_dtype(dtype)
    if isinstance(probabilities, CudaArray):
        result = cuda_arrays.empty(
            tuple(shape), numpy.int8 if dtype.kind in "bc" else dtype, probabilities.device_index
        )
        chances = contiguous(probabilities.broadcast_to(tuple(shape)))
        return _fill(kernels.fill_bernoulli, seed, offset, result, 4, chances).astype(dtype, copy=False)
    return _choice(seed, offset, float(probabilities), 1, 0, shape, dtype, device)


def dropout_mask(seed: Any, offset: Any, shape: tuple[int, ...], p: float, dtype: Any, device: Any = None) -> CudaArray:
    """0 with probability p, else 1 / (1 - p); all 0 for p = 1. Drops exactly where `bernoulli` of p gives 1.

    Seed and offset may be two int32 each on the device (`halves`), as CUDA graphs need it.
    """
    return _choice(seed, offset, p, 0, 1 / (1 - p) if p < 1 else 0, shape, _numpy_dtype(dtype), device)


def _choice(
    seed: Any, offset: Any, p: float, below: float, above: float, shape: tuple[int, ...], dtype: Any, device: Any
) -> CudaArray:
    """`below` with probability p, else `above`; a word w counts as below when w < p * 2**32."""
    direct = dtype.kind in "iu" or dtype.kind == "f" or is_half(dtype)
    out = cuda_arrays.empty(tuple(shape), dtype if direct else numpy.dtype(numpy.float32), index_of(device))
    number: Any = int if out.dtype.kind in "iu" else Double if out.itemsize == 8 else float
    values = number(below), number(above)
    return _fill(
        kernels.fill_choice, seed, offset, out, 4, int(threshold_of(p)), *values, PLACED=type(seed) is CudaArray
    ).astype(dtype, copy=False)


def permutation(seed: int, offset: int, count: int, device: Any = None) -> CudaArray:
    """(count,) int64: the numbers 0 to count - 1 in random order."""
    from dynograd.kernels.sort.sorting_cuda import _sorted

    keys = cuda_arrays.empty((count,), _INT64, index_of(device))
    position_bits = (1 << max(count - 1, 0).bit_length()) - 1
    _fill(kernels.fill_keys, seed, offset, keys, 2, position_bits)
    unsigned = CudaArray(keys.storage, keys.pointer, keys.shape, keys.strides, numpy.dtype(numpy.uint64))
    return _sorted(unsigned, False, False)[1]  # keys hold their place, so that the order is what the sorted keys say


def multinomial(seed: int, offset: int, probabilities: CudaArray, num_samples: int, replacement: bool) -> CudaArray:
    """(rows, num_samples) int64: columns drawn from each row of unnormalised `probabilities` (rows, columns).

    The sums of a row are taken in blocks here, so that a draw may be the neighbour of the CPU's where rounding decides.
    """
    rows, columns = probabilities.shape
    device = probabilities.device
    if not replacement:
        arrivals = exponential(seed, offset, (rows, columns), _FLOAT64, 1.0, device) / probabilities.astype(_FLOAT64)
        return topk(arrivals, num_samples, 1, False, True)[1]
    from dynograd.kernels.index.lookups_cuda import places_among

    weights = contiguous(probabilities)
    sums = cuda_arrays.empty((rows, columns), _FLOAT64, probabilities.device_index)
    if sums.size:
        block = min(1024, 1 << max(columns - 1, 0).bit_length())
        kernels.sums_of_rows((rows,), weights, sums, columns, BLOCK=block)
    draws = uniform(seed, offset, (rows, num_samples), _FLOAT64, 0.0, 1.0, device)
    return operations.elementwise("minimum", places_among(sums, draws, True), columns - 1)


def _as_complex(parts: CudaArray, dtype: Any) -> CudaArray:
    return CudaArray(parts.storage, parts.pointer, parts.shape[:-1], parts.strides[:-1], dtype)
