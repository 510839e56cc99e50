"""The text that formulas become for NumPy, and what the functions made of it give."""

import numpy
import pytest

from dynograd.kernels import kernel
from dynograd.kernels.formula import formulas
from dynograd.kernels.formula.formulas_numpy import constants_of, numpy_source, plain_function


def body(text: str, operands: str = "x y", statics: str = "") -> str:
    source = numpy_source("f", tuple(operands.split()), tuple(statics.split()), formulas.parse(text))
    return "" if source is None else source.split(":\n", 1)[1]


def test_what_occurs_twice_is_computed_once():
    assert body("exp(x) * exp(x) - y") == "    t0 = exp(x)\n    return (t0 * t0) - y\n"


def test_numbers_are_arrays_of_the_operands_dtype():
    assert body("2 * x - 1 / y") == "    c0, c1 = constants[x.dtype.char]\n    return (c0 * x) - (c1 / y)\n"
    assert constants_of(formulas.parse("2 * x - 1 / y + 2"), ()) == (2, 1)


def test_statics_are_computed_and_decide_in_python():
    lines = body("a >= 0 ? min(max(x, a), 1 - a) : x", statics="a").splitlines()
    assert lines[0] == "    if a >= 0:" and lines[-1] == "    return x"
    assert "        return between(x, number(a, kind), number(1 - a, kind))" in lines


def test_a_product_with_a_static_1_is_no_pass():
    assert body("exp(x * a)", statics="a").startswith("    t0 = x if a == 1 else number(a, x.dtype.char) * x\n")


def test_long_formulas_and_functions_that_numpy_lacks_have_no_text():
    assert body("lgamma(x)") == "" and body(" + ".join(f"exp({n} * x)" for n in range(20))) == ""


def test_functions_of_numpy_are_themselves():
    assert plain_function(formulas.parse("max(x, y)"), ("x", "y")) == "maximum"
    assert plain_function(formulas.parse("max(y, x)"), ("x", "y")) is None
    assert kernel("elementwise", "exp", numpy.ones(1)) is numpy.exp


@pytest.mark.parametrize("size", [3, 3000])
@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize(
    ("name", "statics", "reference"),
    [
        ("leaky_relu", (0.1,), lambda x: numpy.where(x > 0, x, 0.1 * x)),
        ("leaky_relu", (-2.0,), lambda x: numpy.where(x > 0, x, -2 * x)),
        ("elu", (2.0, 1.5, 0.5), lambda x: numpy.where(x > 0, 1.5 * x, 3 * numpy.expm1(numpy.minimum(0.5 * x, 0)))),
        ("mish", (), lambda x: x * numpy.tanh(numpy.logaddexp(0, x))),
        ("hardswish", (), lambda x: x * numpy.clip(x + 3, 0, 6) / 6),
        ("softshrink", (0.5,), lambda x: x - numpy.clip(x, -0.5, 0.5)),
        ("threshold", (0.5, -2.0), lambda x: numpy.where(x <= 0.5, -2, x)),
        ("log_odds", (0.25,), lambda x: numpy.log(numpy.clip(x, 0.25, 0.75) / (1 - numpy.clip(x, 0.25, 0.75)))),
    ],
)
def test_kernels_from_formulas(name, statics, reference, kind, size):
    x = (numpy.linspace(-40, 40, size) if size > 3 else numpy.array([-0.7, 0.0, 0.6])).astype(kind)
    expected = reference(x.astype("float64"))
    result = kernel("elementwise", name, x)(x, *statics)
    assert result.dtype == kind
    numpy.testing.assert_allclose(result, expected, rtol=2e-6, atol=1e-7)
