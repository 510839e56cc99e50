"""Losses of class numbers, and of pairs of arrays in one pass."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy

from dynograd.kernels.build.launches import Launch
from dynograd.kernels.formula import formulas
from dynograd.kernels.loss.paired_losses_cpu import ROW
from dynograd.kernels.rows.row_formulas import LOSSES
from dynograd.ops.elementwise.arithmetic import maximum
from dynograd.ops.elementwise.exponentials import log, log1p
from dynograd.plans.calls import Call
from dynograd.plans.lowering import layouts, loops
from dynograd.plans.lowering.families import reductions, rows
from dynograd.plans.lowering.forms import Lowered, arguments_of, form
from dynograd.plans.lowering.parts import op_in_parts, rules_in_parts

__all__: list[str] = []

_DIVIDED, _SCALED, _SHARE = formulas.parse("x / total"), formulas.parse("x * g"), formulas.parse("g / count")


class _Classes:
    """Cross-entropy of class numbers: what forward and rule have in common."""

    def __init__(self, scores: Any, labels: Any, weight: Any, ignored: int, smoothing: float, reduction: str) -> None:
        if scores.ndim == 1 and scores.flags.c_contiguous:  # one example
            scores, labels = scores.reshape(1, -1), labels.reshape(1)
        places = prod(scores.shape[2:])
        self.shape = (*scores.shape[:2], places) if places > 1 else scores.shape[:2]  # places follow the classes
        self.reduction, dtype = reduction, scores.dtype
        self.fits = (
            scores.ndim >= 2
            and scores.size > 0
            and dtype.name in ("float32", "float64")
            and labels.dtype == numpy.int64
            and (weight is None or (weight.dtype == dtype and weight.flags.c_contiguous and not smoothing))
        )
        if not self.fits:
            return
        self.before: list[Launch] = []  # bring labels that lie apart into one piece
        labels = layouts.row_major(labels, self.before)
        self.fits = labels is not None
        if not self.fits:
            return
        self.weight = numpy.ones(scores.shape[1], dtype) if weight is None else layouts.flat(weight)
        self.labels, self.dtype, self.ignored = layouts.flat(labels), dtype, ignored
        self.inputs: dict[str, Any] = {"x": scores, "weight": self.weight, "target": self.labels, "ignored": ignored}
        if smoothing:
            self.inputs |= {"smoothing": smoothing, "weights": float(scores.shape[1])}
        self.name = "smooth_cross_entropy" if smoothing else "cross_entropy"
        self.total = layouts.scratch((), dtype)
        self.rows = (self.labels.size,)
        self.shares = layouts.scratch(self.rows, dtype)

    def counted(self, g: Any) -> list[Launch]:
        """Fills `total`, and `shares` with what each row's loss receives where the loss receives `g`, an array of one element."""
        from dynograd.kernels.loss.shares_numba import shares

        arguments = (self.labels, self.weight, self.ignored, layouts.flat(g))
        divides = self.reduction == "mean"
        return [*self.before, Launch(shares, (*arguments, divides, layouts.flat(self.total), self.shares), 1)]

    def reduced(self, losses: Any, loss: Any) -> list[Launch] | None:
        """The losses of rows as the loss."""
        if self.reduction == "none":
            return layouts.copy(loss, losses.reshape(loss.shape))
        whole = loss if self.reduction == "sum" else layouts.scratch((), self.dtype)
        launches = reductions.summed(losses, (0,), whole)
        if launches is None or self.reduction == "sum":
            return launches
        divided = loops.launches_of("mean", [_DIVIDED], [loss], {"x": whole, "total": self.total})
        return None if divided is None else [*launches, *divided]


@form("op", "cross_entropy")
def _cross_entropy(call: Call) -> Lowered | None:
    arguments = arguments_of(call)
    options = [arguments[name] for name in ("weight", "ignore_index", "label_smoothing", "reduction")]
    classes = _Classes(arguments["input"], arguments["target"], *options)
    loss, node = call.outputs[0], call.node
    if not classes.fits or loss.dtype != classes.dtype:
        return None
    statistics, gradient = getattr(node, "statistics", None), getattr(node, "gradient", None)
    losses = layouts.scratch(classes.rows, classes.dtype)
    outputs: dict[str, Any] = {"loss": losses}
    if isinstance(statistics, numpy.ndarray):
        if statistics.dtype != classes.dtype:
            return None
        outputs |= {"top": statistics[0], "total": statistics[1]}
    launches = classes.counted(numpy.ones(1, classes.dtype))
    inputs, name = classes.inputs, classes.name
    if isinstance(gradient, numpy.ndarray) or name != "cross_entropy":
        name += "_with_gradients"
        inputs = inputs | {"share": classes.shares}
        outputs["gx"] = gradient if isinstance(gradient, numpy.ndarray) else None
    put = rows.program_launches(name, classes.shape, inputs, outputs)
    reduced = classes.reduced(losses, loss)
    return None if put is None or reduced is None else Lowered([*launches, *put, *reduced], exact=False)


