"""Variances, norms and logarithms of sums of exponentials, mostly as other ops."""

from __future__ import annotations

from math import inf, prod
from typing import Any

import numpy

from dynograd.arrays import Array
from dynograd.kernels.build.launches import Launch
from dynograd.kernels.formula import formulas
from dynograd.ops.elementwise.arithmetic import abs as absolute
from dynograd.ops.elementwise.choices import where
from dynograd.ops.elementwise.comparisons import isfinite
from dynograd.ops.elementwise.exponentials import exp, log, sqrt
from dynograd.ops.op import registry
from dynograd.ops.reduce.deviations import count_of
from dynograd.plans.calls import Call
from dynograd.plans.lowering import layouts, loops
from dynograd.plans.lowering.families import reductions
from dynograd.plans.lowering.forms import Lowered, arguments_of, form
from dynograd.plans.lowering.parts import lower_in_parts, op_in_parts, rules_in_parts

__all__: list[str] = []

_TERMS = {0: "nonzero", 1: "size", 2: "square"}
_TILE = 256  # columns of an item of `logsumexp_columns`


def _over(name: str, x: Any, dim: Any, keepdim: bool) -> Array:
    """A reduction."""
    return registry[name].function(x, dim, keepdim)


# --- deviations ---------------------------------------------------------------------------------------------------------------


@op_in_parts("var")
def _variance(input: Any, dim: Any, correction: float, keepdim: bool) -> Array:
    distance = input - _over("mean", input, dim, True)
    return _over("sum", distance * distance, dim, keepdim) / max(count_of(input.shape, dim) - correction, 0)


@op_in_parts("std")
def _deviation(input: Any, dim: Any, correction: float, keepdim: bool) -> Array:
    return sqrt(_variance(input, dim, correction, keepdim))


rules_in_parts("var", "std", "vector_norm", "logsumexp", "exp_difference")


# --- norms --------------------------------------------------------------------------------------------------------------------


@form("op", "vector_norm")
def _norm(call: Call) -> Lowered | None:
    arguments, target = arguments_of(call), call.outputs[0]
    x, p = arguments["input"], arguments["p"]
    dims = reductions.dims_of(arguments["dim"], x.ndim)
    if p not in _TERMS:
        return lower_in_parts(call, _general_norm)
    if x.dtype.kind != "f":
        return None
    whole = layouts.scratch(target.shape, target.dtype) if p == 2 else target
    summed = _terms(x, p, dims, whole)
    if summed is None or p != 2:
        return None if summed is None else Lowered(summed, exact=p == 0)
    root = loops.launches_of("sqrt", [formulas.parse("sqrt(x)")], [target], {"x": whole})
    return None if root is None else Lowered([*summed, *root], exact=False)


def _terms(x: Any, p: int, dims: Any, target: Any) -> list[Launch] | None:
    """The sum of squares, of sizes, or of ones where x is not 0."""
    if x.size != prod([size for axis, size in enumerate(x.shape) if axis not in dims]):
        return reductions.reduced("sum", _TERMS[p], x, dims, target)
    tree = {0: "x != 0 ? 1 : 0", 1: "abs(x)", 2: "x * x"}[p]
    return loops.launches_of("term", [formulas.parse(tree)], [target], {"x": x.reshape(target.shape)})


def _general_norm(input: Any, p: float, dim: Any, keepdim: bool) -> Array:
    size = absolute(input)
    if p in (inf, -inf):
        return _over("amax" if p > 0 else "amin", size, () if dim is None else dim, keepdim)
    return _over("sum", size**p, dim, keepdim) ** (1 / p)


@form("op", "absolute_power", "signed_power")
def _power(call: Call) -> Lowered | None:
    """See `norms_cpu`."""
    arguments, target = arguments_of(call), call.outputs[0]
    x, exponent = arguments["input"], arguments["exponent"]
    if target is None or x.dtype.kind != "f" or exponent != exponent:
        return Lowered() if target is None else None
    signed = call.name == "signed_power"
    power = _positive_power(exponent - signed)
    text = f"x * {power}" if signed else power
    if exponent == 0:
        text = "sign(x)" if signed else "1"
    tree = formulas.parse(text)
    launches = loops.launches_of(call.name, [tree], [target], {"x": x})
    return None if launches is None else Lowered(launches, not loops.rounds(tree))


def _positive_power(exponent: float) -> str:
    power = "1 / abs(x)" if exponent == -1 else f"abs(x) ** ({exponent!r})"
    return f"({power})" if exponent > 0 else f"(x == 0 ? 0 : {power})"


rules_in_parts("absolute_power", "signed_power")


# --- logarithms of sums of exponentials -----------------------------------------------------------------------------------------


@form("op", "logsumexp")
def _logsumexp(call: Call) -> Lowered | None:
    """Of float32 along one dim by a kernel, which eager takes where there are many."""
    from dynograd.kernels.reduce import reductions_numba

    arguments, target = arguments_of(call), call.outputs[0]
    x, dim = arguments["input"], arguments["dim"]
    if type(dim) is not int or x.dtype != numpy.float32 or not x.size or not x.ndim:
        return lower_in_parts(call, _logarithm)
    before: list[Launch] = []
    behind: list[Launch] = []
    x, whole = layouts.row_major(x, before), layouts.to_be_written(target, behind)
    if x is None or whole is None:
        return None
    dim %= x.ndim
    n, inner = x.shape[dim], prod(x.shape[dim + 1 :])
    outer, flat, out = x.size // (n * inner), layouts.flat(x), layouts.flat(whole)
    if inner == 1:
        lines = (flat, *reductions.as_bits(flat), n, out)
        launch = Launch(reductions_numba.logsumexp_rows, lines, outer, layouts.parts_of(4 * x.size, outer))
    else:
        count = outer * -(-inner // _TILE)
        columns = (flat, n, inner, out)
        launch = Launch(reductions_numba.logsumexp_columns, columns, count, layouts.parts_of(4 * x.size, count))
    return Lowered([*before, launch, *behind], exact=False)


def _logarithm(input: Any, dim: Any, keepdim: bool) -> Array:
    highest = _over("amax", input, dim, True)
    highest = where(isfinite(highest), highest, 0.0)
    total = log(_over("sum", exp(input - highest), dim, True)) + highest
    return total if keepdim else total.reshape(_over("amax", input, dim, False).shape)


@form("op", "exp_difference")
def _exp_difference(call: Call) -> Lowered | None:
    arguments = arguments_of(call)
    tree = formulas.parse("level == -inf ? 0 : exp(x - level)")
    operands = {"x": arguments["input"], "level": arguments["level"]}
    launches = loops.launches_of("exp_difference", [tree], [call.outputs[0]], operands)
    return None if launches is None else Lowered(launches, exact=False)
