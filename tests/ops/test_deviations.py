"""Variance and standard deviation."""

import numpy
import pytest

import dynograd
from tests.ops.harness import FLOATS, Row, error, generate

FORMS = [
    ({}, {"ddof": 1}),
    ({"dim": 0}, {"axis": 0, "ddof": 1}),
    ({"dim": -1, "keepdim": True}, {"axis": -1, "ddof": 1, "keepdims": True}),
    ({"dim": (0, 2), "unbiased": False}, {"axis": (0, 2)}),
    ({"dim": 1, "correction": 0}, {"axis": 1}),
    ({"correction": 2}, {"ddof": 2}),
    ({"dim": (), "correction": 0.5}, {"ddof": 0.5}),
    ({"unbiased": False}, {}),
    ({"axis": 1, "keepdims": True}, {"axis": 1, "keepdims": True, "ddof": 1}),
]


def reference_of(function, options):
    def reference(input, *given, **other):
        return function(input, **options)

    return reference


def with_mean(function, options):
    def reference(input, **other):
        return function(input, **options), input.mean(**{key: value for key, value in options.items() if key != "ddof"})

    return reference


def errors_of(name):
    return [
        error(lambda op: op(dynograd.arange(3)), RuntimeError, name, "floating point", "int64"),
        error(lambda op: op(dynograd.zeros(3), 1), IndexError, name, "out of range"),
        error(
            lambda op: op(dynograd.zeros(3), 0, True, correction=1), TypeError, name, "unbiased=True", "correction=1"
        ),
    ]


ROWS = [
    *[
        Row(
            name,
            reference_of(function, options),
            shapes=[(2, 3, 4)],
            kwargs=kwargs,
            id=str(kwargs),
            empty=False,
            ones=False,
            tolerance=4,
        )
        for name, function in (("var", numpy.var), ("std", numpy.std))
        for kwargs, options in FORMS
    ],
    *[
        Row(
            name,
            with_mean(function, options),
            shapes=[(2, 3, 4)],
            kwargs=kwargs,
            id=str(kwargs),
            empty=False,
            ones=False,
            tolerance=4,
        )
        for name, function in (("var_mean", numpy.var), ("std_mean", numpy.std))
        for kwargs, options in FORMS[:6]
    ],
    *[
        Row(
            name,
            reference_of(function, {}),
            args=lambda rng: [rng.normal(size=(3, 4)), False],
            id="bool",
            errors=errors_of(name),
        )
        for name, function in (("var", numpy.var), ("std", numpy.std))
    ],
    *[
        Row(
            name,
            with_mean(function, {"axis": 0}),
            shapes=[(3, 4)],
            kwargs={"dim": 0, "correction": 0},
            id="errors",
            empty=False,
            errors=errors_of(name),
        )
        for name, function in (("var_mean", numpy.var), ("std_mean", numpy.std))
    ],
    Row(
        "var",
        lambda x, dim: x.var(dim, ddof=1),
        shapes=[(70, 1000)],
        kwargs={"dim": 1},
        dtypes=FLOATS[:2],
        grad=False,
        id="large",
        empty=False,
        ones=False,
    ),
]
test_rows = generate(ROWS)


def test_variance_far_from_zero_does_not_cancel():
    x = dynograd.tensor([1e4 + 1, 1e4 + 2, 1e4 + 3])
    assert x.var().item() == pytest.approx(1.0, rel=1e-4)


@pytest.mark.parametrize("name", ["var", "std"])
def test_no_degrees_of_freedom(name):
    with pytest.warns(UserWarning, match=r"degrees of freedom is <= 0.*correction is 1, shape \(1,\)"):
        assert getattr(dynograd.tensor([3.0]), name)().isnan()
    with pytest.warns(UserWarning, match="degrees of freedom"):
        assert getattr(dynograd.zeros(2, 0), name)(1).isnan().tolist() == [True, True]


def test_std_of_equal_numbers_has_gradient_zero():
    x = dynograd.tensor([[2.0, 2.0], [1.0, 3.0]], dtype=dynograd.float64, requires_grad=True)
    x.std(1).sum().backward()
    assert x.grad.tolist() == [[0, 0], [pytest.approx(-(0.5**0.5)), pytest.approx(0.5**0.5)]]


def test_variance_of_complex_numbers_is_real():
    values = numpy.array([1 + 2j, 3 - 1j, -2 + 0.5j])
    for dtype, real in ((dynograd.complex64, dynograd.float32), (dynograd.complex128, dynograd.float64)):
        result = dynograd.tensor(values, dtype=dtype).var()
        assert result.dtype is real
        assert result.item() == pytest.approx(values.var(ddof=1), rel=1e-6)


def test_gradient_in_bfloat16_stays_bfloat16():
    x = dynograd.tensor([1.0, 2.0, 4.0], dtype=dynograd.bfloat16, requires_grad=True)
    x.var().backward()
    assert x.grad.dtype is dynograd.bfloat16
