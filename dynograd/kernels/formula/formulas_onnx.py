"""Formulas in the words of ONNX: the kind of node of each operator and function of the language, and formulas for those that have none.

>>> formulas.to_text(in_words(formulas.parse("isfinite(x)")))
'(!(isnan(x) || isinf(x)))'
"""

from __future__ import annotations

from dynograd.kernels.formula import formulas
from dynograd.kernels.formula.formulas import Definition, Tree

__all__ = ["BITS", "DIVISIONS", "NUMBERS", "TRUTHS", "in_words", "is_in_words"]

# The kind of node of what gives a number, and of what gives a truth.
NUMBERS = {
    "+": "Add", "-": "Sub", "*": "Mul", "/": "Div", "**": "Pow", "neg": "Neg", "select": "Where", "abs": "Abs", "sign": "Sign",
    "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "sigmoid": "Sigmoid", "log1pexp": "Softplus", "erf": "Erf",
    "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos", "atan": "Atan",
    "sinh": "Sinh", "cosh": "Cosh", "tanh": "Tanh", "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh",
    "floor": "Floor", "ceil": "Ceil", "round": "Round", "max": "Max", "min": "Min",
}  # fmt: skip
TRUTHS = {
    "<": "Less", "<=": "LessOrEqual", ">": "Greater", ">=": "GreaterOrEqual", "==": "Equal", "&&": "And", "||": "Or", "!": "Not",
    "isnan": "IsNaN", "isinf": "IsInf",
}  # fmt: skip
# Of truths; with `Bitwise` before it, of integers.
BITS = {"&": "And", "|": "Or", "^": "Xor", "~": "Not"}
# Nodes that depend on the dtype.
DIVISIONS = frozenset({"mod", "fmod", "floor_divide", "<<", ">>"})


def _polynomial(*coefficients: float) -> str:
    """a + x * (b + x * (...)), of coefficients from the constant one on."""
    text = "0"
    for number in reversed(coefficients):
        text = f"({'0 - ' * (number < 0)}{abs(number)!r} + x * {text})"
    return text


_FORMULAS = {
    "!=": "!(x == y)",
    "isfinite": "!(isnan(x) || isinf(x))",
    "signbit": "x < 0 || x == 0 && 1 / x < 0",
    "copysign": "signbit(y) ? 0 - abs(x) : abs(x)",
    "exp2": "2 ** x",
    "expm1": "tanh(x / 2) * (exp(x) + 1)",
    "log1p": "1 + x == 1 ? x : (isinf(x) ? x : x * log(1 + x) / (1 + x - 1))",
    "log2": "log(x) * 1.4426950408889634",
    "log10": "log(x) * 0.4342944819032518",
    "trunc": "sign(x) * floor(abs(x))",
    "erfc": "1 - erf(x)",
    "hypot": "sqrt(x * x + y * y)",
    "atan2": "(x == 0 && y == 0 ? 0 : atan(x / y)) + (signbit(y) ? (signbit(x) ? 0 - pi : pi) : 0)",
    "normal_cdf": "0.5 * (1 + erf(x * 0.7071067811865476))",
    "normal_pdf": "0.3989422804014327 * exp(x * x * -0.5)",
    "normal_gate": "x * normal_cdf(x)",
    "normal_gate_slope": "normal_cdf(x) + x * normal_pdf(x)",
    "fmax": "isnan(x) ? y : (isnan(y) ? x : max(x, y))",
    "fmin": "isnan(x) ? y : (isnan(y) ? x : min(x, y))",
    # Stirling's series from 8 on, below it the recurrence from x to x + 7, and left of 0.5 the reflection (Abramowitz and Stegun, 6.1.17, 6.1.40, 6.3.7).
    "lgamma": "isinf(x) ? abs(x) : (x < 0.5 ? log(pi / abs(sin(pi * (x - floor(x))))) - lgamma_right(1 - x) : lgamma_right(x))",
    "lgamma_right": "x < 8 ? stirling(x + 7) - log(x * (x + 1) * (x + 2) * (x + 3) * (x + 4) * (x + 5) * (x + 6)) : stirling(x)",
    "stirling": "(x - 0.5) * log(x) - x + 0.9189385332046727 + (1 / 12 - (1 / 360 - (1 / 1260 - 1 / (1680 * x * x)) / (x * x)) / (x * x)) / x",
    "digamma": "x < 0 && x == floor(x) ? log(x) : (x < 0.5 ? digamma_right(1 - x) - pi / tan(pi * (x - floor(x))) : digamma_right(x))",
    "digamma_right": "x < 8 ? digamma_series(x + 7) - (1 / x + 1 / (x + 1) + 1 / (x + 2) + 1 / (x + 3) + 1 / (x + 4) + 1 / (x + 5) + 1 / (x + 6))"
    " : digamma_series(x)",
    "digamma_series": "log(x) - 0.5 / x - (1 / 12 - (1 / 120 - (1 / 252 - 1 / (240 * x * x)) / (x * x)) / (x * x)) / (x * x)",
    # Mike Giles, Approximating the erfinv function, 2011, table 5.
    "erfinv": "abs(x) == 1 ? x / (1 - abs(x)) : x * erfinv_share(0 - log((1 - x) * (1 + x)))",
    "erfinv_share": "x < 5 ? erfinv_middle(x - 2.5) : erfinv_tail(sqrt(x) - 3)",
    "erfinv_middle": _polynomial(
        1.50140941,
        0.246640727,
        -0.00417768164,
        -0.00125372503,
        0.00021858087,
        -4.39150654e-06,
        -3.5233877e-06,
        3.43273939e-07,
        2.81022636e-08,
    ),
    "erfinv_tail": _polynomial(
        2.83297682,
        1.00167406,
        0.00943887047,
        -0.0076224613,
        0.00573950773,
        -0.00367342844,
        0.00134934322,
        0.000100950558,
        -0.000200214257,
    ),
}
_WORDS = frozenset({*NUMBERS, *TRUTHS, *BITS, *DIVISIONS})


def _definition(head: str) -> Definition | None:
    if head not in _FORMULAS:
        return None
    tree = formulas.parse(_FORMULAS[head])
    return Definition(tuple(sorted(formulas.names_in(tree))), tree)


def in_words(tree: Tree) -> Tree:
    """The tree with the formula of each function that ONNX has no node for."""
    return formulas.simplify(formulas.inline(tree, _definition))


def is_in_words(tree: Tree) -> bool:
    """Whether `in_words` leaves nothing that ONNX has no node for."""
    return formulas.functions_in(in_words(tree)) <= _WORDS
