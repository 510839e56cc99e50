"""The next number of a floating dtype."""

import numpy
import pytest

import dynograd
from dynograd import tensor
from tests.ops.harness import Row, error, generate

ROWS = [
    Row(
        "nextafter",
        None,
        shapes=[(3, 4), (3, 4)],
        dtypes=("float32", "float64", "float16", "bfloat16"),
        errors=[
            error(lambda op: op(tensor([1]), tensor([2])), TypeError, "nextafter", "floating", "int64", ".float()")
        ],
    )
]
test_rows = generate(ROWS)

EDGES = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -3.3, numpy.inf, -numpy.inf, numpy.nan]


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_every_edge_towards_every_other_as_in_c(kind):
    limits = numpy.finfo(kind)
    edges = numpy.array([*EDGES, limits.max, limits.tiny, -limits.tiny, limits.smallest_subnormal], kind)
    x, y = numpy.meshgrid(edges, edges)
    result = dynograd.nextafter(tensor(x), tensor(y)).numpy()
    with numpy.errstate(all="ignore"):
        expected = numpy.nextafter(x, y)
    numpy.testing.assert_array_equal(result, expected)
    numbers = ~numpy.isnan(expected)
    numpy.testing.assert_array_equal(numpy.signbit(result[numbers]), numpy.signbit(expected[numbers]))


def test_promotion_broadcasting_and_halves():
    result = dynograd.nextafter(tensor([1.0, 2.0]), tensor([[3.0]], dtype=dynograd.float64))
    assert result.dtype is dynograd.float64 and result.shape == (1, 2) and result[0, 0].item() == 1 + 2.0**-52
    for kind, step in ((dynograd.float16, 2.0**-10), (dynograd.bfloat16, 2.0**-7)):
        element = tensor([1.0], dtype=kind)
        assert (
            dynograd.nextafter(element, element + 1).item() == 1 + step
            and element.nextafter_(-element).item() == 1 - step / 2
        )
