"""Covariance and correlation against numpy.cov and numpy.corrcoef."""

import numpy

import dynograd
from tests.ops.harness import COMPLEX, Row, error, generate

ROWS = [
    Row("cov", lambda x: numpy.cov(x), shapes=[(3, 5)], empty=False, ones=False, tolerance=4),
    Row("cov", lambda x: numpy.cov(x), shapes=[(5,)], empty=False, ones=False, tolerance=4, id="variance"),
    Row(
        "cov",
        lambda x: numpy.cov(x),
        shapes=[(3, 5)],
        dtypes=COMPLEX,
        grad=False,
        empty=False,
        ones=False,
        id="complex",
    ),
    Row(
        "cov",
        lambda x, correction, fweights, aweights: numpy.cov(x, ddof=correction, fweights=fweights, aweights=aweights),
        shapes=[(3, 4)],
        kwargs={
            "correction": 2,
            "fweights": numpy.array([1, 2, 1, 3]),
            "aweights": numpy.array([0.5, 1.0, 2.0, 0.25]),
        },
        dtypes=["float64"],
        grad=[True, False],
        empty=False,
        ones=False,
        id="weights",
        errors=[
            error(lambda op: op(dynograd.zeros(1, 2, 3)), RuntimeError, "two or fewer", "(1, 2, 3)"),
            error(lambda op: op(dynograd.zeros(2, dtype=dynograd.bool)), RuntimeError, "bool", "float()"),
            error(
                lambda op: op(dynograd.zeros(2, 3), fweights=dynograd.ones(2).long()), RuntimeError, "fweights", "(2,)"
            ),
            error(lambda op: op(dynograd.zeros(2, 3), fweights=dynograd.ones(3)), RuntimeError, "integral", "float32"),
            error(lambda op: op(dynograd.zeros(2, 3), aweights=-dynograd.ones(3)), RuntimeError, "aweights", "-1.0"),
        ],
    ),
    Row("corrcoef", lambda x: numpy.corrcoef(x), shapes=[(3, 5)], empty=False, ones=False, tolerance=4),
    Row(
        "corrcoef",
        lambda x: numpy.corrcoef(x),
        shapes=[(3, 5)],
        dtypes=COMPLEX,
        grad=False,
        empty=False,
        ones=False,
        id="complex",
        errors=[error(lambda op: op(dynograd.zeros(1, 2, 3)), RuntimeError, "two or fewer", "(1, 2, 3)")],
    ),
]
test_rows = generate(ROWS)


def test_a_variable_correlates_with_itself():
    assert dynograd.corrcoef(dynograd.tensor([1, 2, 4])).item() == 1
