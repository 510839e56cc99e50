"""Sorting and selecting on the GPU against the CPU twins."""

from __future__ import annotations

import ml_dtypes
import numpy
import pytest

from dynograd.kernels.index import scatters_cuda
from dynograd.kernels.sort import sorting_cuda
from tests.gpu.twins import compared, on_device

BFLOAT16 = numpy.dtype(ml_dtypes.bfloat16)
KINDS = [
    "float32", "float64", "int32", "int64", "int16", "int8", "uint8", "uint16", "uint32", "uint64", "bool", "float16",
    BFLOAT16,
]  # fmt: skip


def values_with_ties(shape, kind):
    x = numpy.random.default_rng(0).integers(-5, 9, shape)
    if kind == "bool" or str(kind).startswith("u"):
        return (
            (x > 0)
            if kind == "bool"
            else numpy.where(x > 6, numpy.array(numpy.iinfo(kind).max, kind), (x + 5).astype(kind))
        )
    x = x.astype(kind)
    if x.dtype.kind not in "iu":
        flat = x.reshape(-1)
        flat[::5], flat[1::6], flat[3:4] = numpy.nan, -0.0, numpy.inf
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


@pytest.mark.parametrize("count", [1, 2, 8, 9, 10, 17, 18, 19, 73, 100, 289])
def test_rows_around_what_a_thread_sorts(count):
    """Nine elements a thread; beyond 288 the threads that share a row are two warps."""
    for kind in ("float32", "int64")[: 1 if count == 100 else 2]:
        compared("sorting", "sort", values_with_ties((2, count), kind), 1, count % 2 == 0)


@pytest.mark.parametrize("shape", [(33, 3), (7, 20), (65, 1)], ids=str)
def test_many_rows_share_a_block(shape):
    compared("sorting", "sort", values_with_ties(shape, "float32"), 1, False)
    compared("sorting", "argsort", values_with_ties(shape, "int64"), 1, True)


@pytest.fixture
def long_rows(monkeypatch):
    monkeypatch.setattr(sorting_cuda, "SHORT", 16)
    monkeypatch.setattr(sorting_cuda, "_FEW", 4)


@pytest.mark.usefixtures("long_rows")
@pytest.mark.parametrize("kind", ["float32", "uint64", "int16", "bool", BFLOAT16], ids=str)
def test_long_rows_go_by_radix(kind):
    x = values_with_ties((2, 57), kind)
    compared("sorting", "sort", x, 1, False)
    compared("sorting", "argsort", x, 1, True)


@pytest.mark.usefixtures("long_rows")
@pytest.mark.parametrize(
    ("kind", "count", "blocks", "added_up", "threads"),
    [
        ("int16", 511, 528, 32, 32), ("int16", 512, 528, 32, 32), ("float16", 513, 528, 32, 32), ("int32", 1100, 528, 32, 32),
        ("uint8", 2100, 2, 32, 32), ("uint8", 1500, 528, 2, 32), ("uint8", 2100, 528, 32, 64), ("int8", 1030, 1, 0, 64),
    ],
)  # fmt: skip
def test_tiles_and_chunks(kind, count, blocks, added_up, threads, monkeypatch):
    """Lengths around a tile, several tiles a chunk, sums of many chunks, several warps."""
    monkeypatch.setattr(sorting_cuda, "_BLOCKS", blocks)
    monkeypatch.setattr(sorting_cuda, "_ADDED_UP", added_up)
    monkeypatch.setattr(sorting_cuda, "_EMULATED", threads)
    x = numpy.random.default_rng(1).integers(-120, 120, count).astype(kind)
    compared("sorting", "sort", x, 0, count % 2 == 0)


@pytest.mark.usefixtures("long_rows")
@pytest.mark.parametrize(("k", "ordered"), [(1, True), (3, True), (3, False), (7, True), (139, False)])
@pytest.mark.parametrize("threads", [32, 64])
def test_first_of_long_rows_are_found_in_segments(k, ordered, threads, monkeypatch):
    monkeypatch.setattr(sorting_cuda, "_SEGMENT", 32)
    monkeypatch.setattr(sorting_cuda, "_EMULATED", threads)
    compared("sorting", "topk", values_with_ties((2, 139), "float32"), k, 1, threads == 32, ordered)
    compared("sorting", "topk", values_with_ties((2, 139), "uint8"), k, 1, threads == 64, ordered)


@pytest.mark.usefixtures("long_rows")
@pytest.mark.parametrize("kind", ["float64", "int32", "uint16", BFLOAT16], ids=str)
def test_first_of_all_kinds(kind):
    for largest in (True, False):
        compared("sorting", "topk", values_with_ties((2, 40), kind), 3, 1, largest, largest)


@pytest.mark.usefixtures("long_rows")
def test_large_k_sorts_the_row():
    compared("sorting", "topk", values_with_ties((1, 20), "int16"), 18, 1, True, True)
    compared("sorting", "topk", values_with_ties((1, 20), "bool"), 9, 1, True, True)


@pytest.mark.usefixtures("long_rows")
@pytest.mark.parametrize("kind", ["float32", "int64", "uint8", BFLOAT16], ids=str)
@pytest.mark.parametrize("sorts", [False, True], ids=["selects", "sorts"])
def test_the_kth_of_rows(kind, sorts, monkeypatch):
    monkeypatch.setattr(sorting_cuda, "_ROW_OF_BLOCK", 10 if sorts else 99)
    monkeypatch.setattr(sorting_cuda, "_EMULATED", 32 if sorts else 64)
    x = values_with_ties((4, 37), kind)
    x[1] = (numpy.arange(37) * 5 % 37).astype(kind)  # all different
    if x.dtype.kind not in "iub":
        x[0][numpy.isnan(x[0])], x[2], x[1, 20:31] = 3, numpy.nan, numpy.nan
    compared("sorting", "kthvalue", x, 20, 1, True)
    for ignore_nan in (False, True):
        compared("quantiles", "median", x, 1, False, ignore_nan)


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
    result = sorting_cuda.order_of(on_device(keys), 20)
    numpy.testing.assert_array_equal(result.numpy(), numpy.argsort(keys, kind="stable"))


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_sums_before(kind):
    counts = numpy.random.default_rng(0).integers(0, 9, (2, 2100)).astype(kind)
    before, total = scatters_cuda.sums_before(on_device(counts))
    numpy.testing.assert_array_equal(before.numpy(), numpy.cumsum(counts, 1) - counts)
    numpy.testing.assert_array_equal(total.numpy(), counts.sum(1, keepdims=True))


@pytest.mark.parametrize("kind", ["float32", "float64", "float16"])
def test_zeros_of_both_signs_are_equal(kind):
    x = numpy.asarray([0.0, -0.0, 1, -0.0, 0.0, -1]).astype(kind)
    compared("sorting", "argsort", x, 0, False)
    compared("sorting", "kthvalue", x, 4, 0, False)
