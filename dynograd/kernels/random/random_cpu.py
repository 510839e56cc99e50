"""Random numbers on the CPU, computed from their place in a stream: the same place gives the same bits on every device.

The stream, which a GPU twin repeats word for word:
- Block k of a draw with (seed, offset) is Philox 4x32-10 (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, 2011) of the counter
  (low word of offset + k, high word of offset + k, 0, 0), the sum modulo 2**64, under the key (low word of seed, high word of seed).
- 32-bit draws: element i is lane i % 4 of block i // 4. 64-bit draws: element i is made of words 2 i (its lower half) and 2 i + 1.
- Which kinds draw how many bits is in `blocks_needed`; the numbers are then made by `random_formulas`. Elements in row-major order.

Small draws are computed by NumPy, so that a short script never waits for Numba; others, and all once Numba is loaded, by `random_numba`.
Both give the same bits. Callers reserve their place by `generator.key(blocks_needed(kind, count, dtype))`.
Dtypes are NumPy's or dynograd's; half types are computed in float32 and rounded once.
"""

from __future__ import annotations

import functools
import math
import sys
from importlib import import_module
from typing import Any

import ml_dtypes
import numpy

from dynograd.arrays import buffers
from dynograd.kernels.random import random_formulas as formulas
from dynograd.kernels.small.few_cpu import entries

_SMALL_WORDS = 2048  # that NumPy draws in 50 to 80 us, where Numba is not loaded
_SMALL_DRAWS = 4096  # at 50 to 80 us instead of 3: together about what importing Numba costs
_WORK = 4  # a word costs about 0.5 ns, as much as so many additions
_loops: Any = None
_small_draws = 0

_uint64 = numpy.uint64
_LOW_WORD, _32 = _uint64(0xFFFFFFFF), _uint64(32)
_MULTIPLIERS = numpy.array([[0xD2511F53], [0xCD9E8D57]], _uint64)
_KEY_STEPS = numpy.array([[[r * 0x9E3779B9], [r * 0xBB67AE85]] for r in range(10)], _uint64)
_PATTERNS = {size: numpy.dtype(f"u{size}") for size in (1, 2, 4, 8)}
_ALWAYS_64_BITS = ("integers", "multinomial", "permutation")
_BY_DTYPE = ("exponential", "normal", "uniform")
_DRAWS = {
    (name, char): f"random.draw_{name}{bits}" for name in ("uniform", "normal") for char, bits in (("f", 32), ("d", 64))
}


