"""Accuracy of the special functions over their whole range, against SciPy, and of the compiled float32 functions."""

import numpy
import pytest
from scipy import special

from dynograd.kernels.elementwise import elementwise_cpu, ufuncs

GRID = numpy.concatenate(
    [numpy.linspace(-30, 30, 20011), numpy.geomspace(1e-300, 1e300, 999), -numpy.geomspace(1e-300, 1e3, 999)]
)


@pytest.mark.parametrize(
    ("name", "reference", "rtol", "atol"),
    [
        ("erf", special.erf, 1e-15, 0),
        ("erfc", special.erfc, 1e-13, 1e-300),
        ("lgamma", special.gammaln, 1e-13, 1e-14),
        ("digamma", special.digamma, 1e-13, 2e-13),
    ],
)
def test_float64(name, reference, rtol, atol):
    grid = GRID[GRID < 26] if name == "erfc" else GRID[GRID > -20.5]
    grid = grid[(grid > 0) | (numpy.abs(grid - numpy.rint(grid)) > 1e-3)]
    numpy.testing.assert_allclose(getattr(elementwise_cpu, name)(grid), reference(grid), rtol=rtol, atol=atol)


def test_erfinv_near_its_ends_and_near_zero():
    x = numpy.concatenate(
        [numpy.linspace(-1, 1, 20001), 1 - numpy.geomspace(1e-16, 0.1, 999), numpy.geomspace(1e-300, 0.1, 999)]
    )
    numpy.testing.assert_allclose(elementwise_cpu.erfinv(x), special.erfinv(x), rtol=1e-14)


@pytest.mark.parametrize("order", [1, 2, 3, 7])
def test_polygamma(order):
    x = numpy.concatenate([numpy.linspace(0.01, 40, 4001), numpy.geomspace(40, 1e6, 99)])
    numpy.testing.assert_allclose(elementwise_cpu.polygamma(x, order), special.polygamma(order, x), rtol=1e-12)
    step = numpy.array([-0.5, -1.25, -2.75, -1000.5, -1e9 - 0.5])
    upwards = elementwise_cpu.polygamma(step, order) - elementwise_cpu.polygamma(step + 1, order)
    expected = (-1) ** (order + 1) * special.factorial(order) * step ** -(order + 1.0)
    size = numpy.abs(elementwise_cpu.polygamma(step, order)) + special.factorial(order)
    assert (numpy.abs(upwards - expected) <= 1e-9 * numpy.abs(expected) + 1e-13 * size).all()


@pytest.mark.parametrize(
    ("function", "reference"),
    [
        (elementwise_cpu.erf, special.erf),
        (elementwise_cpu.sigmoid, special.expit),
        (elementwise_cpu.silu, lambda x: x * special.expit(x)),
        (elementwise_cpu.gelu, lambda x: x * special.ndtr(x)),
        (elementwise_cpu.gelu_tanh, lambda x: 0.5 * x * (1 + numpy.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))),
    ],
)
def test_float32(function, reference):
    x = numpy.concatenate([numpy.linspace(-12, 12, 100001), numpy.geomspace(1e-30, 1e4, 9999)]).astype(numpy.float32)
    numpy.testing.assert_allclose(function(x), reference(x.astype(numpy.float64)), rtol=4e-7, atol=1e-6)


@pytest.mark.parametrize(
    "kind", ["float32", "float64", "int64", "int8", "uint8", "int16", "bool", "complex64", "complex128"]
)
@pytest.mark.parametrize(
    "shapes", [((60, 70),) * 3, ((60, 1), (60, 70), (70,)), ((60, 70), (), (60, 1)), ((2, 60, 70), (70,), ())]
)
def test_select_is_numpy_where(kind, shapes):
    rng = numpy.random.default_rng(1)
    condition = rng.uniform(size=shapes[0]) > 0.5
    x, y = (numpy.asarray(rng.uniform(0, 9, shape)).astype(kind) for shape in shapes[1:])
    expected = numpy.where(condition, x, y)
    for forms in ((condition, x, y), (condition.T, x.T, y.T)):
        if forms[0] is not condition and len({len(shape) for shape in shapes}) > 1:
            continue
        result = ufuncs.select(*forms)
        assert result.dtype == expected.dtype
        numpy.testing.assert_array_equal(result, expected if forms[0] is condition else expected.T)


def test_gate_is_the_same_below_and_above_the_size_where_it_is_compiled():
    rng = numpy.random.default_rng(1)
    g, x = (rng.normal(size=9000).astype(numpy.float32) for _ in range(2))
    x[:3] = 0.0, -0.0, numpy.nan
    g[3] = numpy.inf
    expected = numpy.where(x <= 0, numpy.float32(0), g)
    numpy.testing.assert_array_equal(ufuncs.gate(g, x), expected)
    numpy.testing.assert_array_equal(ufuncs.gate(g[:9], x[:9]), expected[:9])
    repeated = numpy.broadcast_to(g[:1], x.shape)
    numpy.testing.assert_array_equal(ufuncs.gate(repeated, x), numpy.where(x <= 0, numpy.float32(0), g[0]))
