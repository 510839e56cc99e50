"""The formula language: reading, changing and writing trees."""

import math

import numpy
import pytest

from dynograd.kernels.formula import formulas
from dynograd.kernels.formula.formulas import Definition, call, name, number, parse, to_text
from dynograd.kernels.formula.formulas_numba import to_numba

X, Y = name("x"), name("y")


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("x + y * 2", call("+", X, call("*", Y, number(2)))),
        ("x - y - 1", call("-", call("-", X, Y), number(1))),
        ("x ** y ** 2", call("**", X, call("**", Y, number(2)))),
        ("-x ** 2", call("neg", call("**", X, number(2)))),
        ("x ** -2", call("**", X, number(-2))),
        ("-x * y", call("*", call("neg", X), Y)),
        ("-2.5e-3", number(-2.5e-3)),
        ("x < 0 ? -x : y", call("select", call("<", X, number(0)), call("neg", X), Y)),
        ("x if x < 0 else y", call("select", call("<", X, number(0)), X, Y)),
        ("where(x < 0, x, y)", call("select", call("<", X, number(0)), X, Y)),
        ("x > 0 ? 1 : x == 0 ? y : 0", parse("x > 0 ? 1 : (x == 0 ? y : 0)")),
        ("(x == 0) & (y <= 0)", parse("x == 0 && y <= 0")),
        ("x & y", call("&", X, Y)),
        ("!x != !y", call("!=", call("!", X), call("!", Y))),
        ("x && y || x", call("||", call("&&", X, Y), X)),
        ("x == inf", call("==", X, number(math.inf))),
        ("max(x, -inf)", call("max", X, number(-math.inf))),
        ("maximum(x, pow(y, 3))", call("max", X, call("**", Y, number(3)))),
        ("~x << 2", call("<<", call("~", X), number(2))),
    ],
)
def test_parse(text, tree):
    assert parse(text) == tree
    assert parse(to_text(tree)) == tree


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x +", "expected a value, got 'the end'"),
        ("x y", "expected the end, got 'y'"),
        ("(x", "expected ')', got 'the end'"),
        ("x ? y", "expected ':'"),
        ("x $ y", "cannot read '$ y'"),
        ("f(x y)", "expected ',', got 'y'"),
    ],
)
def test_parse_says_what_is_wrong(text, words):
    with pytest.raises(ValueError, match=r"formula ") as caught:
        parse(text)
    assert words in str(caught.value) and repr(text) in str(caught.value)


DEFINITIONS = {
    "sigmoid": Definition(("input",), parse("1 / (1 + exp(-input))")),
    "silu": Definition(("input",), parse("input * sigmoid(input)")),
    "scaled": Definition(("input", "other"), parse("input * other")),
}


def test_inline_replaces_calls_by_formulas_of_formulas():
    tree = formulas.inline(parse("g * silu(output + 1)"), DEFINITIONS.get)
    assert tree == parse("g * ((output + 1) * (1 / (1 + exp(-(output + 1)))))")


def test_inline_keeps_arguments_with_names_of_parameters_apart():
    assert formulas.inline(parse("scaled(other, input)"), DEFINITIONS.get) == parse("other * input")


def test_inline_counts_arguments():
    with pytest.raises(ValueError, match=r"scaled takes 2 arguments \(input, other\), got 1"):
        formulas.inline(parse("scaled(x)"), DEFINITIONS.get)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x * 1 + 0", "x"),
        ("2 * 3 + x", "6 + x"),
        ("1 == 0 ? x : y", "y"),
        ("x > 0 ? y : y", "y"),
        ("min(max(x, -inf), inf)", "x"),
        ("--x", "x"),
        ("x ** (3 - 1)", "x ** 2"),
        ("1 / 0 + x", "1 / 0 + x"),
        ("x * 0", "x * 0"),
    ],
)
def test_simplify(text, expected):
    assert formulas.simplify(parse(text)) == parse(expected)


def test_shared_names_what_occurs_twice_and_what_is_inside_choices():
    assignments, (tree,) = formulas.shared([parse("x > 0 ? exp(y) * 2 : exp(y)")])
    assert [(target, to_text(element)) for target, element in assignments] == [("t0", "exp(y)"), ("t1", "(t0 * 2)")]
    assert to_text(tree) == "((x > 0) ? t1 : t0)"


def test_numbers_of_different_type_or_sign_are_different():
    assert len({number(1), number(1.0), number(True)}) == 3
    assert to_numba(parse("x > 0 ? 0.0 : -0.0"), "float64").endswith("else np.float64(-0.0))")


def test_operations_counts_equal_ones_once():
    assert formulas.operations(parse("exp(x) * exp(x) + x"), parse("exp(x)")) == 3


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("x > 0 ? x : y * 2", lambda x, y: x if x > 0 else y * 2),
        ("x ** 3 + y ** -1 - (x * x) ** 0.5", lambda x, y: x**3 + 1 / y - abs(x)),
        ("(x > y) + (x == 1)", lambda x, y: (x > y) + (x == 1)),
        ("(!(x > 0) && y) == (x < y)", lambda x, y: (not x > 0 and y != 0) == (x < y)),
        ("!x != !y", lambda x, y: (not x) != (not y)),
        ("x == inf || isnan(y) || isfinite(x)", lambda x, y: True),
        ("-(x - y) / 3", lambda x, y: (y - x) / 3),
        ("x < -inf ? 1 : x", lambda x, y: x),
        ("x if y > 0 else (1 if x > 0 else -1)", lambda x, y: x if y > 0 else 1 if x > 0 else -1),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_to_numba_is_python_that_computes_the_formula(text, reference, dtype):
    written = to_numba(parse(text), dtype)
    kind = getattr(numpy, dtype)
    for x, y in [(1.5, 2.0), (-1.0, 0.25), (1.0, -3.0), (0.0, 4.0), (8.0, 1.0)]:
        result = eval(written, {"np": numpy, "sqrt": numpy.sqrt}, {"x": kind(x), "y": kind(y)})
        numpy.testing.assert_allclose(float(result), float(reference(x, y)), rtol=1e-6)


def test_constants_have_the_type_of_the_values():
    assert to_numba(parse("x * 2 + inf"), "float32") == "((x * np.float32(2.0)) + np.float32(np.inf))"
    assert to_numba(parse("x * 2"), "int32") == "(x * np.int32(2))"
    assert to_numba(parse("x - -inf"), "float64") == "(x - np.float64(-np.inf))"


def test_bools_among_the_operands():
    assert to_numba(parse("c ? x : y"), "float32", ["c"]) == "(x if c else y)"
    assert to_numba(parse("c ? x : y"), "float32") == "(x if (c != np.float32(0.0)) else y)"
