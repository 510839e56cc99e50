"""Gradients of ragged tensors: those of the packed elements, in the same rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynograd.errors import ShapeError
from dynograd.tensor.borrowed_gradients import gradients_of
from dynograd.tensor.tensor import Tensor

__all__ = ["Differentiable"]


@gradients_of("packed")
class Differentiable(Tensor):
    """The half of a RaggedTensor that has to do with gradients."""

    __slots__ = ()

    packed: Any
    if False:  # known to mypy and not to editors
        partition: Any
    with_packed: Callable[..., Any]

    @property
    def _grad(self) -> Any:  # type: ignore[override]
        gradient = self.packed._grad
        return None if gradient is None else self.with_packed(gradient)

    @_grad.setter
    def _grad(self, value: Any) -> None:
        self.packed._grad = inside("grad", self, value)

    @property
    def grad(self) -> Any:
        """The gradients of the elements, in the same rows."""
        return self._grad

    @grad.setter
    def grad(self, value: Any) -> None:
        self.packed.grad = inside("grad", self, value)

    @grad.deleter
    def grad(self) -> None:
        self.packed._grad = None

    @property
    def data(self) -> Any:  # type: ignore[override]
        return self.with_packed(self.packed.data)

    @data.setter
    def data(self, value: Any) -> None:
        self.packed.data = inside("data", self, value)

    def detach(self) -> Any:
        return self.with_packed(self.packed.detach())

    def detach_(self) -> Any:
        self.packed.detach_()
        return self

    def retain_grad(self) -> None:
        self.packed.retain_grad()

    def register_hook(self, hook: Callable[..., Any]) -> Any:
        """Calls `hook(grad)` with a ragged gradient when backward has it; what it returns replaces it."""

        def run(g: Any) -> Any:
            replacement = hook(self.with_packed(g))
            return None if replacement is None else inside("hook", self, replacement)

        return self.packed.register_hook(run)

    def backward(self, gradient: Any = None, *args: Any, **kwargs: Any) -> None:
        """Sends `gradient`, ragged with the same lengths, back through the elements."""
        self.packed.backward(inside("backward", self, gradient), *args, **kwargs)

    def __dynograd_root__(self, who: str, gradient: Any) -> tuple[Any, Any]:
        """Where a backward pass from it begins: the elements of all rows, and what `gradient` has for them."""
        packed, inner = self.packed, inside(who, self, gradient)
        return packed.__dynograd_root__(who, inner) if isinstance(packed, Differentiable) else (packed, inner)

    def __dynograd_gradient__(self, gradient: Any) -> Tensor:
        """The gradient of its elements, in the same rows."""
        return self.with_packed(
            self.packed.__dynograd_gradient__(gradient) if isinstance(self.packed, Differentiable) else gradient
        )


def inside(who: str, x: Any, value: Any) -> Any:
    """What `value` (ragged like `x`, or None) has as packed elements; packed elements themselves pass."""
    if not isinstance(value, Differentiable):
        if isinstance(value, Tensor) and not isinstance(x.packed, Differentiable) and value.shape != x.packed.shape:
            raise ShapeError(
                f"{who}: expected a ragged tensor with lengths {x.partition.lengths.tolist()[:8]}, got a tensor of shape {tuple(value.shape)}."
            )
        return value
    x.partition.check_same(who, value.partition, ("the", "the given"))
    inner = value.packed
    return inside(who, x.packed, inner) if isinstance(x.packed, Differentiable) else inner
