"""`swap_tensors`: two tensor objects exchange what they are."""

from __future__ import annotations

from typing import Any

from dynograd.autograd.writes import before_rebinding
from dynograd.errors import GradientError
from dynograd.interpreter.tensor_parts import is_shared, view_of
from dynograd.tensor.tensor import Tensor

__all__ = ["swap_tensors"]

_PARTS = ("array", "node", "_requires_grad", "_grad", "_meta")


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchanges the two: who holds `t1` (a module its parameter, an optimizer) has from now on what was `t2`, and the other way round.

    Memory, class, attributes, gradient, history and `requires_grad` are exchanged.

    Args:
        t1, t2: tensors.
    Raises:
        TypeError: one is no tensor.
        RuntimeError: one is a view, or has views, whose record names the object.

    >>> x, y = tensor([1.0]), tensor([2, 3])
    >>> dynograd.utils.swap_tensors(x, y)
    >>> x, y
    (tensor([2, 3]), tensor([1.]))
    """
    for tensor in (t1, t2):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"swap_tensors: expected two tensors, got {type(tensor).__name__}.")
        if view_of(tensor) is not None or is_shared(tensor):
            raise GradientError(
                "swap_tensors: a tensor is a view or has views. Swap clones (x.clone()), or what they are views of."
            )
        before_rebinding(tensor)
    values: list[list[Any]] = [[getattr(tensor, part) for part in _PARTS] for tensor in (t1, t2)]
    attributes = [dict(vars(tensor)) if hasattr(tensor, "__dict__") else {} for tensor in (t1, t2)]
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    for tensor, parts, own in ((t1, values[1], attributes[1]), (t2, values[0], attributes[0])):
        for part, value in zip(_PARTS, parts):
            setattr(tensor, part, value)
        if hasattr(tensor, "__dict__"):
            vars(tensor).clear()
            vars(tensor).update(own)
