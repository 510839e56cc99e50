"""Where values are, which there are and how often, and bags of embeddings, on the GPU against the CPU twins."""

from __future__ import annotations

import ml_dtypes
import numpy
import pytest

from dynograd.kernels.build import determinism
from dynograd.kernels.index import bags_cpu, bags_cuda, lookups_cuda, scatters_cuda
from tests.gpu.twins import compared, on_device
from tests.gpu.values import numbers

bfloat16 = numpy.dtype(ml_dtypes.bfloat16)
KINDS = ["float32", "float64", "int64", "int32", "uint8", "bool", bfloat16, "float16"]


def few(shape, kind, seed=0):
    return numpy.random.default_rng(seed).integers(0, 2 if kind == "bool" else 5, shape).astype(kind)


@pytest.mark.parametrize("kind", ["bool", "float32", "int64"])
@pytest.mark.parametrize("shape", [(7,), (3, 4), (2, 3, 4), (), (0,), (2, 0)], ids=str)
def test_nonzero(shape, kind):
    x = few(shape, kind)
    result = lookups_cuda.nonzero(on_device(x)).numpy()
    expected = numpy.stack(numpy.nonzero(x), -1) if x.ndim else numpy.zeros((int(bool(x)), 0), int)
    numpy.testing.assert_array_equal(result, expected)


def test_places_over_several_blocks():
    mask = numbers(0, (9000,)) > 1
    numpy.testing.assert_array_equal(scatters_cuda.true_places(on_device(mask)).numpy(), numpy.flatnonzero(mask))
    places, runs = scatters_cuda.runs_of(on_device(mask))
    numpy.testing.assert_array_equal(places.numpy(), numpy.flatnonzero(mask))
    numpy.testing.assert_array_equal(runs.numpy(), numpy.cumsum(mask) - 1)


@pytest.mark.parametrize("shape", [(6,), (2, 3), (0,)], ids=str)
def test_one_hot(shape):
    compared("lookups", "one_hot", few(shape, "int64"), 6)


@pytest.mark.parametrize("kind", [None, "float32", "float64", "int64"])
@pytest.mark.parametrize("least", [0, 9])
def test_bincount(kind, least):
    x = few((40,), "int64")
    weights = None if kind is None else (numbers(1, (40,)) * 4).astype(kind)
    for deterministic in (False, True):
        determinism.use_deterministic_algorithms(deterministic)
        try:
            compared("lookups", "bincount", x, weights, least)
        finally:
            determinism.use_deterministic_algorithms(False)
    compared("lookups", "bincount", x[:0], weights if kind is None else weights[:0], least)
    compared("lookups", "bincount", x.astype("uint8"), None, least)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_unique(kind):
    x = few((3, 5), kind)
    compared("lookups", "unique", x, None)
    compared("lookups", "unique_consecutive", x.reshape(-1), None)
    rows = few((6, 2), kind, 3)
    compared("lookups", "unique", rows, 0)
    compared("lookups", "unique", numpy.ascontiguousarray(rows.T), 1)
    compared("lookups", "unique_consecutive", rows[[0, 0, 1, 1, 0]], 0)


def test_unique_of_nan_and_of_nothing():
    x = numpy.float32([numpy.nan, 1, numpy.nan, -0.0, 0.0])
    result = [element.numpy() for element in lookups_cuda.unique(on_device(x), None)]
    numpy.testing.assert_array_equal(result[0], [0.0, 1.0, numpy.nan, numpy.nan])
    numpy.testing.assert_array_equal(result[1], [2, 1, 3, 0, 0])
    numpy.testing.assert_array_equal(result[2], [2, 1, 1, 1])
    for name in ("unique", "unique_consecutive"):
        compared("lookups", name, numpy.zeros((0,), "float32"), None)
    compared("lookups", "unique_consecutive", x, None)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(
    ("rows", "values"),
    [("float32", "float32"), ("int64", "int32"), ("int32", "float32"), (bfloat16, bfloat16)],
    ids=str,
)
def test_searchsorted(side, rows, values):
    row = numpy.sort(few((9,), rows).astype("float32")).astype(rows)
    compared(
        "lookups",
        "searchsorted",
        row,
        few((3, 4), values, 1) - numpy.asarray(1).astype(values),
        side,
        None,
        numpy.int64,
    )
    several = numpy.sort(few((3, 6), rows).astype("float32"), -1).astype(rows)
    compared("lookups", "searchsorted", several, few((3, 4), values, 1), side, None, numpy.int32)
    compared("lookups", "searchsorted", row[:0], few((3,), values, 1), side, None, numpy.int64)


