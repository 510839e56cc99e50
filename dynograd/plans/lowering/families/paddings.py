"""Borders of numbers, and borders that repeat what they stand around."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.kernels.build.launches import Launch
from dynograd.kernels.layout import paddings_cpu
from dynograd.plans.calls import Call
from dynograd.plans.lowering import layouts
from dynograd.plans.lowering.families import reductions
from dynograd.plans.lowering.families.rearrangements import added
from dynograd.plans.lowering.forms import Lowered, arguments_of, form
from dynograd.plans.lowering.parts import rules_in_parts

__all__: list[str] = []


@form("op", "constant_pad_nd")
def _pad(call: Call) -> Lowered | None:
    arguments, target = arguments_of(call), call.outputs[0]
    x, value = arguments["input"], arguments["value"]
    cut, _, inside = paddings_cpu.frame(x.shape, _sides(arguments))
    x = x if cut is None else layouts.part_of(x, cut)
    if inside is None:
        put = layouts.copy(target, x)
        return None if put is None else Lowered(put)
    filled, put = layouts.fill(target, value), layouts.copy(layouts.part_of(target, inside), x)
    return None if filled is None or put is None else Lowered([*filled, *put])


@form("op", "mirrored_pad")
def _pad_mirrored(call: Call) -> Lowered | None:
    arguments, target = arguments_of(call), call.outputs[0]
    x, sides = arguments["input"], _sides(arguments)
    _, _, inside = paddings_cpu.frame(x.shape, sides)
    launches = layouts.copy(target if inside is None else target[inside], x)
    if launches is None:
        return None
    for border, source in paddings_cpu.borders(x.shape, sides, arguments["border"]) if inside is not None else ():
        put = layouts.copy(target[border], target[source], disjoint=True)
        if put is None:
            return None
        launches += put
    return Lowered(launches)


@form("op", "mirrored_pad_backward")
def _fold_mirrored(call: Call) -> Lowered | None:
    arguments, target = arguments_of(call), call.outputs[0]
    g, launches = arguments["g"], list[Launch]()
    for dim, (before, after) in enumerate(_sides(arguments)):
        if before or after:
            g = _folded(g, dim, before, after, arguments["border"], launches)
            if g is None:
                return None
    put = layouts.copy(target, g)
    return None if put is None else Lowered([*launches, *put], exact=False)


def _sides(arguments: dict[str, Any]) -> tuple[tuple[int, int], ...]:
    return tuple([(before, after) for before, after in arguments["sides"]])


def _folded(g: Any, dim: int, before: int, after: int, mode: str, launches: list[Launch]) -> numpy.ndarray | None:
    """The inner part of `g` along `dim`, into which `launches` add its borders from now on; None where no kernel does it."""
    lead, size = (slice(None),) * dim, g.shape[dim] - before - after

    def part(array: Any, start: int | None, stop: int | None, step: int | None = None) -> numpy.ndarray:
        piece: numpy.ndarray = array[(*lead, slice(start, stop, step))]
        return piece

    inner = layouts.scratch((*g.shape[:dim], size, *g.shape[dim + 1 :]), g.dtype)
    first, last = part(g, None, before), part(g, before + size, None)
    if mode == "reflect":
        places = part(inner, 1, before + 1), part(inner, size - 1 - after, size - 1)
        first, last = part(first, None, None, -1), part(last, None, None, -1)
    elif mode == "replicate":
        places = part(inner, 0, 1), part(inner, size - 1, size)
    else:
        places = part(inner, size - before, size), part(inner, 0, after)
    puts = [layouts.copy(inner, part(g, before, before + size))]
    for place, border in zip(places, (first, last)):
        if not border.size:
            continue
        summed = border
        if mode == "replicate":
            summed = layouts.scratch(place.shape, g.dtype)
            puts.append(reductions.reduced("sum", "same", border, (dim,), summed))
        puts.append(added(place, summed))
    for put in puts:
        if put is None:
            return None
        launches += put
    return inner


rules_in_parts("constant_pad_nd", "mirrored_pad", "mirrored_pad_backward")
