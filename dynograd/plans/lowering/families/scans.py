"""Running sums, products and extremes along one dim."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy

from dynograd.kernels.build.launches import Launch
from dynograd.ops.layout.views import reshaped
from dynograd.ops.reduce.reductions import kept
from dynograd.ops.reduce.scans import behind_one, cumprod, reversed_along
from dynograd.plans.calls import Call
from dynograd.plans.lowering import layouts
from dynograd.plans.lowering.families import reductions
from dynograd.plans.lowering.forms import Lowered, arguments_of, form
from dynograd.plans.lowering.parts import rule_in_parts, rules_in_parts

__all__: list[str] = []

_TILE = 512  # columns of an item
_WIDER = {"float32": numpy.float64, "float64": numpy.float64, "int64": numpy.int64}


class _Lines:
    """Row-major memory of operand and results, as (outer, n, inner)."""

    def __init__(self, call: Call) -> None:
        arguments = arguments_of(call)
        self.source, self.dim = arguments["input"], arguments["dim"]
        self.before: list[Launch] = []
        self.behind: list[Launch] = []
        results = [layouts.to_be_written(output, self.behind) for output in call.outputs]
        whole = layouts.row_major(self.source, self.before)
        placed = whole is not None and not any([result is None for result in results])
        self.fits = placed and call.outputs[0].dtype == self.source.dtype and isinstance(self.dim, int)
        self.fits = self.fits and bool(self.source.ndim and self.source.size)
        if self.fits:
            shape, dim = self.source.shape, self.dim % self.source.ndim
            self.n, self.inner = shape[dim], prod(shape[dim + 1 :])
            self.outer = prod(shape[:dim])
            self.x, self.results = layouts.flat(whole), [layouts.flat(result) for result in results]

    def lowered(self, kernel: Any, *arguments: Any, by_columns: bool, exact: bool) -> Lowered:
        count = self.outer * -(-self.inner // _TILE) if by_columns else self.outer
        launch = Launch(kernel, arguments, count, layouts.parts_of(2 * self.x.size, count))
        return Lowered([*self.before, launch, *self.behind], exact)


@form("op", "cumsum", "sum_onwards", "cumprod")
def _running(call: Call) -> Lowered | None:
    """Rows in one stretch, so that what is launched does not depend on their length."""
    from dynograd.kernels.reduce import scans_numba

    lines = _Lines(call)
    if not lines.fits or lines.source.dtype.name not in _WIDER:
        return None
    join, reverse = "prod" if call.name == "cumprod" else "sum", call.name == "sum_onwards"
    kind, floats = _WIDER[lines.source.dtype.name], lines.source.dtype.kind == "f"
    first = kind(join == "prod")
    if lines.inner > 1:
        columns = (lines.x, lines.n, lines.inner, reverse, first, lines.results[0])
        return lines.lowered(scans_numba.columns(join), *columns, by_columns=True, exact=not floats)
    start = layouts.scratch((lines.outer,), kind)
    lines.before += layouts.fill(start, first) or []
    arguments = (lines.x, lines.n, lines.n, 1, reverse, start, lines.results[0])
    of_floats = join == "sum" and lines.source.dtype == numpy.float32
    kernel = scans_numba.sums_of_floats if of_floats else scans_numba.rows(join, join == "prod" or floats)
    return lines.lowered(kernel, *arguments, by_columns=False, exact=not floats)


@form("op", "cummax", "cummin")
def _running_extreme(call: Call) -> Lowered | None:
    from dynograd.kernels.reduce import scans_numba

    lines = _Lines(call)
    if not lines.fits or lines.source.dtype.name not in ("float32", "float64", "int32", "int64"):
        return None
    largest, exact = call.name == "cummax", lines.source.dtype.kind != "f"  # of zeros both signs are equal
    if lines.inner > 1:
        columns = (lines.x, lines.n, lines.inner, largest, *lines.results)
        return lines.lowered(scans_numba.extreme_columns, *columns, by_columns=True, exact=exact)
    arguments = (lines.x, lines.n, largest, *lines.results)
    return lines.lowered(scans_numba.extreme_rows, *arguments, by_columns=False, exact=exact)


@form("op", "reversed_along")
def _reversed(call: Call) -> Lowered | None:
    arguments, target = arguments_of(call), call.outputs[0]
    x = arguments["input"]
    if not x.ndim:
        return None
    launches = layouts.copy(target, numpy.flip(x, arguments["dim"]))
    return None if launches is None else Lowered(launches)


@form("op", "logcumsumexp")
def _running_logarithm(call: Call) -> Lowered | None:
    from dynograd.kernels.reduce import scans_numba

    lines = _Lines(call)
    if not lines.fits or lines.source.dtype.name not in ("float32", "float64"):
        return None
    count = lines.outer * lines.inner
    arguments = lines.x, lines.n, lines.inner, lines.results[0]
    launch = Launch(scans_numba.logcumsumexp, arguments, count, layouts.parts_of(8 * lines.x.size, count))
    return Lowered([*lines.before, launch, *lines.behind], exact=False)


@form("op", "recurrence")
def _recurrence(call: Call) -> Lowered | None:
    from dynograd.kernels.reduce import scans_numba

    lines = _Lines(call)
    if not lines.fits or lines.source.dtype.name not in ("float32", "float64"):
        return None
    decay = layouts.row_major(arguments_of(call)["decay"], lines.before)
    if decay is None or decay.shape != lines.source.shape or decay.dtype != lines.source.dtype:
        return None
    count = lines.outer * lines.inner
    arguments = lines.x, layouts.flat(decay), lines.n, lines.inner, lines.results[0]
    launch = Launch(scans_numba.recurrence, arguments, count, layouts.parts_of(2 * lines.x.size, count))
    return Lowered([*lines.before, launch, *lines.behind], exact=False)


@form("op", "behind_one")
def _behind_one(call: Call) -> Lowered | None:
    arguments, target = arguments_of(call), call.outputs[0]
    lead = (slice(None),) * arguments["dim"]
    ones = layouts.fill(target[(*lead, slice(0, 1))], 1)
    put = layouts.copy(target[(*lead, slice(1, None))], arguments["input"][(*lead, slice(None, -1))])
    return None if ones is None or put is None else Lowered([*ones, *put])


# --- products ---------------------------------------------------------------------------------------------------------------------


@form("op", "prod")
def _product(call: Call) -> Lowered | None:
    arguments, target = arguments_of(call), call.outputs[0]
    source = arguments["input"]
    launches = reductions.reduced("prod", "same", source, reductions.dims_of(arguments["dim"], source.ndim), target)
    return None if launches is None else Lowered(launches, exact=False)


@form("rule", "prod")
def _product_rule(call: Call) -> Lowered | None:
    """The product of those in front of an element times that of those behind it, whatever zeros there are."""

    def rule(g: Any, saved: Any, dim: int | None, keepdim: bool) -> tuple[Any]:
        x = saved.input
        shape, place = tuple(x.shape), 0 if dim is None else dim % max(len(x.shape), 1)
        rows = reshaped(x, (-1,)) if dim is None else x
        before = cumprod(behind_one(rows, place), place)
        behind = reversed_along(cumprod(behind_one(reversed_along(rows, place), place), place), place)
        return (kept(g, shape, dim, keepdim) * reshaped(before * behind, shape),)

    return rule_in_parts(call, rule) if call.node.input.ndim else None


rules_in_parts("behind_one", "cumsum", "sum_onwards", "cumprod", "logcumsumexp", "cummax", "cummin", "reversed_along")
