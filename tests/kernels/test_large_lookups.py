"""Kernels that only large arrays reach, against NumPy: runs, modes, weighted counts, memberships, running extremes, masks."""

from __future__ import annotations

import numpy
import pytest

import dynograd as dg

SIZE = 40_007


def values(kind: str, nan: bool = False) -> numpy.ndarray:
    created = numpy.random.default_rng(0).integers(-9, 9, SIZE).astype(kind)
    if nan:
        created[[5, 700, 701, SIZE - 1]] = numpy.nan
    return created


@pytest.mark.parametrize(("kind", "nan"), [("f", False), ("f", True), ("q", False)])
@pytest.mark.parametrize(("inverse", "counts"), [(False, False), (True, False), (False, True), (True, True)])
def test_runs_of_equal_elements(kind, nan, inverse, counts):
    x = values(kind, nan)
    fresh = numpy.r_[True, x[1:] != x[:-1]]
    expected = [x[fresh]]
    expected += [fresh.cumsum() - 1] if inverse else []
    expected += [numpy.diff(numpy.flatnonzero(fresh), append=SIZE)] if counts else []
    result = dg.unique_consecutive(dg.from_numpy(x), return_inverse=inverse, return_counts=counts)
    for element, other in zip(result if len(expected) > 1 else [result], expected, strict=True):
        numpy.testing.assert_array_equal(element.numpy(), other)


@pytest.mark.parametrize("kind", ["f", "q"])
def test_modes_of_long_rows(kind):
    rows = values(kind)[:40_000].reshape(8, 5000)
    result, places = dg.mode(dg.from_numpy(rows), 1)
    for row, value, place in zip(rows, result.tolist(), places.tolist(), strict=True):
        kinds, counts = numpy.unique(row, return_counts=True)
        assert value == kinds[counts.argmax()] and place == numpy.flatnonzero(row == value)[-1]


@pytest.mark.parametrize("invert", [False, True])
def test_membership_of_floats(invert):
    x, tested = values("f", True), numpy.array([3.0, numpy.nan, -2.0, 3.0], "f")
    result = dg.isin(dg.from_numpy(x), dg.from_numpy(tested), invert=invert)
    numpy.testing.assert_array_equal(result.numpy(), numpy.isin(x, tested, invert=invert))


def test_weighted_counts():
    x, weights = values("q") + 9, numpy.random.default_rng(1).normal(size=SIZE)
    result = dg.bincount(dg.from_numpy(x), dg.from_numpy(weights), minlength=30)
    numpy.testing.assert_allclose(result.numpy(), numpy.bincount(x, weights, 30), rtol=1e-12)


@pytest.mark.parametrize(("kind", "nan"), [("f", False), ("f", True), ("q", False)])
@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_running_extremes_of_one_long_row(name, kind, nan):
    x = values(kind, nan)
    result, places = getattr(dg, name)(dg.from_numpy(x), 0)
    expected = (numpy.maximum if name == "cummax" else numpy.minimum).accumulate(x)
    numpy.testing.assert_array_equal(result.numpy(), expected)
    hits = numpy.where((x == expected) | numpy.isnan(x), numpy.arange(SIZE), 0)
    numpy.testing.assert_array_equal(places.numpy(), numpy.maximum.accumulate(hits))


def test_whole_numbers_add_up_alike_for_any_number_of_threads():
    x, before = values("q"), dg.get_num_threads()
    try:
        for threads in (1, 2):
            dg.set_num_threads(threads)
            numpy.testing.assert_array_equal(dg.cumsum(dg.from_numpy(x), 0).numpy(), x.cumsum())
    finally:
        dg.set_num_threads(before)


@pytest.mark.parametrize("kind", ["f", "d", "q"])
def test_writes_where_a_mask_says_so(kind):
    x, mask, source = values(kind), values("q") > 0, values(kind)[::-1].copy()
    count = int(mask.sum())
    expected = x.copy()
    expected[mask] = source[:count]
    argument, where = dg.from_numpy(x.copy()), dg.from_numpy(mask)
    numpy.testing.assert_array_equal(argument.masked_scatter(where, dg.from_numpy(source)).numpy(), expected)
    numpy.testing.assert_array_equal(argument.masked_scatter_(where, dg.from_numpy(source[:count])).numpy(), expected)
    expected[mask] = 2
    numpy.testing.assert_array_equal(argument.masked_fill_(where, 2).numpy(), expected)
    argument[where] = dg.from_numpy(source[:count])
    expected[mask] = source[:count]
    numpy.testing.assert_array_equal(argument.numpy(), expected)


def test_a_copy_that_a_reshape_takes_is_of_a_transpose():
    x = numpy.random.default_rng(0).normal(size=(300, 200)).astype("f")
    argument = dg.from_numpy(x)
    numpy.testing.assert_array_equal(argument.T.reshape(-1, 100).numpy(), x.T.reshape(-1, 100))
    part = argument[:, :100].reshape(300, 10, 10)  # still a view
    part.zero_()
    assert not argument[:, :100].any() and argument[:, 100:].all()
    with pytest.raises(RuntimeError, match="invalid for input of size"):
        argument.T.reshape(7, -1)


@pytest.mark.parametrize("kind", ["f", "q", "?"])
def test_writes_at_many_places(kind):
    generator = numpy.random.default_rng(2)
    x, source = values("f")[:40_000].reshape(200, 200).astype(kind), values("f")[:40_000].astype(kind)[::-1].copy()
    rows, columns = generator.integers(-200, 200, (2, 40_000))
    expected, flat = x.copy(), x.reshape(-1).copy()
    expected[rows, columns] = source
    at, beside, argument = (dg.from_numpy(element) for element in (rows.copy(), columns, source))
    numpy.testing.assert_array_equal(dg.from_numpy(x).index_put((at, beside), argument).numpy(), expected)
    created = dg.from_numpy(x.copy())
    created[at, beside] = argument
    numpy.testing.assert_array_equal(created.numpy(), expected)
    flat[rows] = source
    created = dg.from_numpy(x.copy()).reshape(-1)
    created[at] = argument
    numpy.testing.assert_array_equal(created.numpy(), flat)
    with pytest.raises(IndexError, match="out of bounds"):
        created.view(200, 200)[at, beside + 300] = argument
    numpy.testing.assert_array_equal(created.numpy(), flat)
