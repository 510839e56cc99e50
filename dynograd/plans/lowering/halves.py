"""Calls on float16 and bfloat16: the form of float32, on operands that are widened and results that are rounded, as eager mode does it.

The numbers between lie in memory that all such calls use in turn.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy

from dynograd.arrays import Array
from dynograd.autograd.nodes import Partial
from dynograd.autograd.packing import map_saved
from dynograd.kernels.build.launches import Launch
from dynograd.plans.calls import Call
from dynograd.plans.lowering import layouts
from dynograd.plans.lowering.forms import Lowered

__all__ = ["lower_halves"]


def lower_halves(call: Call, lower: Callable[[Call], Lowered | None]) -> Lowered | None:
    """The launches of `call` with float32 in the place of half types; None where it has none, or there is no form of that.

    Args:
        lower: gives the form of a call.
    """
    if call.kind not in ("op", "rule", "sum", "deferred"):
        return None
    if call.kind == "op" and call.node is not None and call.op.extras:
        return None  # what its node keeps beside operands and results is of a dtype that only the op knows
    arrays = [value for value in (*call.inputs, *call.outputs) if isinstance(value, numpy.ndarray)]
    if not any([layouts.is_half(array.dtype) for array in arrays]):
        return None
    layouts.begin_call()
    wide = _Wide()
    outputs = [None if output is None else wide.result(output) for output in call.outputs]
    other = copy.copy(call)
    try:
        other.inputs, other.outputs, other.launches = tuple(map(wide.operand, call.inputs)), tuple(outputs), []
        other.node, other.compute = _node(call, wide), _compute(call, wide)
        form = lower(other)
    except _NoKernelError:
        return None
    if form is None or form.check is not None:
        return None
    launches = [*wide.launches, *form]
    for output, result in zip(call.outputs, outputs):
        if output is not None and result is not output:
            rounded = layouts.converted(result, output.dtype, layouts.lent)
            put = None if rounded is None else layouts.copy(output, rounded[0])
            if rounded is None or put is None:
                return None
            launches += [*rounded[1], *put]
    # Others may round between, in eager mode.
    rounds_once = call.op is None or call.op.kind == "elementwise" or call.name in ("linear", "matmul")
    return Lowered(launches, form.exact and rounds_once, draw=form.draw)


class _NoKernelError(TypeError):
    """No kernel widens an operand."""


class _Wide:
    """Arrays in float32 in the place of those in half types, and the launches that make them."""

    def __init__(self) -> None:
        self.launches: list[Launch] = []
        self.known: list[tuple[Any, Any]] = []

    def operand(self, array: Any) -> object:
        if not isinstance(array, numpy.ndarray) or not layouts.is_half(array.dtype):
            return array
        for other, wide in self.known:
            if other is array:
                return wide
        widened = layouts.converted(array, numpy.float32, layouts.lent)
        if widened is None:
            raise _NoKernelError
        self.launches += widened[1]
        self.known.append((array, widened[0]))
        return widened[0]

    def result(self, array: Any) -> Array:
        return layouts.lent(array.shape, numpy.float32) if layouts.is_half(array.dtype) else array


def _node(call: Call, wide: _Wide) -> object:
    if call.kind != "rule":
        return None
    node = copy.copy(call.node)
    for name in node.saved_names:
        setattr(node, name, map_saved(getattr(node, name), wide.operand))
    return node


def _compute(call: Call, wide: _Wide) -> Callable[[], Any]:
    g = getattr(call.compute, "g", None)
    if g is None:
        return call.compute
    compute = copy.copy(call.compute)
    parts = g.parts if type(g) is Partial else {}
    widened = {number: wide.operand(part) for number, part in parts.items()}
    vars(compute)["g"] = Partial(widened) if type(g) is Partial else wide.operand(g)
    return compute
