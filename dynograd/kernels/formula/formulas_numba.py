"""Formulas as scalar Python text for Numba: the CPU's reading of the trees of `formulas.py`.

>>> to_numba(formulas.parse("x > 0 ? x : expm1(x) * alpha"), "float32")
'(x if (x > np.float32(0.0)) else (expm1(x) * alpha))'
"""

from __future__ import annotations

from collections.abc import Iterable

from dynograd.kernels.formula import formulas
from dynograd.kernels.formula.formulas import INFIX, Tree


def to_numba(tree: Tree, dtype: str, truths: Iterable[str] = ()) -> str:
    """Scalar Python text for Numba: constants typed `np.dtype(...)`, functions of `math_numba` and its like by their bare names.

    `dtype` ("float32", "float64", "int64", ...) is that of the values; `truths` are the names that are bools.
    """
    return _numba(tree, dtype, frozenset(truths))


def _numba(tree: Tree, dtype: str, truths: frozenset[str]) -> str:
    head, parts = tree
    if head == "number":
        return _numba_number(parts[0], dtype)
    if head == "name":
        return str(parts[0])
    if head == "**":
        return _numba_power(parts[0], parts[1], dtype, truths)
    if head in ("&&", "||", "!"):
        texts = [_numba_truth(part, dtype, truths) for part in parts]
        return f"(not {texts[0]})" if head == "!" else f"({texts[0]} {'&' if head == '&&' else '|'} {texts[1]})"
    if head == "select":
        texts = [_numba_truth(parts[0], dtype, truths), *[_numba_value(part, dtype, truths) for part in parts[1:]]]
        if formulas.is_truth(tree, truths):
            texts[1:] = [_numba(part, dtype, truths) for part in parts[1:]]
        return f"({texts[1]} if {texts[0]} else {texts[2]})"
    both = head in ("==", "!=") and all(formulas.is_truth(part, truths) for part in parts)
    texts = [(_numba if both else _numba_value)(part, dtype, truths) for part in parts]
    if head == "/" and dtype == "float32" and parts[1].head == "sqrt":
        root = f"rsqrt({_numba_value(parts[1].parts[0], dtype, truths)})"
        return root if parts[0] == formulas.number(1) else f"({texts[0]} * {root})"
    if head in INFIX:
        return f"({texts[0]} {head} {texts[1]})"
    if head == "neg":
        return f"(-{texts[0]})"
    if head == "~":
        return f"(~{texts[0]})"
    if head == "isnan":
        return f"({texts[0]} != {texts[0]})"
    if head == "isinf":
        return f"(abs({texts[0]}) == np.{dtype}(np.inf))"
    if head == "isfinite":
        return f"(abs({texts[0]}) < np.{dtype}(np.inf))"
    return f"{_NUMBA_NAMES.get(head, head)}({', '.join(texts)})"


# Python's own names for what must not hide a builtin in generated text.
_NUMBA_NAMES = {"max": "maximum", "min": "minimum", "round": "rint", "pow": "power"}


def _numba_number(value: float, dtype: str) -> str:
    if isinstance(value, bool):
        return repr(value)
    if dtype.startswith("float"):
        text = repr(float(value))
        return f"np.{dtype}({'np.' if text.lstrip('-') in ('inf', 'nan') and text[0] != '-' else ''}{_infinite(text)})"
    return f"np.{dtype}({value!r})"


def _infinite(text: str) -> str:
    return "-np.inf" if text == "-inf" else text


def _numba_truth(tree: Tree, dtype: str, truths: frozenset[str]) -> str:
    text = _numba(tree, dtype, truths)
    return text if formulas.is_truth(tree, truths) else f"({text} != {_numba_number(0, dtype)})"


def _numba_value(tree: Tree, dtype: str, truths: frozenset[str]) -> str:
    text = _numba(tree, dtype, truths)
    if not formulas.is_truth(tree, truths) or dtype == "bool_":
        return text
    return f"({_numba_number(1, dtype)} if {text} else {_numba_number(0, dtype)})"


def _numba_power(base: Tree, exponent: Tree, dtype: str, truths: frozenset[str]) -> str:
    """Small constant exponents by multiplication, square root and division; others by `power`."""
    x = _numba_value(base, dtype, truths)
    value = exponent.parts[0] if exponent.head == "number" else None
    unit = _numba_number(1, dtype)
    if dtype.startswith("float"):
        if value == 0.5:
            return f"sqrt({x})"
        if value == -0.5:
            return f"rsqrt({x})" if dtype == "float32" else f"({unit} / sqrt({x}))"
        if value == -1:
            return f"({unit} / {x})"
        if value == -2:
            return f"({unit} / ({x} * {x}))"
    if value == 0:
        return unit
    if value in (1, 2, 3):
        return f"({' * '.join([x] * int(value))})"
    return f"power({x}, {_numba_value(exponent, dtype, truths)})"
