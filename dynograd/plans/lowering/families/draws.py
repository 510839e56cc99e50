"""Dropout: where a draw begins in its stream stands in memory of the plan, and is another place in each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from dynograd.kernels.build.launches import Launch
from dynograd.kernels.formula import formulas
from dynograd.kernels.random import dropouts_cpu
from dynograd.plans.calls import Call
from dynograd.plans.lowering import layouts
from dynograd.plans.lowering.elementwise import Pointwise, Result, launches_of
from dynograd.plans.lowering.forms import Lowered, arguments_of, form

__all__ = ["drawing_of"]


def drawing_of(calls: Sequence[Call], forms: Sequence[Any]) -> dict[int, list[int]]:
    """Of each call that draws, by number, the calls whose launches look for the place where it does: itself, and the rule of its node."""
    drawing: dict[int, list[int]] = {}
    for number, (call, lowered) in enumerate(zip(calls, forms)):
        if getattr(lowered, "draw", None) is not None:
            others = range(number) if call.kind == "rule" else ()
            drawn = [other for other in others if calls[other].kind == "op" and calls[other].node is call.node]
            drawing.setdefault([*drawn, number][0], []).append(number)
    return drawing


def _is_plain(*arrays: Any) -> bool:
    """Whether the kernels take these arrays as they lie."""
    shape = arrays[0].shape
    return all([array.dtype == numpy.float32 and array.flags.c_contiguous and array.shape == shape for array in arrays])


def _launch(name: str, *arguments: Any, size: int, work: int = 0) -> Launch:
    from dynograd.kernels.random import dropouts_numba

    items = dropouts_cpu.parts_of(size, work) if work else dropouts_cpu.parts_of(size)
    parts = layouts.parts_of(items["work"], items["count"])
    return Launch(getattr(dropouts_numba, name), (*arguments, *dropouts_cpu.tiles(size)), items["count"], parts)


@form("op", "dropout", "dropout_add")
def _dropout(call: Call) -> Lowered | None:
    arguments, (y,) = arguments_of(call), call.outputs
    operands = [arguments[name] for name in call.op.array_names]
    mask = getattr(call.node, "mask", None)
    if y is None or not y.size:
        return None
    draw = layouts.aligned((2,), numpy.uint64)  # no scratch memory: sizes of one program share it
    draw[...] = arguments["key"]
    if mask is None:
        in_one_pass = _is_plain(y, *operands) and tuple(arguments.get("mask_shape", y.shape)) == y.shape
    else:
        in_one_pass = mask.dtype == numpy.uint8
    if not in_one_pass:
        return _by_factors(arguments, y, mask, draw)
    if mask is None:
        mask = layouts.scratch(y.shape, numpy.uint8)
    if not _is_plain(y, *operands) or not mask.flags.c_contiguous:
        return None
    flat = [layouts.flat(array) for array in (*operands, y, mask)]
    launch = _launch(call.name, draw, *dropouts_cpu.chance(arguments["p"]), *flat, size=y.size)
    return Lowered([launch], draw=draw)


def _by_factors(arguments: dict[str, Any], y: Any, mask: Any, draw: Any) -> Lowered | None:
    """The product with a mask that is drawn first: one number for a channel, or where the operand does not lie in one piece."""
    if "mask_shape" not in arguments or y.dtype != numpy.float32:
        return None
    if mask is None:
        mask = layouts.scratch(tuple(arguments["mask_shape"]), numpy.float32)
    product = _product(y, arguments["input"], mask)
    if product is None or not mask.flags.c_contiguous or mask.dtype != y.dtype:
        return None
    flat = layouts.flat(mask)
    launch = _launch("dropout_factors", draw, *dropouts_cpu.chance(arguments["p"]), flat, size=flat.size)
    return Lowered([launch, *product], draw=draw)


def _product(target: Any, first: Any, second: Any) -> Lowered | None:
    operands, tree = {"input": first, "other": second}, formulas.parse("input * other")
    return launches_of(Pointwise("mul", target.shape, operands, [Result(tree, target)]))


@form("rule", "dropout", "dropout_add")
def _dropout_rule(call: Call) -> Lowered | None:
    node, g, target = call.node, call.inputs[0], call.outputs[0]
    if target is None or any([output is not None for output in call.outputs[1:]]) or not g.size:
        return None
    if node.mask.dtype == g.dtype == target.dtype == numpy.float32:
        return _product(target, g, node.mask)
    if not _is_plain(g, target) or node.mask.dtype != numpy.uint8:
        return None
    if node.mask.shape != g.shape or not node.mask.flags.c_contiguous:
        return None
    _, scale = dropouts_cpu.chance(dict(zip(call.op.static_names, node.attrs))["p"])
    flat = layouts.flat(g), layouts.flat(node.mask), scale, layouts.flat(target)
    return Lowered([_launch("dropout_gradient", *flat, size=g.size, work=1)])
