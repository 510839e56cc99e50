"""Copies: gradients brought into memory, reshapes that copy, joins, and the gradients of views."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.kernels.build.launches import Launch
from dynograd.plans.calls import Call
from dynograd.plans.lowering import layouts
from dynograd.plans.lowering.families import reductions
from dynograd.plans.lowering.forms import Lowered, arguments_of, form, gradients_of

__all__: list[str] = []


def _of(launches: list[Launch] | None) -> Lowered | None:
    return None if launches is None else Lowered(launches)


def _copied(source: Any, target: Any) -> Lowered | None:
    return Lowered() if target is None else _of(layouts.copy(target, source))


def _reshaped(source: Any, target: Any) -> list[Launch] | None:
    """target = source.reshape(target.shape); neither need be row-major."""
    if target.flags.c_contiguous:
        return layouts.copy(target.reshape(source.shape), source)
    if source.flags.c_contiguous:
        return layouts.copy(target, source.reshape(target.shape))
    middle = layouts.scratch(source.shape, source.dtype)
    first, second = layouts.copy(middle, source), layouts.copy(target, middle.reshape(target.shape))
    return None if first is None or second is None else [*first, *second]


@form("copy", "copy")
@form("op", "clone", "expand")
@form("rule", "clone")
def _copy(call: Call) -> Lowered | None:
    return _copied(call.inputs[0], call.outputs[0])


@form("op", "to_copy")
@form("rule", "to_copy")
def _converted(call: Call) -> Lowered | None:
    source, target = call.inputs[0], call.outputs[0]
    if target is None or source.dtype == target.dtype:
        return _copied(source, target)
    if any([array.dtype.kind not in "fiub" and not layouts.is_half(array.dtype) for array in (source, target)]):
        return None
    if target.dtype.kind in "iub" and not _truncates(source.dtype, target.dtype):
        return None
    numbers = layouts.converted(source, target.dtype)
    put = None if numbers is None else layouts.copy(target, numbers[0])
    return None if numbers is None or put is None else Lowered([*numbers[1], *put])


def _truncates(source: Any, target: Any) -> bool:
    """Whether compiled code makes the same whole numbers of these as NumPy, of NaN and of what is too large, too."""
    return source.kind in "iub" or (source.name in ("float32", "float64") and target.name in ("int32", "int64"))


@form("op", "view")
@form("rule", "view")
def _view(call: Call) -> Lowered | None:
    target = call.outputs[0]
    return Lowered() if target is None else _of(_reshaped(call.inputs[0], target))


@form("rule", "permute")
def _permuted(call: Call) -> Lowered | None:
    """A view of the gradient, unless the record has copied it."""
    target = call.outputs[0]
    if target is None:
        return Lowered()
    order = numpy.argsort([dim % target.ndim for dim in call.node.attrs[0]])
    return _copied(call.inputs[0].transpose(order), target)


@form("rule", "expand")
def _expanded(call: Call) -> Lowered | None:
    target = call.outputs[0]
    if target is None:
        return Lowered()
    launches = reductions.sum_to(call.inputs[0], target)
    return None if launches is None else Lowered(launches, exact=False)


# --- joins ------------------------------------------------------------------------------------------------------------------


def _joined(parts: list[Any], dim: int, target: Any) -> list[Launch] | None:
    """The parts one after the other along `dim`."""
    launches: list[Launch] = []
    start, lead = 0, (slice(None),) * (dim % target.ndim)
    for part in parts:
        if part.shape == (0,):
            continue
        if part.ndim != target.ndim:
            return None
        stop = start + part.shape[dim]
        put = layouts.copy(target[(*lead, slice(start, stop))], part)
        if put is None:
            return None
        launches += put
        start = stop
    return launches


def _stacked(parts: dict[int, Any], dim: int, target: Any) -> list[Launch] | None:
    """The parts beside each other along `dim`; zeros where one is missing."""
    launches: list[Launch] = []
    lead = (slice(None),) * (dim % target.ndim)
    for number in range(target.shape[dim]):
        place = target[(*lead, number)] if target.ndim > 1 else target[number : number + 1]
        part = parts.get(number)
        if part is not None and target.ndim == 1:
            part = part.reshape(1)
        put = layouts.fill(place, 0) if part is None else layouts.copy(place, part)
        if put is None:
            return None
        launches += put
    return launches


@form("op", "cat")
def _cat(call: Call) -> Lowered | None:
    arguments = arguments_of(call)
    return _of(_joined(arguments["tensors"], arguments["dim"], call.outputs[0]))


@form("op", "stack")
def _stack(call: Call) -> Lowered | None:
    arguments = arguments_of(call)
    return _of(_stacked(dict(enumerate(arguments["tensors"])), arguments["dim"], call.outputs[0]))


@form("rule", "cat")
def _cat_rule(call: Call) -> Lowered | None:
    """Parts of the gradient: views, unless the record has copied them."""
    node, g = call.node, call.inputs[0]
    dim = node.attrs[0] % g.ndim
    lead = (slice(None),) * dim
    launches: list[Launch] = []
    start = 0
    for shape, target in zip(node.tensors_shape, call.outputs):
        stop = start + (shape[dim] if len(shape) > dim and shape != (0,) else 0)
        if target is not None:
            put = layouts.copy(target, g[(*lead, slice(start, stop))].reshape(target.shape))
            if put is None:
                return None
            launches += put
        start = stop
    return Lowered(launches)


@form("rule", "stack")
def _stack_rule(call: Call) -> Lowered | None:
    g = call.inputs[0]
    parts = numpy.moveaxis(g, call.node.attrs[0] % g.ndim, 0)
    launches: list[Launch] = []
    for part, target in zip(parts, call.outputs):
        if target is not None:
            put = layouts.copy(target, part)
            if put is None:
                return None
            launches += put
    return Lowered(launches)


@form("rule", "unbind")
def _unbind_rule(call: Call) -> Lowered | None:
    parts, target = gradients_of(call), call.outputs[0]
    if parts is None:
        return None
    return Lowered() if target is None else _of(_stacked(parts, call.node.attrs[0], target))


@form("rule", "split_with_sizes")
def _split_rule(call: Call) -> Lowered | None:
    parts, target = gradients_of(call), call.outputs[0]
    if parts is None or target is None:
        return None if parts is None else Lowered()
    sizes, dim = call.node.attrs
    lead = (slice(None),) * (dim % target.ndim)
    launches: list[Launch] = []
    start = 0
    for number, size in enumerate(sizes):
        place, part = target[(*lead, slice(start, start + size))], parts.get(number)
        put = layouts.fill(place, 0) if part is None else layouts.copy(place, part)
        if put is None:
            return None
        launches += put
        start += size
    return Lowered(launches)


# --- basic indices ------------------------------------------------------------------------------------------------------------


def _filled(g: Any, index: Any, target: Any) -> list[Launch] | None:
    """Zeros that hold `g` at a basic index."""
    zeros, put = layouts.fill(target, 0), layouts.copy(layouts.part_of(target, index), g)
    return None if zeros is None or put is None else [*zeros, *put]


@form("rule", "basic_index")
def _basic_index_rule(call: Call) -> Lowered | None:
    target = call.outputs[0]
    return Lowered() if target is None else _of(_filled(call.inputs[0], call.node.attrs[0], target))


@form("op", "basic_fill")
def _basic_fill(call: Call) -> Lowered | None:
    arguments = arguments_of(call)
    return _of(_filled(arguments["g"], arguments["index"], call.outputs[0]))


@form("op", "basic_put")
def _basic_put(call: Call) -> Lowered | None:
    arguments = arguments_of(call)
    target, value = call.outputs[0], arguments["value"]
    place = layouts.part_of(target, arguments["index"])
    kept = layouts.copy(target, arguments["input"])
    put = layouts.copy(place, value) if isinstance(value, numpy.ndarray) else layouts.fill(place, value or 0)
    return None if kept is None or put is None else Lowered([*kept, *put])
