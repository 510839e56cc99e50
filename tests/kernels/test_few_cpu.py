"""Compiled reductions of few elements: NumPy's bits, and None where they leave an array to NumPy."""

from __future__ import annotations

import itertools

import numpy
import pytest

import dynograd as dg
from dynograd.kernels.reduce import quantiles_cpu
from dynograd.kernels.small import few_cpu, few_numba
from dynograd.kernels.sort import sorting_cpu

KINDS = [numpy.float32, numpy.float64, numpy.int64]
SHAPES = [(1, 1), (1, 7), (9, 1), (5, 8), (3, 129), (2, 1000), (40, 31), (8, 64), (1, 8191), (0, 3), (3, 0)]


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(few_cpu, "_calls", few_cpu.SMALL_CALLS)


def numbers(shape, kind, *, gaps=False):
    scales = 10.0 ** (numpy.arange(shape[-1]) % 5) if shape else 1.0
    created = numpy.asarray(numpy.random.default_rng(len(shape)).standard_normal(shape) * scales).astype(kind)
    if gaps and kind is not numpy.int64 and created.size:
        created.flat[created.size // 2] = numpy.nan
    return created


def same_bits(result, expected):
    expected = numpy.asarray(expected)
    assert type(result) is numpy.ndarray and result.shape == expected.shape and result.dtype == expected.dtype
    assert result.tobytes() == expected.tobytes()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_sums_have_the_bits_of_numpy(kind, shape):
    x = numbers(shape, kind)
    for dim, keepdim in itertools.product((None, 0, 1), (False, True)):
        same_bits(few_cpu.sum(x, dim, keepdim), numpy.add.reduce(x, dim, None, None, keepdim))
    for dim in (0, 1):
        exact = numpy.float64 if kind is numpy.float32 else None  # running sums of float32 numbers are rounded once
        same_bits(few_cpu.cumsum(x, dim), numpy.add.accumulate(x, dim, exact).astype(kind))
    same_bits(few_cpu.sum(x.reshape(-1), 0, False), numpy.add.reduce(x.reshape(-1)))


def test_a_sum_of_negative_zeros_and_a_product():
    zeros = numpy.full((3, 5), -0.0, numpy.float32)
    for dim in (None, 0, 1):
        same_bits(few_cpu.sum(zeros, dim, False), numpy.add.reduce(zeros, dim))
    x = 1 + numbers((50,), numpy.float32) * numpy.float32(1e-5)
    same_bits(few_cpu.prod(x, 0, False), numpy.multiply.reduce(x))
    same_bits(few_cpu.prod(x[:0], None, False), numpy.multiply.reduce(x[:0]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if 0 not in shape] + [(7,), (2, 3, 5)])
def test_extremes_and_their_places(kind, shape):
    x = numbers(shape, kind, gaps=True)
    for largest, ufunc, place in ((True, numpy.maximum, numpy.argmax), (False, numpy.minimum, numpy.argmin)):
        for dim, keepdim in itertools.product((None, *range(len(shape))), (False, True)):
            result = few_cpu.extremes(x, dim, keepdim, largest, True)
            if result is None:
                assert len(shape) == 3 and dim == 1
                continue
            numpy.testing.assert_array_equal(result[0], ufunc.reduce(x, dim, None, None, keepdim))
            numpy.testing.assert_array_equal(result[1], place(x, dim, keepdims=keepdim))
            assert result[0].dtype == x.dtype and result[0].shape == result[1].shape


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("largest", [True, False])
def test_top_takes_the_first_of_equals_and_nan_as_the_largest(monkeypatch, kind, largest):
    x = numpy.random.default_rng(1).integers(-3, 3, (6, 40)).astype(kind)
    if kind is not numpy.int64:
        x[::2, ::7] = numpy.nan
    for k in (1, 3, 16):
        values, places = few_cpu.top(x, k, 1, largest)
        monkeypatch.setattr(few_cpu, "_NUMBA", "not loaded")
        monkeypatch.setattr(few_cpu, "_calls", 0)
        expected, expected_places = sorting_cpu.topk(x, k, 1, largest, True)
        monkeypatch.setattr(few_cpu, "_calls", few_cpu.SMALL_CALLS)
        numpy.testing.assert_array_equal(values, expected)
        numpy.testing.assert_array_equal(places, expected_places)
    assert few_cpu.top(x[0], 2, 0, largest)[0].shape == (2,)
    assert few_cpu.top(x, 17, 1, largest) is None and few_cpu.top(x, 2, 0, largest) is None


def test_equal_is_that_of_numbers():
    x = numpy.array([[0.0, 1.0]], numpy.float32)
    assert few_cpu.equal(x, numpy.array([[-0.0, 1.0]], numpy.float32)) is True
    assert few_cpu.equal(x, x + 1) is False
    assert few_cpu.equal(x, x.astype(numpy.float64)) is None and few_cpu.equal(x.T[::-1], x.T) is None
    odd = dg.tensor([1.0, float("nan")])
    assert (
        not dg.equal(odd, odd) and dg.equal(dg.zeros(3, 0), dg.zeros(3, 0)) and not dg.equal(dg.ones(2), dg.ones(2, 1))
    )


def test_what_is_not_row_major_large_or_half_is_left_to_numpy():
    x = numbers((4, 6), numpy.float32)
    for element in (x.T, x[:, ::2], x.astype(numpy.float16), numpy.zeros((100, 100), numpy.float32)):
        assert few_cpu.sum(element, None, False) is None and few_cpu.extremes(element, 0, False, True, True) is None
    assert few_cpu.sum(x, (0, 1), False) is None and few_cpu.sum(numbers((2, 3, 4), numpy.float32), 1, False) is None


@pytest.mark.parametrize("shape", [(), (5,), (4, 6), (2, 3, 4)])
def test_reductions_of_tensors(shape):
    x = numbers(shape, numpy.float32)
    for element in (dg.from_numpy(x), dg.from_numpy(x.T.copy()).T if x.ndim == 2 else dg.from_numpy(x)):
        for dim in (None, *range(-len(shape), len(shape))):
            for keepdim in (False, True):
                for name, reference in (
                    ("sum", numpy.sum),
                    ("amax", numpy.max),
                    ("amin", numpy.min),
                    ("mean", numpy.mean),
                ):
                    argument = () if dim is None and name.startswith("am") else dim
                    result = getattr(element, name)(argument, keepdim)
                    expected = reference(x, dim, keepdims=keepdim)
                    assert result.shape == numpy.shape(expected) and type(result) is dg.Tensor
                    numpy.testing.assert_allclose(result.numpy(), expected, rtol=1e-5)
    flags = dg.from_numpy(numpy.asarray(x > 0))
    assert bool(flags.any()) == bool((x > 0).any()) and bool(flags.all()) == bool((x > 0).all())


def test_loops_are_compiled_once_for_a_dtype():
    x = numpy.ones((4, 5), numpy.float32)
    few_cpu.sum(x, None, False)
    before = len(few_numba.total.signatures)
    few_cpu.sum(numpy.ones((2, 2, 2), numpy.float32), None, False)
    assert len(few_numba.total.signatures) == before


def _odd(kind):
    """Numbers among which some are equal, 0 has both signs and NaN stands where the dtype has them."""
    x = numpy.random.default_rng(3).integers(-4, 5, 61).astype(kind)
    if kind is not numpy.int64:
        x[7], x[20], x[21] = -0.0, 0.0, -0.0
    return x


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 2, 3, 8, 61])
def test_lower_median_has_the_bits_of_the_general_way(kind, size):
    x = _odd(kind)[:size]
    cases = [x, x[::-1].copy(), numpy.sort(x), numbers((size,), kind), numpy.full(size, 3, kind)]
    if kind is not numpy.int64:
        cases += [
            numbers((size,), kind, gaps=True),
            numpy.array([numpy.inf, -numpy.inf, 1.0], kind),
            -numpy.zeros(size, kind),
        ]
    for case in cases:
        same_bits(few_cpu.lower_median(case), quantiles_cpu.median(case, 0, False, False)[0])
    assert few_cpu.lower_median(numbers((40, 40), kind)) is None and few_cpu.lower_median(x[:0]) is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 2, 3, 61])
