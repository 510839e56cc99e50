"""Sorting and selecting on the GPU against the CPU twins."""

from __future__ import annotations

import ml_dtypes
import numpy
import pytest

from dynograd.kernels import sorting_cuda
from tests.gpu.twins import compared, on_device

KINDS = ["float32", "float64", "int32", "int64", "uint8", "int16", "bool", "float16", numpy.dtype(ml_dtypes.bfloat16)]


def values_with_ties(shape, kind):
    x = numpy.random.default_rng(0).integers(-5, 9, shape)
    if kind in ("bool", "uint8"):
        return (x > 0).astype(kind) if kind == "bool" else (x + 5 + 200 * (x > 6)).astype(kind)
    x = x.astype(kind)
    if x.dtype.kind not in "iu":
        flat = x.reshape(-1)
        flat[::5], flat[1::6], flat[3] = numpy.nan, -0.0, numpy.inf
    return x


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_short_rows(kind):
    for shape, dim in (((3, 7), 1), ((3, 2, 4), 1), ((1,), 0)):
        x = values_with_ties(shape if shape != (1,) else (4,), kind)[: shape[0]]
        for descending in (False, True):
            compared("sorting", "sort", x, dim, descending)
            compared("sorting", "topk", x, min(2, shape[dim]), dim, descending, not descending)
        compared("sorting", "argsort", x, dim, False)
        compared("sorting", "kthvalue", x, 1 + shape[dim] // 2, dim, dim == 1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["float32", "int64", "uint8", "bool"])
def test_long_rows_go_by_radix(kind, monkeypatch):
    monkeypatch.setattr(sorting_cuda, "SHORT", 16)
    monkeypatch.setattr(sorting_cuda, "_TILE", 32)
    x = values_with_ties((2, 77), kind)
    compared("sorting", "sort", x, 1, False)
    compared("sorting", "argsort", x, 1, True)
    compared("sorting", "kthvalue", x, 40, 1, False)


@pytest.mark.parametrize(("k", "ordered"), [(3, True), (3, False), (7, True)])
def test_first_of_long_rows_are_found_in_tiles(k, ordered, monkeypatch):
    monkeypatch.setattr(sorting_cuda, "SHORT", 16)
    monkeypatch.setattr(sorting_cuda, "_TILE", 32)
    for largest in (True, False):
        compared("sorting", "topk", values_with_ties((2, 139), "float32"), k, 1, largest, ordered)
    compared("sorting", "topk", values_with_ties((2, 40), "uint8"), k, 1, False, ordered)


def test_large_k_and_wide_numbers_sort_the_row(monkeypatch):
    monkeypatch.setattr(sorting_cuda, "SHORT", 16)
    monkeypatch.setattr(sorting_cuda, "_MOST_OF_TILE", 4)
    compared("sorting", "topk", values_with_ties((1, 20), "int16"), 5, 1, True, True)
    compared("sorting", "topk", values_with_ties((1, 20), "bool"), 5, 1, True, True)


@pytest.mark.parametrize("name", ["sort", "argsort"])
def test_no_dims_and_no_elements(name):
    for x in (numpy.float32(3.0), numpy.zeros((0, 3), "float32"), numpy.zeros((3, 0), "int64")):
        dim = max(numpy.ndim(x) - 1, 0)
        compared("sorting", name, numpy.asarray(x), dim, False)


def test_first_of_no_dims():
    compared("sorting", "topk", numpy.asarray(numpy.float32(3)), 1, 0, True, True)
    compared("sorting", "topk", numpy.zeros((2, 3), "float32"), 0, 1, True, True)
    compared("sorting", "kthvalue", numpy.asarray(numpy.float32(3)), 1, 0, False)


def test_order_looks_at_as_many_bits_as_there_are(monkeypatch):
    monkeypatch.setattr(sorting_cuda, "SHORT", 16)
    keys = numpy.random.default_rng(0).integers(0, 20, 50)
    found = sorting_cuda.order_of(on_device(keys), 20)
    numpy.testing.assert_array_equal(found.numpy(), numpy.argsort(keys, kind="stable"))


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_sums_before(kind):
    counts = numpy.random.default_rng(0).integers(0, 9, (2, 2100)).astype(kind)
    before, total = sorting_cuda.sums_before(on_device(counts))
    numpy.testing.assert_array_equal(before.numpy(), numpy.cumsum(counts, 1) - counts)
    numpy.testing.assert_array_equal(total.numpy(), counts.sum(1, keepdims=True))


@pytest.mark.parametrize("kind", ["float32", "float64", "float16"])
def test_zeros_of_both_signs_are_equal(kind):
    x = numpy.asarray([0.0, -0.0, 1, -0.0, 0.0, -1]).astype(kind)
    compared("sorting", "argsort", x, 0, False)
    compared("sorting", "kthvalue", x, 4, 0, False)
