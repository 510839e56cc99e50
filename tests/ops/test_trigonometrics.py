"""Sines, their relatives and inverses, and degrees."""

import math

import numpy
import pytest

import dynograd
from dynograd import tensor
from tests.ops.harness import BOOL, COMPLEX, FLOATS, INTEGERS, Row, generate

ALL = FLOATS + INTEGERS + BOOL
TWO = [(3, 4), (3, 4)]


def smooth(name, reference, domain=(-2.0, 2.0), dtypes=ALL, **options):
    def widened(x, **keywords):
        return reference(x if x.dtype.kind in "fc" else x.astype(numpy.float64), **keywords)

    return Row(name, widened, shapes=[(3, 4)], domain=domain, dtypes=dtypes, **options)


ROWS = [
    smooth("sin", numpy.sin, dtypes=ALL + COMPLEX),
    smooth("cos", numpy.cos, dtypes=ALL + COMPLEX),
    smooth("tan", numpy.tan, (-1, 1)),
    smooth("asin", numpy.arcsin, (-0.8, 0.8), FLOATS),
    smooth("acos", numpy.arccos, (-0.8, 0.8), FLOATS),
    smooth("atan", numpy.arctan),
    smooth("sinc", numpy.sinc, avoid=[0.0], dtypes=FLOATS),
    smooth("deg2rad", numpy.deg2rad, (-180, 180), FLOATS),
    smooth("rad2deg", numpy.rad2deg, dtypes=FLOATS),
    Row("atan2", numpy.arctan2, shapes=TWO, avoid=[0.0], broadcast=True, dtypes=FLOATS + INTEGERS),
    Row("hypot", numpy.hypot, shapes=TWO, avoid=[0.0], broadcast=True),
]
test_rows = generate(ROWS)


def test_atan2_at_the_origin_has_gradient_zero():
    y, x = (tensor([0.0], requires_grad=True) for _ in range(2))
    dynograd.atan2(y, x).backward()
    assert y.grad.item() == 0.0 and x.grad.item() == 0.0


def test_atan2_knows_all_four_quarters():
    y, x = tensor([1.0, 1.0, -1.0, -1.0]), tensor([1.0, -1.0, -1.0, 1.0])
    numpy.testing.assert_allclose(
        dynograd.atan2(y, x).array, [math.pi / 4, 3 * math.pi / 4, -3 * math.pi / 4, -math.pi / 4], rtol=1e-6
    )


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_atan2_of_the_axes_is_that_of_c(kind):
    values = numpy.array([0.0, -0.0, 1.0, -1.0, 3.0, -3.0, numpy.inf, -numpy.inf], kind)
    y, x = (grid.ravel() for grid in numpy.meshgrid(values, values))
    on_axis = (y == 0) | (x == 0)
    y, x = y[on_axis], x[on_axis]
    assert dynograd.atan2(tensor(y), tensor(x)).tolist() == numpy.arctan2(y.astype("float64"), x).astype(kind).tolist()


def test_sinc_is_smooth_at_zero():
    x = tensor([0.0], requires_grad=True)
    y = dynograd.sinc(x)
    y.backward()
    assert y.item() == 1.0 and x.grad.item() == 0.0


def test_hypot_does_not_overflow():
    assert dynograd.hypot(tensor([3e30]), tensor([4e30])).item() == numpy.float32(5e30)


def test_degrees_of_integers():
    assert dynograd.rad2deg(tensor([0])).dtype is dynograd.float32
