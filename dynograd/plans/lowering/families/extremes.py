"""Largest and smallest elements, where they are, and truths of all or any elements."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy

from dynograd.kernels.build.launches import Launch
from dynograd.kernels.formula import formulas
from dynograd.plans.calls import Call
from dynograd.plans.lowering import layouts, loops
from dynograd.plans.lowering.families import reductions
from dynograd.plans.lowering.forms import Lowered, arguments_of, form
from dynograd.plans.lowering.parts import rules_in_parts

__all__: list[str] = []

_HITS, _SHARES = formulas.parse("x == y ? 1 : 0"), formulas.parse("x / y")
_NOT_ZERO = formulas.parse("x != 0")
_TILE = 256  # columns of an item of `arg_columns`


@form("op", "amax", "amin")
def _extreme(call: Call) -> Lowered | None:
    arguments = arguments_of(call)
    source, target = arguments["input"], call.outputs[0]
    join = call.name.removeprefix("a")
    launches = reductions.reduced(join, "same", source, reductions.dims_of(arguments["dim"], source.ndim), target)
    return None if launches is None else Lowered(launches, _is_one_number(target))


def _is_one_number(values: Any) -> bool:
    """Whether equal numbers have equal bits: of zeros with both signs eager's order decides which is there."""
    return bool(values.dtype.kind != "f")


@form("op", "max", "min", "argmax", "argmin")
def _first_extreme(call: Call) -> Lowered | None:
    """Values and places along a dim, or places alone."""
    arguments = arguments_of(call)
    source, dim, places = arguments["input"], arguments["dim"], call.outputs[-1]
    if source.dtype.name not in ("float32", "float64", "int32", "int64") or not source.size:
        return None
    launches: list[Launch] = []
    behind: list[Launch] = []
    x = layouts.row_major(source, launches)
    values = call.outputs[0] if len(call.outputs) > 1 else layouts.scratch(places.shape, source.dtype)
    values, places = layouts.to_be_written(values, behind), layouts.to_be_written(places, behind)
    if x is None or values is None or places is None:
        return None
    largest = call.name.endswith("max")
    dim = None if dim is None or not x.ndim else dim % x.ndim
    n, inner = (x.size, 1) if dim is None else (x.shape[dim], prod(x.shape[dim + 1 :]))
    launches.append(_first_extremes(layouts.flat(x), n, inner, largest, layouts.flat(values), layouts.flat(places)))
    return Lowered([*launches, *behind], _is_one_number(call.outputs[0]))


def _first_extremes(x: Any, n: int, inner: int, largest: bool, values: Any, places: Any) -> Launch:
    from dynograd.kernels.reduce import reductions_numba

    outer = x.size // (n * inner)
    if inner == 1:
        lines = (x, *reductions.as_bits(x), n, n, 1, largest, values, places)
        return Launch(reductions_numba.arg_rows, lines, outer, layouts.parts_of(x.size, outer))
    count = outer * -(-inner // _TILE)
    arguments = (x, n, inner, largest, values, places)
    return Launch(reductions_numba.arg_columns, arguments, count, layouts.parts_of(x.size, count))


@form("op", "tie_shares")
def _tie_shares(call: Call) -> Lowered | None:
    arguments, target = arguments_of(call), call.outputs[0]
    x, y, rank = arguments["input"], arguments["output"], arguments["input"].ndim
    dims = reductions.dims_of(arguments["dim"], rank)
    shape = tuple([1 if axis in dims else size for axis, size in enumerate(x.shape)])
    if not y.flags.c_contiguous or not x.size:
        return None
    hits, counts = layouts.scratch(x.shape, x.dtype), layouts.scratch(shape, x.dtype)
    ties = loops.launches_of("ties", [_HITS], [hits], {"x": x, "y": y.reshape(shape)})
    counted = reductions.reduced("sum", "same", hits, dims, counts)
    shared = loops.launches_of("tie_shares", [_SHARES], [target], {"x": hits, "y": counts})
    if ties is None or counted is None or shared is None:
        return None
    return Lowered([*ties, *counted, *shared])


@form("op", "ties", "zero_nan", "not_nan")
def _compared(call: Call) -> Lowered | None:
    text = {"ties": "x == y ? 1 : 0", "zero_nan": "x != x ? 0 : x", "not_nan": "x == x ? 1 : 0"}[call.name]
    operands = dict(zip("xy", call.inputs))
    launches = loops.launches_of(call.name, [formulas.parse(text)], [call.outputs[0]], operands)
    return None if launches is None else Lowered(launches)


@form("op", "ones_of")
def _ones(call: Call) -> Lowered | None:
    launches = layouts.fill(call.outputs[0], 1)
    return None if launches is None else Lowered(launches)


rules_in_parts("zero_nan", "amax", "amin", "max", "min")


# --- truths -------------------------------------------------------------------------------------------------------------------


@form("op", "any", "all")
def _truth(call: Call) -> Lowered | None:
    arguments = arguments_of(call)
    source, target, dim = arguments["input"], call.outputs[0], arguments["dim"]
    if target.dtype != numpy.bool_ or not source.size:
        return None
    dims = () if dim == () else reductions.dims_of(dim, source.ndim)
    launches: list[Launch] | None = []
    if source.dtype != numpy.bool_:
        truths = layouts.scratch(source.shape, numpy.bool_)
        launches, source = loops.launches_of("not_zero", [_NOT_ZERO], [truths], {"x": source}), truths
    put = reductions.reduced("max" if call.name == "any" else "min", "same", source, dims, target)
    return None if launches is None or put is None else Lowered([*launches, *put])


@form("op", "count_nonzero")
def _count(call: Call) -> Lowered | None:
    arguments = arguments_of(call)
    source, dims = arguments["input"], reductions.dims_of(arguments["dim"], arguments["input"].ndim)
    launches = reductions.reduced(
        "sum", "same" if source.dtype == numpy.bool_ else "nonzero", source, dims, call.outputs[0]
    )
    return None if launches is None else Lowered(launches)