def blocks_needed(kind: str, count: int, dtype: Any = None) -> int:
    """How many blocks of the stream a draw uses: what to pass to `Generator.key`.

    Args:
        kind: the name of the function here that will draw.
        count: elements drawn; for `multinomial` rows * num_samples with replacement, rows * columns without.
        dtype: of the result; read for `uniform`, `normal` and `exponential`, which draw 64 bits for float64 and twice for complex.

    >>> blocks_needed("normal", 10, "float32"), blocks_needed("normal", 10, "float64")
    (3, 5)
    """
    words = 2 if kind in _ALWAYS_64_BITS else 1
    if kind in _BY_DTYPE and dtype is not None:
        chosen = _numpy_dtype(dtype)
        words = max(1, chosen.itemsize // 4)
    return -(-count * words // 4)


def few(name: str, key: Any, numbers: tuple[float, ...], size: Any, dtype: numpy.dtype) -> Any:
    """`fill_few` into a new array; None where it leaves that to others."""
    if _loops is None or dtype.char not in "fd":
        return None
    out = numpy.empty(size, dtype)
    fill_few(name, key, out, numbers)
    return out


def fill_few(name: str, key: Any, out: numpy.ndarray, numbers: tuple[float, ...]) -> bool:
    """Fills a small, row-major `out` with what `uniform` (of low, high) or `normal` (of std, mean) makes of `key(blocks)`.

    False where `out` is not float32 or float64, or Numba is not loaded: nothing is drawn then.
    """
    if _loops is None or out.dtype.char not in "fd":
        return False
    per_block = 16 // out.itemsize
    blocks = -(-out.size // per_block)
    seed, offset = key(blocks)
    if entries[_DRAWS[name, out.dtype.char]](id(out), *numbers, seed, offset):
        return True
    loop, parameters = _small_loop(name, out.dtype.char, numbers)
    target = numpy.empty(blocks * per_block, out.dtype)
    loop(_uint64(seed), _uint64(offset), *parameters, target, 0, blocks)
    out.reshape(-1)[:] = target[: out.size]
    return True


@functools.lru_cache(64)
def _small_loop(name: str, char: str, numbers: tuple[float, ...]) -> tuple[Any, tuple]:
    """The compiled loop and its parameters."""
    wide = char == "d"
    first, last = [(numpy.float64 if wide else numpy.float32)(number + 0.0) for number in numbers]
    parameters: tuple = (first, last)
    if name == "uniform":
        parameters = (last - first, first, numpy.nextafter(last, first) if last > first else last)
    return getattr(_loops, f"fill_{name}{64 if wide else 32}").serial, parameters


def random_bits(seed: int, offset: int, count: int) -> numpy.ndarray:
    """(count,) uint32: the words of the stream."""
    out = buffers.empty((_whole_blocks(count, 4),), numpy.uint32)
    loops = _compiled(out.size)
    if loops is None:
        out[:] = _words(seed, offset, out.size)
    else:
        _fill(loops.fill_bits, 4, seed, offset, out)
    return _shaped(out, (count,))


def uniform(
    seed: int, offset: int, shape: tuple[int, ...], dtype: Any, low: float = 0.0, high: float = 1.0
) -> numpy.ndarray:
    """Uniform over [low, high), never `high`: 24 random bits for float32, 53 for float64, 11 for float16, 8 for bfloat16.

    Where `low + unit * (high - low)` would round to `high`, the value next to it is taken; ends that are equal in the dtype give it.
    """
    dtype = _numpy_dtype(dtype)
    if dtype.kind == "c":
        return _as_complex(uniform(seed, offset, (*shape, 2), _part(dtype), low, high), dtype)
    first, last = dtype.type(low), dtype.type(high)
    if dtype.itemsize == 2:
        bits = ml_dtypes.finfo(dtype).nmant + 1
        words = random_bits(seed, offset, math.prod(shape)) >> numpy.uint32(32 - bits)
        numbers = (words.astype(numpy.float32) * numpy.float32(2.0**-bits)).reshape(shape)
        numbers *= numbers.dtype.type(last) - numbers.dtype.type(first)
        numbers += numbers.dtype.type(first)
        numbers = numbers.astype(dtype)
        return numpy.minimum(numbers, numpy.nextafter(last, first), out=numbers) if last > first else numbers
    most = numpy.nextafter(last, first) if last > first else last
    return _numbers("uniform", _uniform32, _uniform64, seed, offset, shape, dtype, last - first, first, most)


def normal(
    seed: int, offset: int, shape: tuple[int, ...], dtype: Any, mean: Any = 0.0, std: Any = 1.0
) -> numpy.ndarray:
    """Normal with the given mean and standard deviation (numbers, or arrays that broadcast to `shape`), by Box and Muller.

    Elements 2 k and 2 k + 1 are the cosine and the sine part of one pair of draws. All are finite: at most 6.8 deviations from the mean in
    float32 and half types, 8.7 in float64. A complex dtype shares the variance between its parts.
    """
    dtype = _numpy_dtype(dtype)
    if dtype.kind == "c":
        numbers = _as_complex(normal(seed, offset, (*shape, 2), _part(dtype), 0.0, math.sqrt(0.5)), dtype)
    else:
        if isinstance(std, (int, float)) and isinstance(mean, (int, float)):
            numbers = _numbers("normal", _normals32, _normals64, seed, offset, shape, dtype, std, mean)
            return numbers.astype(dtype, copy=False)
        numbers = _numbers("normal", _normals32, _normals64, seed, offset, shape, dtype, 1.0, 0.0)
    numbers *= _in_dtype_of(numbers, std)
    numbers += _in_dtype_of(numbers, mean)
    return numbers.astype(dtype, copy=False)


def exponential(seed: int, offset: int, shape: tuple[int, ...], dtype: Any, rate: float = 1.0) -> numpy.ndarray:
    """Exponential with mean 1 / rate, by inversion; never 0 unless the division underflows."""
    dtype = _numpy_dtype(dtype)
    least = 2.0**-53 if dtype.itemsize == 8 else 2.0**-24
    numbers = _numbers("exponential", _exponential32, _exponential64, seed, offset, shape, dtype, least, rate)
    return numbers.astype(dtype, copy=False)


def integers(
    seed: int, offset: int, shape: tuple[int, ...], low: int, high: int, dtype: Any = numpy.int64
) -> numpy.ndarray:
    """Integers of [low, high), up to 2**64 different ones, as `dtype` (which may be floating).

    `low + (word * (high - low) >> 64)` of a 64-bit word: no value is likelier than another by more than 1 part in 2**64 / (high - low).
    """
    width, first = high - low, _uint64(low % (1 << 64))
    out = buffers.empty((_whole_blocks(math.prod(shape), 2),), numpy.int64)
    words = out.view(_uint64)
    loops = _compiled(2 * out.size)
    if width == 1 << 64:
        words[:] = _wide_words(seed, offset, out.size) + first
    elif loops is None:
        words[:] = formulas.high_product(_wide_words(seed, offset, out.size), _uint64(width)) + first
    else:
        _fill(loops.fill_integers, 2, seed, offset, first, _uint64(width), words)
    return _shaped(out, shape).astype(_numpy_dtype(dtype), copy=False)


def bernoulli(seed: int, offset: int, probabilities: Any, shape: tuple[int, ...], dtype: Any) -> numpy.ndarray:
    """1 with the given probability (a number, or an array that broadcasts to `shape`), else 0.

    1 where the element's word is below `probability * 2**32`: 0 and 1 are certain, and a probability is met within 2**-32.
    """
    dtype = _numpy_dtype(dtype)
    if numpy.ndim(probabilities) == 0:
        return _choice(seed, offset, float(probabilities), 1, 0, shape, dtype)
    words = random_bits(seed, offset, math.prod(shape)).reshape(shape)
    return (words < probabilities.astype(numpy.float64) * 2.0**32).astype(dtype, copy=False)


def threshold_of(p: float) -> Any:
    """The word (uint64, up to 2**32) below which a draw with probability `p` counts as drawn."""
    return _uint64(min(max(math.ceil(p * 2.0**32), 0), 1 << 32))


def dropout_mask(seed: int, offset: int, shape: tuple[int, ...], p: float, dtype: Any) -> numpy.ndarray:
    """0 with probability p, else 1 / (1 - p); all 0 for p = 1. Drops exactly where `bernoulli` of p gives 1."""
    return _choice(seed, offset, p, 0, 1 / (1 - p) if p < 1 else 0, shape, _numpy_dtype(dtype))


def dropout_masks(places: Any, shape: tuple[int, ...], p: float, dtype: Any) -> numpy.ndarray:
    """(n, *shape): `dropout_mask` for each of n places (seed, offset)."""
    dtype, count, width = _numpy_dtype(dtype), math.prod(shape), _whole_blocks(math.prod(shape), 4)
    pattern = _PATTERNS[dtype.itemsize]
    below, above = numpy.array([0, 1 / (1 - p) if p < 1 else 0]).astype(dtype).view(pattern)
    seeds, offsets = numpy.array(places, numpy.uint64).reshape(-1, 2).T.copy()
    out = buffers.empty((len(seeds), width), dtype)
    loops = _compiled(1 << 62)
    work = _WORK * out.size
    loops.fill_choice_rows(
        seeds, offsets, threshold_of(p), below, above, out.view(pattern), count=len(seeds), work=work
    )
    return out[:, :count].reshape((len(seeds), *shape))


def permutation(seed: int, offset: int, count: int) -> numpy.ndarray:
    """(count,) int64: the numbers 0 to count - 1 in random order.

    Sorts 64-bit words whose lowest bits are replaced by the position itself: keys are distinct, so that every sort gives the same order,
    and two positions fall to the order of position with a chance of about count / 2**63 only.
    """
    keys = _wide_words(seed, offset, _whole_blocks(count, 2))[:count]
    position_bits = _uint64((1 << max(count - 1, 0).bit_length()) - 1)
    keys &= ~position_bits
    keys |= numpy.arange(count, dtype=_uint64)
    keys.sort()
    return (keys & position_bits).astype(numpy.int64)


def multinomial(
    seed: int, offset: int, probabilities: numpy.ndarray, num_samples: int, replacement: bool
) -> numpy.ndarray:
    """(rows, num_samples) int64: columns drawn from each row of unnormalised `probabilities` (rows, columns).

    With replacement, sample s of row r inverts the row's cumulative sum (float64) at 64-bit element r * num_samples + s. Without, every
    column draws an exponential variate (float64, element r * columns + c) divided by its probability, and the `num_samples` first to arrive
    are returned in order of arrival. Columns of probability 0 are never drawn while others remain.
    """
    weights = probabilities.astype(numpy.float64)
    rows, columns = weights.shape
    if not replacement:
        with numpy.errstate(divide="ignore"):
            arrivals = exponential(seed, offset, weights.shape, numpy.float64) / weights
        return _smallest(arrivals, num_samples)
    cumulative = numpy.cumsum(weights, axis=1)
    cumulative /= cumulative[:, -1:]
    draws = uniform(seed, offset, (rows, num_samples), numpy.float64)
    first = numpy.zeros((rows, num_samples), numpy.int64)
    last = numpy.full((rows, num_samples), columns - 1, numpy.int64)
    for _ in range((columns - 1).bit_length()):
        middle = (first + last) >> 1
        beyond = numpy.take_along_axis(cumulative, middle, axis=1) <= draws
        numpy.copyto(first, middle + 1, where=beyond)
        numpy.copyto(last, middle, where=~beyond)
    return last


def _compiled(words: int) -> Any:
    """The Numba loops, or None where NumPy should compute this draw."""
    global _loops, _small_draws
    if _loops is None:
        if words <= _SMALL_WORDS and _small_draws < _SMALL_DRAWS and "numba" not in sys.modules:
            _small_draws += 1
            return None
        _loops = import_module("dynograd.kernels.random.random_numba")
    return _loops


def philox(counter: numpy.ndarray, key: numpy.ndarray) -> numpy.ndarray:
    """Philox 4x32-10 of counters (4, n) under the key (2,), as uint64 arrays of 32-bit words: (4, n)."""
    keys = (key.reshape(1, 2, 1) + _KEY_STEPS) & _LOW_WORD
    even, odd = counter[0::2], counter[1::2]
    for round_key in keys:
        product = (even * _MULTIPLIERS)[::-1]
        even = (product >> _32) ^ odd ^ round_key
        odd = product & _LOW_WORD
    return numpy.stack((even, odd), axis=1).reshape(4, -1)


def _words(seed: int, offset: int, count: int) -> numpy.ndarray:
    """The first `count` words (a multiple of 4), by NumPy."""
    counter = numpy.zeros((4, count // 4), _uint64)
    places = numpy.arange(count // 4, dtype=_uint64) + _uint64(offset)
    counter[0], counter[1] = places & _LOW_WORD, places >> _32
    key = numpy.array([seed & 0xFFFFFFFF, seed >> 32], _uint64)
    return philox(counter, key).T.astype(numpy.uint32).reshape(-1)


def _wide_words(seed: int, offset: int, count: int) -> numpy.ndarray:
    words = random_bits(seed, offset, 2 * count)
    return words.view(_uint64)


def _normals32(words: numpy.ndarray, std: Any, mean: Any) -> numpy.ndarray:
    radius = numpy.sqrt(numpy.float32(2.0) * formulas.negative_log32(words[0::2]))
    cosine, sine = formulas.direction32(words[1::2])
    return numpy.stack((radius * cosine, radius * sine), axis=1).reshape(-1) * std + mean


def _normals64(words: numpy.ndarray, std: Any, mean: Any) -> numpy.ndarray:
    radius = numpy.sqrt(2.0 * formulas.negative_log64(words[0::2]))
    cosine, sine = formulas.direction64(words[1::2])
    return numpy.stack((radius * cosine, radius * sine), axis=1).reshape(-1) * std + mean


def _uniform32(words: numpy.ndarray, span: Any, first: Any, most: Any) -> numpy.ndarray:
    return numpy.minimum(formulas.unit32(words) * span + first, most)


def _uniform64(words: numpy.ndarray, span: Any, first: Any, most: Any) -> numpy.ndarray:
    return numpy.minimum(formulas.unit64(words) * span + first, most)


def _exponential32(words: numpy.ndarray, least: Any, rate: Any) -> numpy.ndarray:
    return numpy.maximum(formulas.negative_log32(words), least) / rate


def _exponential64(words: numpy.ndarray, least: Any, rate: Any) -> numpy.ndarray:
    return numpy.maximum(formulas.negative_log64(words), least) / rate


def _numbers(
    name: str, formula32: Any, formula64: Any, seed: int, offset: int, shape: tuple[int, ...], dtype: Any, *numbers: Any
) -> Any:
    """Numbers of one kind in float64 where that is asked for and in float32 otherwise; `numbers` are the formula's parameters."""
    wide = dtype.itemsize == 8
    kind = numpy.float64 if wide else numpy.float32
    out = buffers.empty((_whole_blocks(math.prod(shape), 2 if wide else 4),), kind)
    loops = _compiled(2 * out.size if wide else out.size)
    parameters = [kind(number) for number in numbers]
    if loops is not None:
        _fill(getattr(loops, f"fill_{name}{64 if wide else 32}"), 2 if wide else 4, seed, offset, *parameters, out)
    elif wide:
        out[:] = formula64(_wide_words(seed, offset, out.size), *parameters)
    else:
        out[:] = formula32(_words(seed, offset, out.size), *parameters)
    return _shaped(out, shape)


def _choice(seed: int, offset: int, p: float, below: float, above: float, shape: tuple[int, ...], dtype: Any) -> Any:
    """`below` with probability p, else `above`; a word w counts as below when w < p * 2**32."""
    pattern = _PATTERNS[dtype.itemsize]
    bits_below, bits_above = numpy.array([below, above]).astype(dtype).view(pattern)
    threshold = threshold_of(p)
    out = buffers.empty((_whole_blocks(math.prod(shape), 4),), dtype)
    loops = _compiled(out.size)
    if loops is None:
        out.view(pattern)[:] = numpy.where(_words(seed, offset, out.size) < threshold, bits_below, bits_above)
    else:
        _fill(loops.fill_choice, 4, seed, offset, threshold, bits_below, bits_above, out.view(pattern))
    return _shaped(out, shape)


def _fill(loop: Any, per_block: int, seed: int, offset: int, *arguments: Any) -> None:
    """Runs a compiled loop over the blocks of the last argument, in parts where that pays."""
    out = arguments[-1]
    loop(_uint64(seed), _uint64(offset), *arguments, count=out.size // per_block, work=_WORK * out.size)


def _smallest(arrivals: numpy.ndarray, count: int) -> numpy.ndarray:
    """The columns of the `count` smallest entries of each row, ascending."""
    if count == 1:
        return numpy.argmin(arrivals, axis=1, keepdims=True)
    if 8 * count >= arrivals.shape[1]:
        return numpy.argsort(arrivals, axis=1, kind="stable")[:, :count].copy()
    columns = numpy.argpartition(arrivals, count - 1, axis=1)[:, :count]
    order = numpy.argsort(numpy.take_along_axis(arrivals, columns, axis=1), axis=1, kind="stable")
    return numpy.take_along_axis(columns, order, axis=1)


def _whole_blocks(count: int, per_block: int) -> int:
    return -(-count // per_block) * per_block


def _shaped(flat: numpy.ndarray, shape: tuple[int, ...]) -> numpy.ndarray:
    """The first elements of `flat`, cut off in place: the result owns its memory, as ops expect of a new array."""
    if flat.base is not None:
        return numpy.ndarray(shape, flat.dtype, flat.base)  # a kept buffer's lease
    flat.resize(shape, refcheck=False)
    return flat


def _numpy_dtype(dtype: Any) -> numpy.dtype:
    return numpy.dtype(getattr(dtype, "numpy", dtype))


def _part(dtype: numpy.dtype) -> numpy.dtype:
    return numpy.dtype(numpy.float32 if dtype.itemsize == 8 else numpy.float64)


def _as_complex(parts: numpy.ndarray, dtype: numpy.dtype) -> numpy.ndarray:
    return parts.view(dtype)[..., 0].copy()


def _in_dtype_of(numbers: numpy.ndarray, value: Any) -> Any:
    return numpy.asarray(value).astype(numbers.dtype)
