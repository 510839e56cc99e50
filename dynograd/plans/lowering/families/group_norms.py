"""Group norm (and instance norm without running statistics, which is one of as many groups as channels)."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy

from dynograd.kernels.build.launches import Launch
from dynograd.plans.calls import Call
from dynograd.plans.lowering import layouts
from dynograd.plans.lowering.families import reductions
from dynograd.plans.lowering.forms import Lowered, arguments_of, form

__all__: list[str] = []

_WORK = 4  # passes over the elements


class _Groups:
    """Row-major memory of x and its like, as (groups of all examples, elements of a group)."""

    def __init__(self, x: Any, groups: int) -> None:
        self.x, self.dtype, self.channels = x, x.dtype, x.shape[1]
        self.shape = (x.shape[0] * groups, x.size // (x.shape[0] * groups)) if x.size else (0, 0)
        self.places = prod(x.shape[2:])
        self.before: list[Launch] = []
        self.behind: list[Launch] = []
        self.fits = x.dtype.name in ("float32", "float64") and bool(x.size)

    def read(self, array: Any) -> numpy.ndarray | None:
        whole = layouts.row_major(array, self.before)
        self.fits &= whole is not None and array.dtype == self.dtype
        return layouts.flat(whole).reshape(self.shape) if self.fits else None

    def written(self, target: Any) -> numpy.ndarray | None:
        whole = layouts.scratch(self.x.shape, self.dtype) if target is None else target
        whole = layouts.to_be_written(whole, self.behind)
        self.fits &= whole is not None and whole.dtype == self.dtype
        return layouts.flat(whole).reshape(self.shape) if self.fits else None

    def vector(self, values: Any, default: float) -> numpy.ndarray | None:
        """Of all channels."""
        if values is None:
            return numpy.full(self.channels, default, self.dtype)
        self.fits &= values.dtype == self.dtype and values.flags.c_contiguous
        return layouts.flat(values) if self.fits else None

    def launch(self, kernel: Any, *arguments: Any) -> Launch:
        count = self.shape[0]
        return Launch(kernel, arguments, count, layouts.parts_of(_WORK * self.x.size, count))


@form("op", "group_norm")
def _group_norm(call: Call) -> Lowered | None:
    from dynograd.kernels.norm.normalizations_numba import group_norm

    arguments, node = arguments_of(call), call.node
    of = _Groups(arguments["input"], arguments["groups"])
    x, y = of.read(arguments["input"]), of.written(call.outputs[0])
    weight, bias = of.vector(arguments["weight"], 1), of.vector(arguments["bias"], 0)
    statistics = [getattr(node, name, None) for name in ("mean", "rstd")]
    mean, rstd = [layouts.scratch(of.shape[:1], of.dtype) if value is None else value for value in statistics]
    if not of.fits or not (
        mean.dtype == rstd.dtype == of.dtype and mean.flags.c_contiguous and rstd.flags.c_contiguous
    ):
        return None
    eps = float(arguments["eps"])
    vectors = weight, bias, eps, y, layouts.flat(mean), layouts.flat(rstd)
    return Lowered([*of.before, of.launch(group_norm, x, of.places, *vectors), *of.behind], exact=False)


@form("rule", "group_norm")
def _group_norm_rule(call: Call) -> Lowered | None:
    from dynograd.kernels.norm.normalizations_numba import group_norm_gradients

    node, (g_x, *g_vectors) = call.node, call.outputs
    groups = node.attrs[0]
    of = _Groups(node.input, groups)
    g, x, g_x = of.read(call.inputs[0]), of.read(node.input), of.written(g_x)
    weight = of.vector(node.weight, 1)
    if not of.fits or node.mean.dtype != of.dtype:
        return None
    sums = [layouts.scratch((of.shape[0], of.channels // groups), of.dtype) for _ in range(2)]
    statistics = layouts.flat(node.mean), layouts.flat(node.rstd)
    launches = [
        *of.before,
        of.launch(group_norm_gradients, g, x, of.places, weight, *statistics, g_x, *sums),
        *of.behind,
    ]
    for target, parts in zip(g_vectors, sums):
        if target is not None:
            put = reductions.reduced("sum", "same", parts.reshape(-1, of.channels), (0,), target)
            if put is None:
                return None
            launches += put
    return Lowered(launches, exact=False)
