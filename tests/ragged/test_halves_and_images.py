"""Products, squares and places of ragged tensors in dtypes and shapes that have ways of their own: halves, and rows ragged in two dims."""

import numpy
import pytest

import dynograd
from dynograd import ragged_tensor
from dynograd.errors import ShapeError

LENGTHS = (3, 1, 0, 5)
HALVES = [dynograd.float16, dynograd.bfloat16]


def rows_of(shape, dtype=dynograd.float32, seed=0):
    """One row for each length, which stands in `shape` as None."""
    random = numpy.random.default_rng(seed)
    return [
        dynograd.tensor(random.integers(-3, 4, [length if size is None else size for size in shape]), dtype=dtype)
        for length in LENGTHS
    ]


@pytest.mark.parametrize("dtype", [*HALVES, dynograd.float64], ids=str)
@pytest.mark.parametrize(
    "left, right", [((2, None), (None, 4)), ((None, 2), (2, 4)), ((2, 4), (4, None)), ((None, 2), (2, None))]
)
def test_products_of_rows(dtype, left, right):
    a, b = rows_of(left, dtype), rows_of(right, dtype, 1)
    product = (as_ragged(a, left) @ as_ragged(b, right)).unbind()
    for row, x, y in zip(product, a, b):
        assert row.dtype is dtype and dynograd.equal(row, x @ y)


def as_ragged(rows, shape):
    return ragged_tensor(rows, ragged_dims=1 + shape.index(None)) if None in shape else dynograd.stack(rows)


@pytest.mark.parametrize("dtype", [*HALVES, dynograd.float32], ids=str)
def test_norms_over_rows(dtype):
    rows = rows_of((None, 4), dtype)
    norms = ragged_tensor(rows).norm(dim=1)
    assert norms.dtype is dtype
    for norm, row in zip(norms, rows):
        numpy.testing.assert_allclose(norm.float().numpy(), row.float().square().sum(0).sqrt().numpy(), rtol=1e-2)


def test_places_in_images():
    images = [dynograd.tensor(numpy.arange(h * w).reshape(h, w) % 3) for h, w in ((2, 3), (1, 4), (3, 2))]
    x = ragged_tensor(images, ragged_dims=[1, 2])
    expected = [[number, *place] for number, image in enumerate(images) for place in image.nonzero().tolist()]
    assert x.nonzero().tolist() == expected
    assert [list(place) for place in zip(*[element.tolist() for element in x.nonzero(as_tuple=True)])] == expected


def test_rows_as_objects():
    rows = rows_of((None, 2))
    array = numpy.array(ragged_tensor(rows), dtype=object)
    assert array.shape == (4,) and [row.tolist() for row in array] == [row.tolist() for row in rows]


def test_a_later_tensor_that_does_not_fit_is_said_to_be_one():
    first, other = ragged_tensor(rows_of((None, 2))), ragged_tensor(rows_of((None, 2))[::-1])
    with pytest.raises(ShapeError, match="cat.*the first.*a later"):
        dynograd.cat([first, other], dim=2)
