"""Where the size of a dim was born: the way back along operands that have it, to the op, or the tensor from outside, that had it first."""

from __future__ import annotations

from dynograd.debug.explanations import Explanation, explanation, step_of
from dynograd.debug.names import Names
from dynograd.debug.recording import Value
from dynograd.debug.texts import at, shape_of
from dynograd.ops.op import registry
from dynograd.tensor.tensor import Tensor

__all__ = ["explanation_of"]

_MOST_STEPS = 100_000


def explanation_of(x: Tensor, value: Value | None, dim: int, names: Names) -> Explanation:
    """Of dim `dim` of `x`, from 0."""
    size = x.shape[dim]
    if value is None:
        return Explanation(
            "dim",
            f"No op is known to have made the tensor of shape {tuple(x.shape)}. Run what makes it inside `with dynograd.debug.provenance():`.",
        )
    way = [(value, dim)]
    for _ in range(_MOST_STEPS):
        before = _before(*way[-1], size)
        if before is None:
            break
        way.append(before)
    last, place = way[-1]
    steps = [step_of(step, names, level, step is last) for level, (step, _) in enumerate(way)]
    if last.call is None:
        return explanation(
            "dim", f"The size {size} is dim {place} of {names.of_value(last)}, {shape_of(last)}.", None, steps
        )
    operands = ", ".join(
        f"{names.of_value(operand) or name} {shape_of(operand)}" for name, operand in last.call.operands
    )
    arguments = "".join(f", {argument}" for argument in last.call.arguments)
    return explanation(
        "dim",
        f"The size {size} was born as dim {place} in {at(last.call)}, which made {shape_of(last)} of {operands or 'nothing'}{arguments}.",
        last.call,
        steps,
    )


def _before(value: Value, dim: int, size: object) -> tuple[Value, int] | None:
    """The operand that has this size, and in which dim: at the same place from the front or the end, else anywhere."""
    if value.call is None:
        return None
    last = dim - len(value.shape)
    operands = [operand for _, operand in value.call.operands]
    op = registry.get(value.call.op)
    if (
        op is not None
        and op.kind == "elementwise"
        and all([tuple(operand.shape) != tuple(value.shape) for operand in operands])
    ):
        return None  # broadcasting made the shape
    for operand in operands:
        count = len(operand.shape)
        for place in (dim, count + last):
            if 0 <= place < count and operand.shape[place] == size:
                return operand, place
    moves = op is not None and bool(op.view)
    for operand in operands:
        if (moves or (operand.is_leaf and operand.requires_grad)) and size in tuple(operand.shape):
            return operand, tuple(operand.shape).index(size)
    return None
