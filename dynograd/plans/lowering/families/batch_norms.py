"""What NumPy computes beside the kernels of batch norm; moved statistics; and means over whole images."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.kernels.build.launches import Launch
from dynograd.kernels.formula import formulas
from dynograd.plans.calls import Call
from dynograd.plans.lowering import layouts, loops
from dynograd.plans.lowering.bound import assistance
from dynograd.plans.lowering.families import reductions
from dynograd.plans.lowering.forms import Lowered, arguments_of, form

__all__: list[str] = []

_PRODUCT, _SCALED = formulas.parse("x * y"), formulas.parse("x * factor")
_RSTD, _SUMMAND = formulas.parse("1 / sqrt(x + eps)"), formulas.parse("shift - x * y")
_NEGATIVE = formulas.parse("-(x * y)")
_MOVED, _QUOTIENT = formulas.parse("x * kept + y * share"), formulas.parse("x / count")


def _named(call: Call, name: str) -> int | None:
    """Where the noted launch of this kernel stands."""
    names = [launch.name.rpartition(".")[2] for launch in call.launches]
    return names.index(name) if name in names else None


@assistance("op", "batch_norm")
def _batch_norm(call: Call) -> list[Launch] | None:
    """The running statistics take the unbiased variance; where channels lie side by side, a factor is made between the kernels."""
    arguments = arguments_of(call)
    x, weight, variance = arguments["input"], arguments["weight"], call.outputs[2]
    if not arguments["training"]:
        return _by_running_statistics(call, arguments)
    if variance is None:
        return call.launches
    merged = _named(call, "merged_moments")
    place = _named(call, "batch_norm") if merged is None else merged
    if place is None:
        return None
    moments = call.launches[place].arguments
    launches = list(call.launches)
    if merged is not None:
        scaled = _named(call, "column_scaled")
        if scaled is None:
            return None
        factor = _factor(call.launches[scaled].arguments[2], moments[-1], weight)
        if factor is None:
            return None
        launches[scaled:scaled] = factor
    own = moments[-2]
    count = x.size // max(x.shape[1], 1)
    unbiased = loops.launches_of("scale", [_SCALED], [variance], {"x": own}, {"factor": count / max(count - 1, 1)})
    return None if unbiased is None else [*launches, *unbiased]


def _by_running_statistics(call: Call, arguments: dict[str, Any]) -> list[Launch] | None:
    """Copies of them, and the factor and summand of each channel that they make."""
    names = ("running_mean", "running_var", "bias")
    mean, variance, bias = [arguments[name] for name in names]
    place = _named(call, "channel_affine")
    if place is None:
        place = _named(call, "column_scaled")
    if place is None or any([array is None or array.dtype != numpy.float32 for array in (mean, variance)]):
        return call.launches
    factor, summand = call.launches[place].arguments[-3:-1]
    rstd = layouts.scratch(mean.shape, mean.dtype) if call.node is None else call.node.rstd
    copies = [(call.outputs[1], mean), (call.outputs[2], variance)]
    if call.node is not None:
        copies.append((call.node.batch_mean, mean))
    operands = {"x": mean, "y": factor} | ({} if bias is None else {"shift": bias})
    parts = [
        *[layouts.copy(target, source) for target, source in copies if target is not None],
        loops.launches_of("rstd", [_RSTD], [rstd], {"x": variance}, {"eps": float(arguments["eps"])}),
        _factor(factor, rstd, arguments["weight"]),
        loops.launches_of("summand", [_NEGATIVE if bias is None else _SUMMAND], [summand], operands),
    ]
    if any([part is None for part in parts]):
        return None
    return [*[launch for part in parts for launch in part or ()], *call.launches]


def _factor(target: Any, rstd: Any, weight: Any) -> list[Launch] | None:
    """rstd * weight."""
    if weight is None:
        return layouts.copy(target, rstd)
    return loops.launches_of("mul", [_PRODUCT], [target], {"x": rstd, "y": weight})


@assistance("rule", "batch_norm")
def _batch_norm_rule(call: Call) -> list[Launch] | None:
    place = _named(call, "column_gradient")
    if place is None:
        return call.launches
    g, outer = call.inputs[0], call.launches[place].arguments[0]
    before: list[Launch] | None = []
    if not layouts.overlaps(outer, g):  # a copy with the channels side by side
        last = numpy.moveaxis(g, 1, -1)
        before = layouts.copy(outer.reshape(last.shape), last)
    factor = _factor(call.launches[place].arguments[3], call.node.rstd, call.node.weight)
    if before is None or factor is None:
        return None
    return [*before, *call.launches[:place], *factor, *call.launches[place:]]


@form("op", "moved_statistics")
def _moved_statistics(call: Call) -> Lowered | None:
    arguments = arguments_of(call)
    running, batch, share = arguments["input"], arguments["batch"], arguments["momentum"]
    if running.dtype != batch.dtype:
        return None
    numbers = {"kept": 1 - share, "share": share}
    launches = loops.launches_of("moved", [_MOVED], [call.outputs[0]], {"x": running, "y": batch}, numbers)
    return None if launches is None else Lowered(launches)


# --- means over whole images --------------------------------------------------------------------------------------------------


def _places(x: Any, out: Any) -> int | None:
    """How many places each result is the mean of, where it is that of a whole image; else None."""
    rank = out.ndim - 2
    if rank < 1 or any([size != 1 for size in out.shape[2:]]):
        return None
    return int(numpy.prod(x.shape[2:]))


@form("op", "adaptive_avg_pool")
def _image_means(call: Call) -> Lowered | None:
    x, out = call.inputs[0], call.outputs[0]
    count = _places(x, out)
    if count is None or x.dtype != out.dtype:
        return None
    total = layouts.scratch(out.shape, out.dtype)
    summed = reductions.summed(x, tuple(range(2, x.ndim)), total)
    divided = loops.launches_of("mean", [_QUOTIENT], [out], {"x": total}, {"count": float(count)})
    return None if summed is None or divided is None else Lowered([*summed, *divided], exact=False)


@form("rule", "adaptive_avg_pool")
def _image_means_rule(call: Call) -> Lowered | None:
    g, target = call.inputs[0], call.outputs[0]
    count = None if target is None else _places(target, g)
    if count is None:
        return None
    once = layouts.repeated_once(target)
    if once.ndim != g.ndim or any([size not in (1, whole) for size, whole in zip(g.shape, once.shape)]):
        return None
    launches = loops.launches_of("mean_backward", [_QUOTIENT], [once], {"x": g}, {"count": float(count)})
    return None if launches is None else Lowered(launches, exact=False)
