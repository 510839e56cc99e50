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
