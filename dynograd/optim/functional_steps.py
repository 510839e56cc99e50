"""A step of an optimizer on lists of parameters, gradients and states, without an object: what `optim.adam.adam` and its like are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dynograd import arrays
from dynograd.autograd.modes import MODES, set_grad_enabled
from dynograd.autograd.nodes import caller
from dynograd.autograd.writes import before_writing, stamp
from dynograd.errors import ShapeError
from dynograd.optim.optimizer import Optimizer
from dynograd.optim.together import shape_error
from dynograd.tensor.tensor import Tensor

__all__ = ["step_lists"]


def step_lists(
    kind: type[Optimizer],
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    states: Mapping[str, list[Any]],
    group: dict[str, Any],
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> None:
    """`kind`'s update of each parameter, in place; an empty list is a state that the options do not ask for, None one that is not there yet.

    Raises:
        RuntimeError: a step that is no tensor.
        ShapeError: lists of different lengths, or a gradient of another shape than its parameter.
    """
    name = kind.__name__.lower()
    if not all([isinstance(step, Tensor) for step in states.get("step", ())]):
        raise RuntimeError(
            f"{name}: API has changed, `state_steps` argument must contain a list of singleton tensors, got {states['step']!r:.60}."
        )
    lists = {"grads": grads, **{state: listed for state, listed in states.items() if len(listed) or state == "step"}}
    for what, listed in lists.items():
        if len(listed) != len(params):
            raise ShapeError(f"{name}: got {len(params)} params and {len(listed)} of {what}. Give one for each.")
    if found_inf is not None and found_inf.item():
        return
    before_writing([p.array for p in params])
    optimizer: Any = kind.__new__(kind)
    group = {"params": list(params), "differentiable": False, "maximize": False, **group}
    with set_grad_enabled(bool(group["differentiable"] and MODES.grad)):
        for number, (p, g) in enumerate(zip(params, grads)):
            if g.shape != p.shape:
                raise shape_error(optimizer, "gradient", g.array, p.array)
            state = {
                state: listed[number] for state, listed in states.items() if len(listed) and listed[number] is not None
            }
            arrays.quietly(_update, optimizer, p, g if grad_scale is None else g / grad_scale, state, group)
            for key, listed in states.items():
                after = state.get(key)
                if after is None or after is listed[number]:
                    continue
                if listed[number] is None or after.is_sparse or listed[number].is_sparse:
                    listed[number] = after
                else:
                    listed[number].copy_(after)


def _update(optimizer: Any, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
    if g.is_sparse:
        optimizer.check_sparse(p, group)
        optimizer.update_sparse(p, g, state, group)
    elif group["differentiable"]:
        optimizer.update_recorded(p, g, state, group)
        return
    else:
        optimizer.update(p, g, state, group)
    stamp(p.array, caller())
