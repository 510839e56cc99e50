"""Elements at a mask: in a step they are those at the places where it holds.

How many those are is known when the mask has been read. The places are then tensors from outside, of another size in each step: the op is an op
of the record as any other, and where only their number differs, the same program at another size. Elements that are picked without a gradient have
no places: that op runs as it is written.
"""

from __future__ import annotations

from typing import Any

from dynograd.arrays import ndarray
from dynograd.autograd.modes import MODES
from dynograd.ops.op import Op
from dynograd.plans.python_forms import flat
from dynograd.tensor.tensor import Tensor

__all__ = ["at_places", "is_mask"]


def is_mask(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype.name == "bool"


def at_places(op: Op, args: tuple) -> tuple | None:
    """The operands of a differentiated `x[mask]`, or of a write at a mask, with places for its masks; None: it is another op, or they have no numbers."""
    if op.name != "index_put_at" and not (op.name == "index" and _is_differentiated(args)):
        return None
    operands = dict(zip(op.parameter_names, args))
    indices, template = operands["indices"], operands["template"]
    if not all([_has_numbers(index) for index in indices if is_mask(index)]):
        return None
    places = [_places(index) if is_mask(index) else [index] for index in indices]
    starts = [sum([len(group) for group in places[:number]]) for number in range(len(places))]
    spread = [
        range(starts[entry], starts[entry] + len(places[entry])) if type(entry) is int else (entry,)
        for entry in template
    ]
    operands["indices"] = [index for group in places for index in group]
    operands["template"] = tuple([entry for group in spread for entry in group])
    return tuple(operands.values())


def _is_differentiated(args: tuple) -> bool:
    return bool(MODES.grad) and any([isinstance(value, Tensor) and value.requires_grad for value in flat(args)])


def _has_numbers(mask: Any) -> bool:
    return type(mask.array) is ndarray and mask.array.ndim > 0


def _places(mask: Any) -> list[Tensor]:
    """Where it holds, a tensor for each dim."""
    return [Tensor.wrap(place) for place in mask.array.nonzero()]
