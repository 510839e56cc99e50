"""`gradient` against numpy.gradient."""

import numpy

import dynograd
from tests.ops.harness import Row, error, generate

PLACES = numpy.array([0.0, 0.5, 1.5, 1.75])


def np_gradient(x, dim=None, spacing=1, edge_order=1):
    axes = tuple(range(x.ndim)) if dim is None else dim
    steps = spacing if isinstance(spacing, (list, tuple)) else [spacing] * len(axes)
    return tuple(
        numpy.gradient(x, step, axis=axis, edge_order=edge_order) for axis, step in zip(axes, steps, strict=True)
    )


zeros = dynograd.zeros
ROWS = [
    Row("gradient", np_gradient, shapes=[(5,)], result=("same",), empty=False, ones=False, tolerance=4),
    Row("gradient", np_gradient, shapes=[(2,)], result=("same",), empty=False, ones=False, id="two samples"),
    Row(
        "gradient",
        np_gradient,
        shapes=[(4, 3)],
        kwargs={"spacing": [0.5, 2.0], "edge_order": 2},
        result=("same", "same"),
        empty=False,
        ones=False,
        tolerance=8,
        id="spacing",
        errors=[
            error(lambda op: op(zeros(3), edge_order=3), RuntimeError, "edge_order", "3"),
            error(lambda op: op(zeros(3, 3), dim=(0, -2)), RuntimeError, "multiple times", "(0, -2)"),
            error(lambda op: op(zeros(3, 3), spacing=[1.0]), RuntimeError, "each of 2 dims", "1"),
            error(lambda op: op(zeros(1)), RuntimeError, "edge_order+1", "got 1 at dim 0"),
            error(lambda op: op(zeros(3), spacing=[zeros(2)]), RuntimeError, "vector of 3", "(2,)"),
        ],
    ),
    Row(
        "gradient",
        np_gradient,
        shapes=[(3, 4)],
        kwargs={"spacing": (PLACES,), "dim": (1,), "edge_order": 2},
        dtypes=["float64"],
        result=("same",),
        grad=[True, False],
        empty=False,
        ones=False,
        id="coordinates",
    ),
]
test_rows = generate(ROWS)


def test_whole_numbers_have_fractional_slopes():
    (slope,) = dynograd.gradient(dynograd.tensor([0, 1, 4]))
    assert slope.tolist() == [1.0, 2.0, 3.0]
    assert slope.dtype == dynograd.float32


def test_whole_coordinates_count_as_the_default_dtype():
    values = dynograd.tensor([1.0, 2.0, 4.0], dtype=dynograd.bfloat16)
    (result,) = dynograd.gradient(values, spacing=(dynograd.tensor([1, 3, 4], dtype=dynograd.int8),))
    assert result.dtype is dynograd.float32
    numpy.testing.assert_allclose(result.numpy(), [0.5, 1.5, 2.0], rtol=1e-2)
