"""Backward hooks of one call of a module: the gradients at its two borders, and the functions that see and replace them.

All inputs that require grad go through one identity, all outputs through another; their backward is where the hooks run. So a hook runs
once for a call, also when some inputs or outputs got no gradient, and in-place ops inside the module are not disturbed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from dynograd.autograd.replacements import check_replacement
from dynograd.errors import user_level
from dynograd.ragged import is_ragged
from dynograd.tensor.custom_function import Function
from dynograd.tensor.tensor import Tensor

__all__ = ["BackwardWatch"]


class BackwardHookFunction(Function):
    """The tensors themselves; in backward `told(gradients)` gives what goes on."""

    @staticmethod
    def forward(ctx: Any, told: Callable[[tuple], Sequence[Any]], *tensors: Any) -> tuple[Tensor, ...]:
        ctx.told = told
        ctx.set_materialize_grads(False)
        return tuple(tensor.view_as(tensor) for tensor in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return (None, *ctx.told(grads))


class BackwardWatch:
    """Runs the hooks of `module` around one call: `enter` the arguments, `leave` with the results."""

    def __init__(self, module: Any, before: Sequence[Any], after: Sequence[Any]) -> None:
        self.module, self.before, self.after = module, before, after
        self.inputs: list[int] = []
        self.count = 0
        self.grad_outputs: tuple | None = None

    def enter(self, args: tuple) -> tuple:
        self.count = len(args)
        self.inputs, passed = _through(self._at_inputs, args)
        return tuple(passed)

    def leave(self, output: Any) -> Any:
        many = isinstance(output, (tuple, list))
        if not many and not isinstance(output, Tensor):
            warnings.warn(
                f"For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but received {type(output)}.",
                stacklevel=user_level(),
            )
        values = list(output) if many else [output]
        self.outputs, passed = _through(self._at_outputs, values)
        self.width = len(values)
        if not self.outputs:
            return output
        if not many:
            return passed[0]
        return type(output)(*passed) if hasattr(output, "_fields") else type(output)(passed)

    def _at_outputs(self, grads: tuple) -> Sequence[Any]:
        grad_outputs = _spread(grads, self.outputs, self.width)
        for hook in self.before:
            changed = hook(self.module, grad_outputs)
            if changed is not None:
                new = _as_many("backward pre-hook", "grad_output", changed, self.width)
                _check("register_full_backward_pre_hook", hook, grad_outputs, new, self.outputs)
                grad_outputs = new
        self.grad_outputs = grad_outputs
        if not self.inputs:
            for hook in self.after:
                if hook(self.module, (None,) * self.count, grad_outputs) is not None:
                    raise RuntimeError(
                        f"backward hook of {type(self.module).__name__}: hook should return None (no input of the module requires grad, so "
                        f"there is no grad_input to replace)."
                    )
        return [grad_outputs[place] for place in self.outputs]

    def _at_inputs(self, grads: tuple) -> Sequence[Any]:
        if self.grad_outputs is None:  # an output that the watch never saw led here
            return grads
        grad_inputs = _spread(grads, self.inputs, self.count)
        for hook in self.after:
            changed = hook(self.module, grad_inputs, self.grad_outputs)
            if changed is not None:
                new = _as_many("backward hook", "grad_input", changed, self.count)
                _check("register_full_backward_hook", hook, grad_inputs, new, self.inputs)
                grad_inputs = new
        self.grad_outputs = None
        return [grad_inputs[place] for place in self.inputs]


def _through(told: Callable, values: Sequence[Any]) -> tuple[list[int], list[Any]]:
    """The places of tensors that require grad, and the values with those behind one border; of ragged ones the elements go through it."""
    places = [place for place, value in enumerate(values) if isinstance(value, Tensor) and value.requires_grad]
    passed = list(values)
    if places:
        tensors = [values[place] for place in places]

        def seen(grads: tuple) -> Sequence[Any]:
            rows = tuple(
                [None if g is None else _rows_like(tensor, g) for tensor, g in zip(tensors, grads, strict=True)]
            )
            return [_elements(g) for g in told(rows)]

        ragged = any([is_ragged(tensor) for tensor in tensors])
        bordered = BackwardHookFunction.apply(seen if ragged else told, *[_elements(tensor) for tensor in tensors])
        for place, like, element in zip(places, tensors, bordered, strict=True):
            passed[place] = _rows_like(like, element)
    return places, passed


def _elements(x: Any) -> Tensor:
    """The elements of all rows of a ragged tensor; others as they are."""
    while is_ragged(x):
        x = x.packed
    return x


def _rows_like(like: Any, x: Any) -> Tensor:
    return like.with_packed(_rows_like(like.packed, x)) if is_ragged(like) else x


def _spread(grads: Sequence[Any], places: list[int], width: int) -> tuple:
    spread: list[Any] = [None] * width
    for place, g in zip(places, grads):
        spread[place] = g
    return tuple(spread)


def _check(who: str, hook: Any, old: tuple, new: tuple, places: list[int]) -> None:
    for place in places:
        check_replacement(who, hook, old[place], new[place])


def _as_many(who: str, what: str, changed: Any, width: int) -> tuple:
    changed = changed if isinstance(changed, tuple) else (changed,)
    if len(changed) != width:
        raise RuntimeError(f"{who} returned an invalid number of {what}, got {len(changed)}, but expected {width}.")
    return changed
