"""Elementwise ops and their rules, and sums of gradients, by their formulas: `pointwise` says what such a call computes at each element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy

from dynograd.interpreter import fusion
from dynograd.kernels.build.launches import Launch
from dynograd.kernels.formula import formulas
from dynograd.kernels.formula.formulas import Tree
from dynograd.ops.op import Op
from dynograd.plans.calls import Call
from dynograd.plans.lowering import layouts, loops
from dynograd.plans.lowering.families import reductions
from dynograd.plans.lowering.forms import Lowered, arguments_of

__all__ = ["Pointwise", "Result", "launches_of", "lower_elementwise", "numbers_of", "pointwise"]


@dataclass(slots=True)
class Result:
    """What a tree's values are for: `array` in the shape of the loop, or, summed over the dims that repeat, of its own."""

    tree: Tree
    array: Any


@dataclass(slots=True)
class Pointwise:
    """A call that computes each element alone.

    Args:
        name: of the op.
        shape: that the loop goes through.
        operands: arrays by name; they broadcast to `shape`.
        results: at least one.
        numbers: other names in the trees.
        truths: names of bool arrays.
        before: launches that make operands of another dtype.
    """

    name: str
    shape: tuple[int, ...]
    operands: dict[str, Any]
    results: list[Result]
    numbers: dict[str, float] = field(default_factory=dict)
    truths: frozenset[str] = frozenset()
    before: list[Launch] = field(default_factory=list)


def pointwise(call: Call) -> Pointwise | None:
    """What the call computes at each element; None where it is no such call, or there is no formula for these dtypes."""
    if call.kind == "sum" or call.kind == "accumulate":
        return _sum(call)
    if call.op is None or call.op.kind != "elementwise" or call.op.formula is None:
        return None
    return _forward(call) if call.kind == "op" else _rule(call) if call.kind == "rule" else None


def lower_elementwise(call: Call) -> Lowered | None:
    """The launches of such a call."""
    computed = pointwise(call)
    return None if computed is None else launches_of(computed)


def launches_of(computed: Pointwise) -> Lowered | None:
    """The loop, and the sums to smaller shapes behind it.

    Where eager lets NumPy compute exponentials and their like (of few elements), the last bits differ.
    """
    trees, arrays, behind = [], [], []
    exact = not any([loops.rounds(result.tree) for result in computed.results])
    for result in computed.results:
        array = result.array
        if array.shape != computed.shape:
            exact = False
            if result.tree.head == "name" and result.tree.parts[0] in computed.operands:
                source = numpy.broadcast_to(computed.operands[result.tree.parts[0]], computed.shape)
                summed = reductions.sum_to(source, array)
                if summed is None:
                    return None
                behind += summed
                continue
            array = layouts.scratch(computed.shape, array.dtype)
            summed = reductions.sum_to(array, result.array)
            if summed is None:
                return None
            behind += summed
        trees.append(result.tree)
        arrays.append(array)
    launches: list[Launch] | None = []
    if trees:
        used = formulas.names_in(*trees)
        operands = {name: array for name, array in computed.operands.items() if name in used}
        numbers = {name: value for name, value in computed.numbers.items() if name in used}
        truths = computed.truths & frozenset(operands)
        launches = loops.launches_of(computed.name, trees, arrays, operands, numbers, truths)
    if launches is None:
        return None
    return Lowered([*computed.before, *launches, *behind], exact)


# --- forward ------------------------------------------------------------------------------------------------------------------


def _forward(call: Call) -> Pointwise | None:
    op, arguments = call.op, arguments_of(call)
    (output,) = call.outputs
    if output is None:
        return None
    tree = fusion.expression(op.formula)
    before: list[Launch] = []
    operands = _operands(op, [arguments[name] for name in op.array_names], output, before)
    if operands is None:
        return None
    truths = _truths(op, operands)
    if not formulas.functions_in(tree).isdisjoint(loops.REMAINDERS) and _may_divide_by_zero(operands):
        return None
    if op.promote == "logical" and len(truths) < len(operands):
        return None
    numbers = numbers_of({name: arguments[name] for name in op.static_names})
    if numbers is None:
        return None
    fixed = _fixed([tree], operands)
    operands = {name: value for name, value in operands.items() if name not in fixed}
    return Pointwise(op.name, output.shape, operands, [Result(tree, output)], numbers | fixed, truths, before)


