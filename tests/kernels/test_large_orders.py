"""Sorting, selecting and rearranging at large sizes against NumPy: numbers of every span, equal digits, negative steps."""

import numpy as np
import pytest

from dynograd.kernels.index import lookups_cpu, scatters_cpu
from dynograd.kernels.layout import copies_cpu, rearrangements_cpu
from dynograd.kernels.sort import sorting_cpu

SIZES = [513, 5003, (1 << 18) + 7]  # by merging runs no more, by short digits, by long ones
SPANS = {
    "one value": (7, 8),
    "two values": (-1, 1),
    "a byte across zero": (-100, 100),
    "far from zero": (10**9, 10**9 + 3000),
    "both signs": (-(10**9), 10**9),
    "all of int32": (-(2**31), 2**31),
}


def vectors(size):
    rng = np.random.default_rng(size)
    for low, high in SPANS.values():
        whole = rng.integers(low, high, size)
        yield from (whole, whole.astype(np.int32), whole << 32)
    yield rng.integers(-(2**63), 2**63 - 1, size)
    yield rng.integers(0, 2**64 - 1, size, np.uint64)
    yield from (rng.integers(0, 256, size).astype(kind) for kind in (np.uint8, np.int8, np.int16, np.uint16, bool))
    for kind in (np.float32, np.float64, np.float16):
        real = rng.standard_normal(size).astype(kind)
        yield from (real, np.round(real), np.abs(real), -np.abs(real))
        real[:: size // 20] = [np.nan, np.inf, -np.inf, 0.0, -0.0][size % 5]
        yield real[::-1]


@pytest.mark.parametrize("size", SIZES)
def test_sorted_with_their_order(size):
    for x in vectors(size):
        expected = np.argsort(x, kind="stable")
        values, index = sorting_cpu.sort(x, 0, False)
        assert np.array_equal(index, expected)
        assert values.dtype == x.dtype
        assert values.tobytes() == x[expected].tobytes()
        index = sorting_cpu.argsort(x, 0, True)
        assert np.array_equal(index, len(x) - 1 - np.argsort(x[::-1], kind="stable")[::-1])


@pytest.mark.parametrize("size", SIZES)
def test_the_kth(size):
    for x in vectors(size):
        order = np.argsort(x, kind="stable")
        for k in (1, 2, size // 3, size - 1, size):
            value, index = sorting_cpu.kthvalue(x, k, 0, False)
            expected = x[order[k - 1]]
            assert value == expected or (value != value and expected != expected)
            assert index == np.flatnonzero((x == expected) | ((x != x) & (expected != expected)))[0]


@pytest.mark.parametrize("size", SIZES)
def test_distinct_numbers(size):
    for x in vectors(size):
        expected = np.unique(x, return_inverse=True, return_counts=True)
        values, inverse, counts = lookups_cpu.unique(x, None)
        assert values.dtype == x.dtype
        for element, other in zip((values, inverse, counts), expected, strict=True):
            assert np.array_equal(element, other, equal_nan=element.dtype.kind == "f")
        fewer = lookups_cpu.unique(x, None, wants_inverse=False)
        assert np.array_equal(fewer[0], expected[0], equal_nan=x.dtype.kind == "f")
        assert np.array_equal(fewer[2], counts)


@pytest.mark.parametrize("longest", [1, 2, 100, 5000])
def test_runs_of_equal_numbers(longest):
    rng = np.random.default_rng(longest)
    for size in (2049, 30001):
        lengths = rng.integers(1, longest + 1, size)
        x = np.repeat(np.arange(size) % 7, lengths)[:size]
        values, inverse, counts = lookups_cpu.unique_consecutive(x, None)
        fresh = np.concatenate([[True], x[1:] != x[:-1]])
        assert np.array_equal(values, x[fresh])
        assert np.array_equal(inverse, np.cumsum(fresh) - 1)
        assert np.array_equal(counts, np.diff(np.flatnonzero(fresh), append=size))


@pytest.mark.parametrize("kind", ["u1", "f2", "f4", "f8", "c16"])
@pytest.mark.parametrize("shape", [(300_001,), (70_003, 5), (5, 70_003), (601, 7, 83), (17, 16, 1025)], ids=str)
def test_copies_with_negative_and_zero_steps(shape, kind):
    x = np.random.default_rng(0).integers(0, 200, shape).astype(kind)
    turned = [
        x[::-1],
        x[..., ::-1],
        x[::-1, ..., ::-1] if x.ndim > 1 else x,
        x[1:],
        x[..., 3:-2],
        x[..., ::-2],
        x.T[::-1],
    ]
    repeated = np.broadcast_to(x[..., :1], x.shape), np.broadcast_to(x.reshape(-1)[:5000, None], (5000, 19))
    for view in (*turned, *repeated):
        created = copies_cpu.copied(view)
        assert created.flags.c_contiguous
        assert np.array_equal(created, view)
    for dim in range(x.ndim):
        assert np.array_equal(rearrangements_cpu.flip(x, (dim,)), np.flip(x, dim))
        assert np.array_equal(rearrangements_cpu.roll(x, (11,), (dim,)), np.roll(x, 11, dim))
        for count in (1, 3, 16, 33):
            assert np.array_equal(rearrangements_cpu.repeat_rows(x, count, dim), np.repeat(x, count, dim))


def test_elements_of_a_vector():
    rng = np.random.default_rng(0)
    x, index = rng.standard_normal(70001), rng.integers(-70001, 70001, (250, 300))
    assert np.array_equal(scatters_cpu.take(x, index, 0), x[index])
    assert np.array_equal(scatters_cpu.take(x[::-2], index % 35001, 0), x[::-2][index % 35001])
    assert scatters_cpu.take(x, index[:0], 0).shape == (0, 300)
    with pytest.raises(IndexError, match="out of bounds for axis 0 with size 70001"):
        scatters_cpu.take(x, np.where(index == index[3, 4], 70001, index), 0)
    with pytest.raises(IndexError, match="out of bounds"):
        scatters_cpu.take(x, index, 0, negative=False)