def test_searchsorted_with_nan_and_an_order():
    row = numpy.float32([2, 0, numpy.nan, 1])
    values = numpy.float32([numpy.nan, 1, 5])
    for side in ("left", "right"):
        compared("lookups", "searchsorted", row, values, side, numpy.array([1, 3, 0, 2]), numpy.int64)


@pytest.mark.parametrize("kind", ["float32", "int64", "uint8", bfloat16], ids=str)
@pytest.mark.parametrize("invert", [False, True])
def test_isin(kind, invert):
    compared("lookups", "isin", few((3, 4), kind), numpy.asarray([1, 3, 3]).astype(kind), invert)
    compared("lookups", "isin", few((3, 4), kind), numpy.zeros(0, kind), invert)


def test_nan_is_in_nothing():
    compared("lookups", "isin", numpy.float32([numpy.nan, 1]), numpy.float32([numpy.nan, 1]), False)


# --- bags ----------------------------------------------------------------------------------------------------------------


def test_factors_of_embedding_gradients():
    indices = few((2, 6), "int64")
    compared("bags", "inverse_frequencies", indices, 5, "float32")
    compared("bags", "inverse_frequencies", indices, 5, bfloat16)
    compared("bags", "unlike", indices, 2, "float32")
    compared("bags", "kept_places", indices.reshape(-1), 2)


@pytest.mark.parametrize("last", [False, True])
def test_bag_numbers(last):
    offsets = numpy.array([0, 0, 3, 3, 5, 7])
    compared("bags", "bag_numbers", offsets, 7, last)
    numbers_of = bags_cpu.bag_numbers(offsets, 7, last)
    compared("bags", "inverse_counts", numbers_of, 6, "float32")


def test_equal_bags():
    numpy.testing.assert_array_equal(bags_cuda.equal_bags(3, 2).numpy(), bags_cpu.equal_bags(3, 2))
    numpy.testing.assert_array_equal(
        bags_cuda.equal_bags(2, 3, on_device(numpy.zeros(1))).numpy(), bags_cpu.equal_bags(2, 3)
    )


@pytest.mark.parametrize("kind", ["float32", "float64", bfloat16], ids=str)
def test_largest_of_bags(kind):
    rows = few((7, 3), "int64").astype(kind)
    rows[4, 1] = numpy.nan
    compared("bags", "largest_of_bags", rows, numpy.array([0, 0, 2, 2, 2, 3, 3]), 5)


@pytest.mark.parametrize("norm", [1.0, 2.0, 3.5, float("inf")])
def test_rows_shrink_to_a_norm(norm):
    weight, indices = numbers(0, (5, 6)), numpy.array([[1, 3], [3, 0]])
    rows, created = bags_cuda.shrunk_rows(on_device(weight), on_device(indices), 1.5, norm)
    result = weight.copy()
    result[rows.numpy()] = created.numpy()
    expected, (rows, created) = weight.copy(), bags_cpu.shrunk_rows(weight, indices, 1.5, norm)
    expected[rows] = created
    numpy.testing.assert_allclose(result, expected, rtol=2e-6)


def test_offsets_are_looked_at_when_asked(monkeypatch):
    offsets = numpy.array([1, 2])
    assert bags_cuda.offsets_problem(on_device(offsets), 3, False) is None
    monkeypatch.setenv("DYNOGRAD_CUDA_SYNC", "1")
    assert bags_cuda.offsets_problem(on_device(offsets), 3, False) == bags_cpu.offsets_problem(offsets, 3, False)
