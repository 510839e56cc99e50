"""Tensors that a compiled step makes by their sizes (`zeros(n)`, `empty`, `new_zeros`) and writes into: values of its record.

Where a write gives such a tensor a history (`total += loss`, `rows[i] = h`, `out.index_add_(...)`), or goes into a view of it, all of this kind that
the step makes are copied by an op from then on, so that writes into them are writes into what the step has made (`plans.writes.versions`). Steps
without such writes take them as they are.
"""

from __future__ import annotations

from typing import Any

from dynograd.autograd.modes import MODES
from dynograd.plans.python_forms import flat
from dynograd.tensor.tensor import Tensor

__all__ = ["gets_history", "own_kind"]


def gets_history(target: Any, args: tuple) -> bool:
    """Whether a write of these operands makes a tensor without history a part of the graph of gradients."""
    if not MODES.grad or target._requires_grad:
        return False
    return any([isinstance(value, Tensor) and value._requires_grad for value in flat(args)])


def own_kind(tensor: Any) -> tuple[type, str] | None:
    """Type of the array, and kind of its dtype, by which steps keep which tensors that they make are values; None of a leaf, which stays one."""
    return None if tensor._requires_grad else (type(tensor.array), tensor.array.dtype.kind)
