"""Formulas as text in Triton's language: the GPU's reading of the trees that `generator_numba` reads for the CPU.

Values are computed in `ACC`, a constexpr of the kernel (float32 for half types); truths are int1. Functions of the vocabulary
that Triton lacks are those of `math_triton`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable

from dynograd.kernels.formula import formulas
from dynograd.kernels.formula.formulas import Tree

_OPERATORS = frozenset("+ - * < <= > >= == != & | ^ << >>".split())
_OF_TRUTHS = {"&&": "&", "||": "|"}
# What Triton has for itself, with the vocabulary's meaning.
_DIRECT = {
    "log1pexp": "(tl.maximum({0}, 0.0) + math_triton.log1p(math_triton.exp(-tl.abs({0}))))",
    "fmax": "tl.maximum({0}, {1})",
    "fmin": "tl.minimum({0}, {1})",
    "isnan": "({0} != {0})",
    "~": "~({0})",
    "!": "({0} == 0)",
    "/": "(tl.div_rn({0}, {1}) if ACC == tl.float32 else {0} / {1})",  # rounded as IEEE wants it
    "quotient": "({0} / {1})",  # to 2 units in the last place, and takes constants: what row programs divide by
    "**": "math_triton.power({0}, {1})",
    "conj": "{0}",
    # Rounded as what lies in memory between two ops is.
    "in_float16": "{0}.to(tl.float16).to(ACC)",
    "in_bfloat16": "{0}.to(tl.bfloat16).to(ACC)",
}
_WHOLE = {"floor", "ceil", "trunc", "round", "conj"}  # leave integers as they are


def assignments_and_results(
    trees: Iterable[Tree], truths: Iterable[str], wholes: bool, prefix: str = "t"
) -> tuple[list[str], list[str], list[bool]]:
    """(lines `t0 = ...`, the text of each result, whether each result is a truth).

    Args:
        truths: the names that are int1 in the kernel.
        wholes: whether ACC is an integer type.
        prefix: what the names of shared parts start with.
    """
    shared, results = formulas.shared(trees, prefix)
    known = set(truths)
    lines = []
    for name, tree in shared:
        lines.append(f"{name} = {_text(tree, known, wholes)}")
        if formulas.is_truth(tree, known):
            known.add(name)
    return lines, [_text(tree, known, wholes) for tree in results], [formulas.is_truth(tree, known) for tree in results]


def _text(tree: Tree, truths: set[str], wholes: bool) -> str:
    head, parts = tree
    if head == "name":
        return parts[0]
    if head == "number":
        return _number(parts[0], wholes)
    if head in ("&&", "||"):
        return f"({_truth(parts[0], truths, wholes)} {_OF_TRUTHS[head]} {_truth(parts[1], truths, wholes)})"
    if head == "!":
        return f"({_truth(parts[0], truths, wholes)} == 0)"
    if head == "select":
        condition, then, other = parts
        as_truths = formulas.is_truth(tree, truths)
        inner = _truth if as_truths else _value
        return f"tl.where({_truth(condition, truths, wholes)}, {inner(then, truths, wholes)}, {inner(other, truths, wholes)})"
    if head in ("==", "!=") and all(formulas.is_truth(part, truths) for part in parts):
        return f"({_truth(parts[0], truths, wholes)} {head} {_truth(parts[1], truths, wholes)})"
    values = [_value(part, truths, wholes) for part in parts]
    if head in _OPERATORS:
        return f"({values[0]} {head} {values[1]})"
    if wholes and head in _WHOLE:
        return values[0]
    if wholes and head == "/":
        return f"({values[0]} // {values[1]})"  # towards 0, as in C
    values = [
        f"tl.full((), {value}, ACC)" if part.head == "number" else value
        for part, value in zip(parts, values, strict=True)
    ]
    if head in _DIRECT:
        return _DIRECT[head].format(*values)
    return f"math_triton.{head}({', '.join(values)})"


def _value(tree: Tree, truths: set[str], wholes: bool) -> str:
    text = _text(tree, truths, wholes)
    return f"{text}.to(ACC)" if formulas.is_truth(tree, truths) and tree.head != "number" else text


def _truth(tree: Tree, truths: set[str], wholes: bool) -> str:
    text = _text(tree, truths, wholes)
    return text if formulas.is_truth(tree, truths) else f"({text} != 0)"


def _number(value: float, wholes: bool) -> str:
    """A constant that keeps its digits in float64: Triton would round it to float32 first."""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, int):
        return str(value) if abs(value) < 1 << 31 else f"tl.full((), {value}, ACC)"
    if math.isinf(value):
        return 'float("inf")' if value > 0 else 'float("-inf")'
    if value != value:
        return 'float("nan")'
    if struct.unpack("f", struct.pack("f", value))[0] == value or wholes:
        return repr(value)
    return f"tl.full((), {value!r}, ACC)"
