"""Dropout: where a draw begins in its stream stands in memory of the plan, and is another place in each step."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.kernels.build.launches import Launch
from dynograd.kernels.random import dropouts_cpu
from dynograd.plans.calls import Call
from dynograd.plans.lowering import layouts
from dynograd.plans.lowering.forms import Lowered, arguments_of, form

__all__: list[str] = []


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
    if y is None or not y.size or not _is_plain(y, *operands):
        return None
    if tuple(arguments.get("mask_shape", y.shape)) != y.shape:
        return None
    if mask is None:
        mask = layouts.scratch(y.shape, numpy.uint8)
    elif mask.dtype != numpy.uint8 or not mask.flags.c_contiguous:  # what the elements are multiplied with
        return None
    draw = layouts.aligned((2,), numpy.uint64)  # no scratch memory: sizes of one program share it
    draw[...] = arguments["key"]
    flat = [layouts.flat(array) for array in (*operands, y, mask)]
    launch = _launch(call.name, draw, *dropouts_cpu.chance(arguments["p"]), *flat, size=y.size)
    return Lowered([launch], draw=draw)


@form("rule", "dropout", "dropout_add")
def _dropout_rule(call: Call) -> Lowered | None:
    node, g, target = call.node, call.inputs[0], call.outputs[0]
    if target is None or any([output is not None for output in call.outputs[1:]]) or not _is_plain(g, target):
        return None
    if node.mask.dtype != numpy.uint8 or node.mask.shape != g.shape or not node.mask.flags.c_contiguous or not g.size:
        return None
    _, scale = dropouts_cpu.chance(dict(zip(call.op.static_names, node.attrs))["p"])
    flat = layouts.flat(g), layouts.flat(node.mask), scale, layouts.flat(target)
    return Lowered([_launch("dropout_gradient", *flat, size=g.size, work=1)])