def _operands(op: Op, values: Sequence[Any], output: Any, before: list[Launch]) -> dict[str, Any] | None:
    """Arrays by name, of one dtype or bool: what are numbers become 0-d arrays, whole numbers beside floating ones are converted `before`."""
    select = op.promote == "select"
    typed = [value for value in (values[1:] if select else values) if isinstance(value, numpy.ndarray)]
    kinds = {value.dtype for value in typed}
    computed = op.promote in ("arithmetic", "float", "select", None)
    kind = output.dtype if computed or not kinds else typed[0].dtype
    floating = computed and kind.kind == "f"
    if any([other != kind and not (floating and other.kind in "biu") for other in kinds]):
        return None
    if kind.kind not in "fiub" or (kind.itemsize < 4 and kind.kind != "b"):
        return None
    operands = {}
    for position, (name, value) in enumerate(zip(op.array_names, values)):
        if value is None:
            return None
        if not isinstance(value, numpy.ndarray):
            if isinstance(value, complex) or (kind.kind in "iub" and not isinstance(value, int)):
                return None
            value = numpy.array(value, kind)
            value.flags.writeable = False
        elif select and not position:
            if value.dtype != numpy.bool_:
                return None
        elif value.dtype != kind and value.dtype.kind in "iu":
            converted = layouts.converted(value, kind)
            if converted is None:
                return None
            before += converted[1]
            value = converted[0]
        operands[name] = value
    return operands


def _may_divide_by_zero(operands: dict[str, Any]) -> bool:
    """Whether whole numbers are divided by what may be 0: eager raises."""
    divisor = operands["other"]
    constant = not divisor.ndim and not divisor.flags.writeable
    return bool(divisor.dtype.kind in "iu" and not (constant and divisor != 0))


def _truths(op: Op, operands: dict[str, Any]) -> frozenset[str]:
    return frozenset([name for name, value in operands.items() if value.dtype == numpy.bool_])


def numbers_of(statics: dict[str, Any]) -> dict[str, float] | None:
    """Static arguments as numbers; None where one is none, or NaN."""
    numbers = {}
    for name, value in statics.items():
        if value is None and name in ("min", "max"):
            value = float("-inf") if name == "min" else float("inf")
        if not isinstance(value, (int, float)) or value != value:
            return None
        numbers[name] = float(value)
    return numbers


def _fixed(trees: Sequence[Tree], operands: dict[str, Any]) -> dict[str, float]:
    """The operands that are numbers beside tensors, where they stand in exponents: these decide the code."""
    if "**" not in formulas.functions_in(*trees):
        return {}
    return {
        name: float(value)
        for name, value in operands.items()
        if not value.ndim and not value.flags.writeable and name != "g"
    }


# --- backward -----------------------------------------------------------------------------------------------------------------


def _rule(call: Call) -> Pointwise | None:
    op, node, g = call.op, call.node, call.inputs[0]
    if node is None or g is None or g.dtype.kind != "f" or g.dtype.itemsize < 4:
        return None
    texts = op.derivative or ()
    operands: dict[str, Any] = {"g": g}
    results: list[Result] = []
    before: list[Launch] = []
    trees = [None if output is None else fusion.expression(text) for text, output in zip(texts, call.outputs)]
    used = formulas.names_in(*[tree for tree in trees if tree is not None])
    numbers: dict[str, float] = {}
    statics = dict(zip(op.static_names, node.attrs or ()))
    for name in sorted(used - {"g"}):
        if name in statics:
            number = numbers_of({name: statics[name]})
            if number is None:
                return None
            numbers |= number
            continue
        value = getattr(node, name, None)
        if not isinstance(value, numpy.ndarray):
            return None
        if value.dtype.kind in "iu":
            converted = layouts.converted(value, g.dtype)
            if converted is None:
                return None
            before += converted[1]
            value = converted[0]
        elif value.dtype != g.dtype and value.dtype != numpy.bool_:
            return None
        operands[name] = value
    for tree, output in zip(trees, call.outputs):
        if tree is not None and output is not None:
            if output.dtype != g.dtype:
                return None
            results.append(Result(tree, output))
    fixed = _fixed([result.tree for result in results], operands)
    numbers |= fixed
    operands = {name: value for name, value in operands.items() if name not in fixed}
    truths = frozenset([name for name, value in operands.items() if value.dtype == numpy.bool_])
    shape = g.shape
    if any([numpy.broadcast_shapes(value.shape, shape) != shape for value in operands.values()]):
        return None
    return Pointwise(f"{op.name}_backward", shape, operands, results, numbers, truths, before)


def _sum(call: Call) -> Pointwise | None:
    """The sum of two gradients, or of one and what is there."""
    first, second = call.inputs[:2]
    output = call.outputs[0]
    if output is None or first is None or second is None or first.dtype != second.dtype or first.dtype != output.dtype:
        return None
    if numpy.broadcast_shapes(first.shape, second.shape) != output.shape:
        return None
    return Pointwise(
        "add", output.shape, {"input": first, "other": second}, [Result(formulas.parse("input + other"), output)]
    )
