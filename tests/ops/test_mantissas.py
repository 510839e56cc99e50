"""`frexp` against numpy.frexp."""

import numpy
import pytest

import dynograd
from tests.ops.harness import FLOATS, Row, error, generate

ROWS = [
    Row(
        "frexp",
        numpy.frexp,
        shapes=[(3, 4)],
        domain=(-9.0, 9.0),
        avoid=[-8, -4, -2, -1, -0.5, 0, 0.5, 1, 2, 4, 8],
        dtypes=FLOATS,
        result=("same", "int32"),
        errors=[error(lambda op: op(dynograd.tensor([1])), RuntimeError, "frexp", "int64")],
    ),
    Row(
        "ldexp",
        lambda x, y: x * 2.0**y,
        args=lambda rng: [rng.normal(size=(3, 4)), rng.integers(-3, 4, (3, 4))],
        result=lambda name: name if name in FLOATS else "float32",
        inplace=False,
    ),
]
test_rows = generate(ROWS)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_size_of_number(dtype):
    info = numpy.finfo(dtype)
    values = [
        0,
        -0.0,
        1,
        0.5,
        -8,
        info.max,
        info.tiny,
        info.smallest_subnormal,
        -info.tiny / 8,
        3e-5,
        numpy.inf,
        -numpy.inf,
        numpy.nan,
    ]
    x = numpy.array(values, dtype)
    x = numpy.concatenate(
        [x, 2.0 ** numpy.arange(info.minexp, info.maxexp, dtype=dtype), numpy.nextafter(x, numpy.array(0, dtype))]
    )
    mantissa, exponent = dynograd.frexp(dynograd.tensor(x))
    finite = numpy.isfinite(x)
    numpy.testing.assert_array_equal(mantissa.numpy(), numpy.frexp(x)[0])
    numpy.testing.assert_array_equal(exponent.numpy()[finite], numpy.frexp(x)[1][finite])
    assert not exponent.numpy()[~finite].any()


SHIFTS = [0, 1, -1, 3, 20, -20, 127, 128, -126, -149, 200, -200, 1023, 1100, -1100, 2**40, -(2**40)]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_ldexp_is_rounded_once_and_finite_where_the_product_is(dtype):
    """Beside exact fractions, rounded by Python's own division."""
    kind = getattr(dynograd, dtype)
    info = dynograd.finfo(kind)
    numbers = [
        0.0,
        -0.0,
        1.0,
        -1.5,
        info.tiny,
        info.smallest_normal / 2,
        info.max,
        1e-3,
        1e3,
        numpy.inf,
        -numpy.inf,
        numpy.nan,
    ]
    x = dynograd.tensor(numbers, dtype=kind)
    for shift in SHIFTS:
        result = dynograd.ldexp(x, dynograd.tensor(shift))
        assert result.dtype is kind
        wide = numpy.ldexp(x.double().numpy().astype(numpy.longdouble), max(min(shift, 9000), -9000))
        with numpy.errstate(over="ignore"):
            expected = dynograd.tensor(wide.astype(numpy.float64)).to(kind)
        numpy.testing.assert_array_equal(result.double().numpy(), expected.double().numpy())


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_gradient_of_ldexp_is_the_power(dtype):
    x = dynograd.tensor([1.0, -3.0, 1e-3], dtype=getattr(dynograd, dtype), requires_grad=True)
    dynograd.ldexp(x, dynograd.tensor([3, -2, 9])).sum().backward()
    assert x.grad.tolist() == [8.0, 0.25, 512.0]


def test_ldexp_by_what_is_no_whole_number():
    n = dynograd.tensor([0.5, 2.0], requires_grad=True)
    result = dynograd.ldexp(dynograd.tensor([2, 3]), n)
    result.sum().backward()
    numpy.testing.assert_allclose(result.detach().numpy(), [2 * 2**0.5, 12], rtol=1e-6)
    numpy.testing.assert_allclose(n.grad.numpy(), result.detach().numpy() * numpy.log(2), rtol=1e-6)
    assert dynograd.ldexp(dynograd.tensor([3, -7]), dynograd.tensor([200, 2])).tolist() == [numpy.inf, -28.0]
