"""Which calls of a recorded step on a GPU compute each element alone, and what.

Such a call needs no node: its rule reads what the op has saved where it lies. So a loop may stand for an op alone if those of all its rules do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.base import dtypes
from dynograd.interpreter import fusion
from dynograd.kernels.build.through_host_cuda import FUNCTIONS
from dynograd.kernels.formula import formulas
from dynograd.kernels.formula.formulas import Tree
from dynograd.plans.calls import Call
from dynograd.plans.gpu.array_kinds import identity, may_share
from dynograd.plans.lowering.elementwise import Pointwise, Result, numbers_of
from dynograd.plans.lowering.forms import arguments_of
from dynograd.plans.memory import is_part_of_any
from dynograd.plans.python_forms import RuleForm

__all__ = ["BOOL", "FLOATS", "loops_of"]

_HALVES = ("float16", "bfloat16")
FLOATS = (numpy.dtype(numpy.float32), numpy.dtype(numpy.float64), *[dtypes.as_dtype(name).numpy for name in _HALVES])
BOOL = numpy.dtype(numpy.bool_)


def loops_of(calls: Sequence[Call]) -> dict[int, Pointwise]:
    """What calls compute at each element, by their numbers, where loops may stand for them."""
    computed: dict[int, Pointwise] = {}
    others: set[int] = set()  # nodes that rules need
    for number, call in enumerate(calls):
        pointwise = _pointwise(call)
        if pointwise is not None:
            computed[number] = pointwise
        elif type(call.compute) is RuleForm:
            others.add(id(call.compute.shadow))
    return {
        number: pointwise
        for number, pointwise in computed.items()
        if calls[number].kind == "sum" or id(calls[number].node) not in others
    }


def _pointwise(call: Call) -> Pointwise | None:
    """What the call computes at each element; None where it is no such call, or computes other numbers than floating ones."""
    if call.saved or call.in_place:
        return None
    if call.kind == "sum":
        return _sum(call)
    op = call.op
    if op is None or op.kind != "elementwise" or op.formula is None:
        return None
    computed = _forward(call) if call.kind == "op" else _rule(call) if call.kind == "rule" else None
    if computed is None or any([is_part_of_any(result.array, call.inputs) for result in computed.results]):
        return None
    trees = [result.tree for result in computed.results]
    return None if formulas.functions_in(*trees) & FUNCTIONS else computed


def _forward(call: Call) -> Pointwise | None:
    op, arguments, (output,) = call.op, arguments_of(call), call.outputs
    whole = op.promote in ("compare", "logical")
    if type(output) is not CudaArray or not output.size or output.dtype not in ((BOOL,) if whole else FLOATS):
        return None
    numbers = numbers_of({name: arguments[name] for name in op.static_names})
    if numbers is None:
        return None
    operands = {}
    for name in op.array_names:
        value = arguments[name]
        if type(value) is CudaArray:
            operands[name] = value
        elif type(value) in (int, float, bool) and value == value:
            numbers[name] = float(value)
        else:
            return None
    truths = frozenset([name for name, array in operands.items() if array.dtype == BOOL])
    kinds = {array.dtype for name, array in operands.items() if name not in truths}
    if not kinds <= (set(FLOATS) if whole else {output.dtype}) or len(kinds) > 1:
        return None
    if not operands or (op.promote == "logical" and (kinds or len(truths) < len(op.array_names))):
        return None
    if op.promote == "select" and op.array_names[0] not in truths:
        return None
    tree = fusion.expression(op.formula)
    return Pointwise(op.name, output.shape, operands, [Result(_rounded(tree, output), output)], numbers, truths)


def _rule(call: Call) -> Pointwise | None:
    op, node, g = call.op, call.node, call.inputs[0]
    texts = op.derivative or ()
    if node is None or type(g) is not CudaArray or g.dtype not in FLOATS or not g.size:
        return None
    if len(texts) != len(call.outputs) or type(call.compute) is not RuleForm or call.compute.g is not g:
        return None
    results: list[Result] = []
    for text, output in zip(texts, call.outputs):
        if output is None:
            continue
        if text is None or type(output) is not CudaArray or output.dtype != g.dtype:
            return None
        tree = fusion.expression(text)
        if tree == formulas.name("g") and output.shape == g.shape:
            if identity(output) != identity(g):
                return None
        elif tree.head == "number":
            return None
        elif not any([result.array is output for result in results]):
            results.append(Result(_rounded(tree, output), output))
    if any([may_share(left.array, right.array) for left in results for right in results if left is not right]):
        return None
    numbers = numbers_of(dict(zip(op.static_names, node.attrs or ())))
    if numbers is None:
        return None
    operands: dict[str, Any] = {"g": g}
    used = formulas.names_in(*[result.tree for result in results]) - {"g", *op.static_names}
    for name in sorted(used):
        value: Any = getattr(node, name, None)
        if type(value) in (int, float, bool) and value == value:
            numbers[name] = float(value)
        elif type(value) is CudaArray and value.dtype in (g.dtype, BOOL):
            operands[name] = value
        else:
            return None
    if any([numpy.broadcast_shapes(value.shape, g.shape) != g.shape for value in operands.values()]):
        return None
    truths = frozenset([name for name, array in operands.items() if array.dtype == BOOL])
    return Pointwise(f"{op.name}_backward", g.shape, operands, results, numbers, truths)


def _sum(call: Call) -> Pointwise | None:
    """The sum of two gradients."""
    first, second = call.inputs[:2]
    output = call.outputs[0]
    arrays = (first, second, output)
    if any([type(array) is not CudaArray or array.dtype not in FLOATS or not array.size for array in arrays]):
        return None
    if not first.dtype == second.dtype == output.dtype or not first.shape == second.shape == output.shape:
        return None
    if is_part_of_any(output, (first, second)):
        return None
    tree = formulas.parse("input + other")
    return Pointwise("add", output.shape, {"input": first, "other": second}, [Result(_rounded(tree, output), output)])


def _rounded(tree: Tree, output: CudaArray) -> Tree:
    """The tree, rounded where its values are halves: loops compute in float32."""
    kind = output.dtype.name
    return Tree(f"in_{kind}", (tree,)) if kind in _HALVES and tree.head != "name" else tree
