"""Parts of ragged tensors, which PyTorch gives by calls and others by attributes: `x.values` is a tensor, and so is `x.values()`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynograd.ragged.invoking import invoke, mapped
from dynograd.tensor.borrowed_gradients import gradients_of
from dynograd.tensor.tensor import Tensor

__all__ = ["Part", "part_of"]


@gradients_of("whole")
class Part(Tensor):
    """A part of a ragged tensor (`x.values`, `x.offsets`, `x.lengths`): to every op it is that tensor; called, it gives it."""

    __slots__ = ()

    whole: Tensor

    def __call__(self) -> Any:
        return self.whole

    array = property(lambda self: self.whole.array, lambda self, value: setattr(self.whole, "array", value))  # type: ignore[assignment]
    _grad = property(lambda self: self.whole._grad, lambda self, value: setattr(self.whole, "_grad", value))  # type: ignore[assignment]
    _meta = property(lambda self: self.whole._meta, lambda self, value: setattr(self.whole, "_meta", value))  # type: ignore[assignment]
    shape = property(lambda self: self.whole.shape)  # type: ignore[assignment]
    ndim = property(lambda self: self.whole.ndim)  # type: ignore[assignment]
    dtype = property(lambda self: self.whole.dtype)  # type: ignore[assignment]
    device = property(lambda self: self.whole.device)  # type: ignore[assignment]

    def detach(self) -> Any:
        return self.whole.detach()

    @staticmethod
    def __dynograd_op__(op: Any, arguments: dict[str, Any]) -> Any:
        return invoke(
            op.function, op, {name: mapped(value, lambda part: part.whole, Part) for name, value in arguments.items()}
        )

    @staticmethod
    def __dynograd_write__(target: Any, value: Any, who: str, write: Callable[..., Any]) -> Any:
        write(getattr(target, "whole", target), getattr(value, "whole", value), who)
        return target

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.whole.__reduce_ex__(protocol)

    def __deepcopy__(self, memo: dict) -> Any:
        return self.whole.__deepcopy__(memo)


def part_of(whole: Tensor) -> Tensor:
    """`whole`, which may be called."""
    part: Any = object.__new__(Part)
    part.whole = whole
    return part
