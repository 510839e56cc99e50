"""`fill_diagonal_`: square, wide, tall, wrapped, cubes; its gradient."""

import numpy
import pytest

import dynograd


@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize("shape", [(3, 3), (2, 5), (5, 2), (7, 3), (8, 3), (9, 3), (4, 3), (10, 1), (1, 1), (0, 3)])
def test_as_numpy_fills_it(shape, wrap):
    expected = numpy.zeros(shape)
    if expected.size:
        numpy.fill_diagonal(expected, 2.0, wrap)
    assert dynograd.zeros(shape).fill_diagonal_(2.0, wrap=wrap).tolist() == expected.tolist()


def test_cubes_and_other_layouts():
    expected = numpy.zeros((3, 3, 3))
    numpy.fill_diagonal(expected, 2.0)
    assert dynograd.zeros(3, 3, 3).fill_diagonal_(2).tolist() == expected.tolist()
    x = dynograd.zeros(2, 3)
    assert x.t().fill_diagonal_(2).tolist() == [[2, 0], [0, 2], [0, 0]] and x.tolist() == [[2, 0, 0], [0, 2, 0]]


def test_gradient():
    x = dynograd.zeros(2, 2, requires_grad=True)
    y = x * 2
    assert y.fill_diagonal_(5.0) is y
    y.sum().backward()
    assert x.grad.tolist() == [[0, 2], [2, 0]]


@pytest.mark.parametrize(
    "shape, words", [((3,), "larger than 1, got shape (3,)"), ((2, 3, 3), "equal length, got shape (2, 3, 3)")]
)
def test_mistakes(shape, words):
    with pytest.raises(RuntimeError) as caught:
        dynograd.zeros(shape).fill_diagonal_(1)
    assert "fill_diagonal_" in str(caught.value) and words in str(caught.value)
