"""Comparisons, questions about single values, and logic."""

import numpy
import pytest

import dynograd
from dynograd import tensor
from tests.ops.harness import BOOL, COMPLEX, FLOATS, INTEGERS, Row, error, generate

REAL = FLOATS + INTEGERS + BOOL
TWO = [(3, 4), (3, 4)]
INF, NAN = float("inf"), float("nan")


def some_equal(rng, shape):
    return rng.choice([-1.0, 0.0, 0.5, 2.0], shape)


def comparison(name, reference, dtypes=REAL):
    return Row(name, reference, shapes=TWO, domain=[some_equal, some_equal], dtypes=dtypes, broadcast=True)


def odd_values(rng):
    return [numpy.array([[0.0, -0.0, NAN], [INF, -INF, 1.5]])]


def question(name, reference, dtypes=FLOATS):
    return Row(name, reference, args=odd_values, dtypes=dtypes, result="bool")


ROWS = [
    comparison("eq", numpy.equal, REAL + COMPLEX),
    comparison("ne", numpy.not_equal, REAL + COMPLEX),
    comparison("lt", numpy.less),
    comparison("le", numpy.less_equal),
    comparison("gt", numpy.greater),
    comparison("ge", numpy.greater_equal),
    question("isnan", numpy.isnan),
    question("isinf", numpy.isinf),
    question("isfinite", numpy.isfinite),
    question("isposinf", lambda x: x == INF),
    question("isneginf", lambda x: x == -INF),
    question("signbit", numpy.signbit),
    *[
        Row(name, lambda x, answer=answer: numpy.full(x.shape, answer), shapes=[(3, 4)], dtypes=INTEGERS, id="integers")
        for name, answer in (("isnan", False), ("isinf", False), ("isfinite", True), ("isposinf", False))
    ],
    Row("signbit", lambda x: x < 0, shapes=[(3, 4)], dtypes=INTEGERS, id="integers"),
    *[
        Row(name, reference, shapes=TWO, domain=[some_equal, some_equal], dtypes=REAL)
        for name, reference in (
            ("logical_and", numpy.logical_and),
            ("logical_or", numpy.logical_or),
            ("logical_xor", numpy.logical_xor),
        )
    ],
    Row("logical_not", numpy.logical_not, shapes=[(3, 4)], domain=some_equal, dtypes=REAL),
    Row(
        "isclose",
        numpy.isclose,
        args=lambda rng: [numpy.array([1.0, 1.0, INF, NAN]), numpy.array([1.0, 1.1, INF, NAN])],
        dtypes=FLOATS,
        grad=False,
        result="bool",
        errors=[
            error(lambda op: op(tensor([1.0]), tensor([1])), RuntimeError, "isclose", "float32", "int64", "other.to"),
            error(lambda op: op(tensor([1]), tensor([2]), rtol=-1), RuntimeError, "rtol", "-1"),
            error(lambda op: op(tensor([1]), tensor([2]), atol=-2), RuntimeError, "atol", "-2"),
        ],
    ),
    Row("allclose", numpy.allclose, args=lambda rng: [numpy.ones(3), numpy.ones(3)], grad=False),
    Row("equal", numpy.array_equal, args=lambda rng: [numpy.ones(3), numpy.ones(3)], grad=False),
]
test_rows = generate(ROWS)


def test_equal_compares_shapes_and_allclose_broadcasts():
    x = tensor([1.0, 1.0])
    assert not x.equal(tensor([1.0])) and x.allclose(tensor([1.0]))
    assert x.equal(tensor([1, 1])) and not x.equal(tensor([1.0, 2.0]))
    assert not dynograd.equal(tensor([NAN]), tensor([NAN]))


def test_isclose_of_nan_and_of_integers():
    nan = tensor([NAN])
    assert not dynograd.isclose(nan, nan).item() and dynograd.isclose(nan, nan, equal_nan=True).item()
    assert not dynograd.allclose(nan, nan) and dynograd.allclose(nan, nan, equal_nan=True)
    assert dynograd.isclose(tensor([1, 2]), tensor([1, 3])).tolist() == [True, False]
    assert dynograd.isclose(tensor([1, 2]), tensor([1, 3]), rtol=0, atol=0).tolist() == [True, False]
    assert dynograd.isclose(tensor([2]), tensor([3]), atol=1).tolist() == [True]
    assert not dynograd.isclose(tensor([INF]), tensor([-INF])).item()


def test_numbers_are_compared_in_the_tensors_dtype():
    assert (tensor([0.1]) == 0.1).item() and (tensor([1, 2]) < 1.5).tolist() == [True, False]
    assert (tensor([0.1]).half() == 0.1).item()
    assert (2 > tensor([1, 3])).tolist() == [True, False]  # noqa: SIM300


def test_answers_in_place_take_the_tensors_dtype():
    assert tensor([1.0, 2.0]).eq_(1).tolist() == [1.0, 0.0]
    assert tensor([1, 2]).logical_not_().tolist() == [0, 0]


@pytest.mark.parametrize("name", ["eq", "lt", "isnan", "logical_not"])
def test_answers_have_no_history(name):
    x = tensor([1.0], requires_grad=True)
    result = getattr(x, name)(*[x] * (name in ("eq", "lt")))
    assert result.dtype is dynograd.bool and not result.requires_grad