def test_distinct_numbers_in_order(kind, size):
    for case in (numbers((size,), kind), numbers((size,), kind, gaps=True), numpy.full((1, size), 2, kind)):
        same_bits(few_cpu.distinct(case), numpy.unique(case))
    if kind is not numpy.int64:
        assert few_cpu.distinct(numpy.array([0.0, 1.0, -0.0], kind)) is None  # which one is kept is for others to say
        many = numpy.array([numpy.nan, 1.0, numpy.nan, -numpy.inf], kind)
        same_bits(few_cpu.distinct(many), numpy.array([-numpy.inf, 1.0, numpy.nan], kind))
    assert few_cpu.distinct(numpy.zeros(0, kind)) is None and few_cpu.distinct(numpy.zeros((8, 8), kind).T[::2]) is None


@pytest.mark.parametrize("kind", KINDS)
def test_products_and_differences_of_pairs(monkeypatch, kind):
    x, y = _odd(kind), numbers((5,), kind, gaps=True)
    for _ in range(2):
        same_bits(few_cpu.outer(x, y), numpy.multiply.outer(x, y))
        same_bits(few_cpu.outer(x[::2], y[:0]), numpy.multiply.outer(x[::2], y[:0]))
        monkeypatch.setattr(few_cpu, "_NUMBA", "not loaded")
        monkeypatch.setattr(few_cpu, "_calls", 0)
    assert few_cpu.differences(x.reshape(1, -1), y.reshape(1, -1)) is None
    monkeypatch.setattr(few_cpu, "_calls", few_cpu.SMALL_CALLS)
    if kind is not numpy.int64:
        element, two = x[:60].reshape(4, 15), numbers((3, 15), kind, gaps=True)
        same_bits(few_cpu.differences(element, two), element[:, None] - two[None])


@pytest.mark.parametrize("kind", KINDS)
def test_equal_finds_one_other_number_anywhere(kind):
    x = numbers((3, 129), kind)
    assert few_cpu.equal(x, x.copy()) is True and few_cpu.equal(x[:0], x[:0]) is True
    assert few_cpu.equal(x, x.reshape(129, 3)) is False
    for place in (0, 127, 128, 200, 386):
        other = x.copy()
        other.flat[place] += 1
        assert few_cpu.equal(x, other) is False
    if kind is not numpy.int64:
        assert few_cpu.equal(numpy.zeros(3, kind), -numpy.zeros(3, kind)) is True
        assert few_cpu.equal(numpy.full(3, numpy.nan, kind), numpy.full(3, numpy.nan, kind)) is False
