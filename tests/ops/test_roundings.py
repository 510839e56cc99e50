"""Rounding, fractions, signs put on, NaN replaced."""

import numpy
import pytest

import dynograd
from dynograd import tensor
from tests.ops.harness import FLOATS, INTEGERS, Row, error, generate

REAL = FLOATS + INTEGERS
KINKS = [-2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0]
INF, NAN = float("inf"), float("nan")


def heaviside(x, values):
    return numpy.heaviside(x, values)


def with_zeros(rng, shape):
    return rng.choice([-1.5, 0.0, 2.5], shape)


ROWS = [
    Row("floor", numpy.floor, shapes=[(3, 4)], avoid=KINKS, dtypes=REAL),
    Row("ceil", numpy.ceil, shapes=[(3, 4)], avoid=KINKS, dtypes=REAL),
    Row("trunc", numpy.trunc, shapes=[(3, 4)], avoid=KINKS, dtypes=REAL),
    Row("round", numpy.rint, shapes=[(3, 4)], avoid=KINKS, dtypes=REAL),
    *[
        Row(
            "round",
            lambda x, decimals: numpy.round(x, decimals),
            shapes=[(3, 4)],
            domain=(-40.2, 40.4),
            kwargs={"decimals": places},
            dtypes=("float64", "float32"),
            id=f"decimals {places}",
            covers=["round_decimals"],
            second=False,
            gradient_tolerance=(1e-4, 1e-3),
            errors=[
                error(lambda op: op(tensor([1]), decimals=1), RuntimeError, "round", "decimals=1", "int64", ".float()")
            ],
        )
        for places in (1, -1)
    ],
    Row("frac", lambda x: x - numpy.trunc(x), shapes=[(3, 4)], avoid=KINKS),
    Row("nan_to_num", lambda x: x, shapes=[(3, 4)], dtypes=REAL),
    Row(
        "copysign",
        numpy.copysign,
        shapes=[(3, 4), (3, 4)],
        avoid=[0.0],
        dtypes=REAL,
        result=lambda name: name if name in FLOATS else "float32",
    ),
    Row("heaviside", heaviside, shapes=[(3, 4), (3, 4)], avoid=[0.0]),
    Row("heaviside", heaviside, shapes=[(3, 4), (3, 4)], domain=[with_zeros, (-1, 1)], grad=(False, True), id="at 0"),
    Row(
        "gcd",
        numpy.gcd,
        shapes=[(3, 4), (3, 4)],
        domain=(1, 20),
        dtypes=INTEGERS,
        result="same",
        errors=[
            error(lambda op: op(tensor([1.0]), tensor([2])), RuntimeError, "gcd", "integer", "float32"),
            error(lambda op: op(tensor([True]), tensor([True])), RuntimeError, "gcd", "integers", "bool"),
        ],
    ),
    Row(
        "lcm",
        numpy.lcm,
        shapes=[(3, 4), (3, 4)],
        domain=(1, 3),
        dtypes=INTEGERS,
        result="same",
        errors=[error(lambda op: op(tensor([True]), tensor([False])), RuntimeError, "lcm", "integers", "bool")],
    ),
]
test_rows = generate(ROWS)


def test_halves_round_to_even():
    assert dynograd.round(tensor([0.5, 1.5, 2.5, -0.5])).tolist() == [0.0, 2.0, 2.0, 0.0]


def test_nan_to_num_uses_the_limits_of_the_dtype_and_stops_the_gradient():
    for kind in (dynograd.float16, dynograd.float32, dynograd.bfloat16):
        x = tensor([NAN, INF, -INF, 1.0], dtype=kind, requires_grad=True)
        result = x.nan_to_num()
        limits = dynograd.finfo(kind)
        assert result.tolist() == [0.0, limits.max, limits.min, 1.0]
        result.sum().backward()
        assert x.grad.tolist() == [0.0, 0.0, 0.0, 1.0]
    assert dynograd.nan_to_num(tensor([NAN, INF, -INF]), 1.0, 2.0, 3.0).tolist() == [1.0, 2.0, 3.0]


def test_copysign_knows_minus_zero():
    assert dynograd.copysign(tensor([1.0, -1.0]), tensor([-0.0, 0.0])).tolist() == [-1.0, 1.0]


def test_heaviside_of_nan_is_zero():
    assert dynograd.heaviside(tensor([NAN]), tensor([0.5])).tolist() == [0.0]


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_parts_of_complex_numbers_are_replaced(dtype):
    numbers = [complex(numpy.inf, 0), complex(numpy.nan, -numpy.inf), complex(1, numpy.nan), 2 + 3j]
    x = dynograd.tensor(numbers, dtype=getattr(dynograd, dtype), requires_grad=True)
    numpy.testing.assert_array_equal(x.detach().nan_to_num().numpy(), numpy.nan_to_num(x.detach().numpy()))
    assert x.nan_to_num(5.0, 6.0, 7.0).tolist() == [6 + 0j, 5 + 7j, 1 + 5j, 2 + 3j]
    dynograd.view_as_real(x.nan_to_num()).sum().backward()
    assert x.grad.tolist() == [1j, 0j, 1 + 0j, 1 + 1j]
    assert x.detach().clone().nan_to_num_(0.0, 1.0, -1.0).tolist() == [1 + 0j, -1j, 1 + 0j, 2 + 3j]