@form("rule", "cross_entropy")
def _cross_entropy_rule(call: Call) -> Lowered | None:
    node, g, target = call.node, call.inputs[0], call.outputs[0]
    ignored, smoothing, reduction = node.attrs[:3]
    gradient = node.gradient
    if isinstance(gradient, numpy.ndarray):  # the forward has made it, for a loss that receives 1
        if target is None:
            target = gradient
        if reduction == "none" or gradient.dtype != g.dtype:
            return None
        launches = loops.launches_of("scale", [_SCALED], [target], {"x": gradient, "g": g})
        return None if launches is None else Lowered(launches, exact=False)
    classes = _Classes(node.input, node.target, node.weight, ignored, smoothing, reduction)
    if not classes.fits or target is None or g.dtype != classes.dtype or reduction == "none":
        return None
    top, total = node.statistics[0], node.statistics[1]
    inputs = classes.inputs | {"share": classes.shares, "top": top, "total": total}
    put = rows.program_launches(f"{classes.name}_backward", classes.shape, inputs, {"gx": target})
    return None if put is None else Lowered([*classes.counted(g), *put], exact=False)


@form("op", "nll_loss")
def _likelihood(call: Call) -> Lowered | None:
    arguments = arguments_of(call)
    weight, ignored, reduction = [arguments[name] for name in ("weight", "ignore_index", "reduction")]
    classes = _Classes(arguments["input"], arguments["target"], weight, ignored, 0.0, reduction)
    loss = call.outputs[0]
    if not classes.fits or loss.dtype != classes.dtype:
        return None
    losses = layouts.scratch(classes.rows, classes.dtype)
    put = rows.program_launches("nll", classes.shape, classes.inputs, {"loss": losses})
    reduced = classes.reduced(losses, loss)
    counted = classes.counted(numpy.ones(1, classes.dtype))
    return None if put is None or reduced is None else Lowered([*counted, *put, *reduced], exact=False)


@form("rule", "nll_loss")
def _likelihood_rule(call: Call) -> Lowered | None:
    node, g, target = call.node, call.inputs[0], call.outputs[0]
    ignored, reduction = node.attrs
    if target is None:
        return None
    classes = _Classes(node.input, node.target, node.weight, ignored, 0.0, reduction)
    if not classes.fits or g.dtype != classes.dtype or reduction == "none":
        return None
    inputs = classes.inputs | {"share": classes.shares}
    put = rows.program_launches("nll_backward", classes.shape, inputs, {"gx": target})
    return None if put is None else Lowered([*classes.counted(g), *put], exact=False)


@op_in_parts("binary_cross_entropy")
def _binary_losses(input: Any, target: Any) -> object:
    return (target - 1) * maximum(log1p(-input), -100.0) - target * maximum(log(input), -100.0)


rules_in_parts("binary_cross_entropy")


# --- pairs ------------------------------------------------------------------------------------------------------------------

_PAIRED = [f"{name}_in_one_pass" for name in LOSSES]


def _pair(x: Any, t: Any) -> bool:
    """Whether both are float arrays of one layout."""
    return bool(x.dtype == t.dtype and x.dtype.name in ("float32", "float64") and x.shape == t.shape and x.size)


@form("op", *_PAIRED)
def _paired(call: Call) -> Lowered | None:
    arguments = arguments_of(call)
    x, t, loss = arguments["input"], arguments["target"], call.outputs[0]
    if not _pair(x, t) or not (x.flags.c_contiguous and t.flags.c_contiguous) or loss.dtype != x.dtype:
        return None
    name, parameter = call.name.removesuffix("_in_one_pass"), float(arguments["parameter"])
    flat_x, flat_t, count = layouts.flat(x), layouts.flat(t), x.size
    whole = count // ROW * ROW
    losses = layouts.scratch((count // ROW + (whole != count),), x.dtype)
    launches: list[Launch] = []
    for start, stop, row in ((0, whole, ROW), (whole, count, count - whole)):
        if stop > start:
            places = losses[: whole // ROW] if start == 0 and whole else losses[whole // ROW :]
            inputs = {"x": flat_x[start:stop], "t": flat_t[start:stop], "p": parameter}
            put = rows.program_launches(f"{name}_loss", ((stop - start) // row, row), inputs, {"loss": places})
            if put is None:
                return None
            launches += put
    total = layouts.scratch((), x.dtype)
    summed = reductions.summed(losses, (0,), total)
    divisor = float(count) if arguments["reduction"] == "mean" else 1.0
    share = loops.launches_of("mean", [_SHARE], [loss], {"g": total}, {"count": divisor})
    return None if summed is None or share is None else Lowered([*launches, *summed, *share], exact=False)


@form("rule", *_PAIRED)
def _paired_rule(call: Call) -> Lowered | None:
    node, g, target = call.node, call.inputs[0], call.outputs[0]
    x, t = node.input, node.target
    if target is None or not _pair(x, t) or g.dtype != x.dtype or g.size != 1:
        return None
    parameter, reduction = node.attrs[:2]
    _, slope = LOSSES[call.name.removesuffix("_in_one_pass")]
    share = layouts.scratch((), x.dtype)
    divisor = float(x.size) if reduction == "mean" else 1.0
    shared = loops.launches_of("mean", [_SHARE], [share], {"g": g.reshape(())}, {"count": divisor})
    tree = formulas.parse(f"({slope}) * g")
    numbers = {"p": float(parameter)} if "p" in formulas.names_in(tree) else {}
    put = loops.launches_of(f"{call.name}_backward", [tree], [target], {"x": x, "t": t, "g": share}, numbers)
    return None if shared is None or put is None else Lowered([*shared, *put], exact=False)
