"""Layers that join or split dims."""

from __future__ import annotations

from collections.abc import Sequence

from dynograd.nn.module import Module
from dynograd.tensor.tensor import Tensor

__all__ = ["Flatten", "Unflatten"]


class Flatten(Module):
    """Joins the dims from start_dim to end_dim into one.

    Args:
        start_dim: the first dim that is joined; 1 leaves the batch alone.
        end_dim: the last dim that is joined; negative counts from the end.
    Shape: input (*, S_start, ..., S_end, *); gives (*, S_start * ... * S_end, *).

    >>> dynograd.nn.Flatten()(dynograd.zeros(2, 3, 4)).shape
    dynograd.Size([2, 12])
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits one dim into several.

    Args:
        dim: the dim that is split.
        unflattened_size: the sizes it becomes, a tuple or list of ints; one may be -1.
    Shape: input (*, S, *); gives (*, *unflattened_size, *), whose product is S.
    Raises:
        TypeError: unflattened_size is no tuple or list of ints.

    >>> dynograd.nn.Unflatten(1, (2, 3))(dynograd.zeros(4, 6)).shape
    dynograd.Size([4, 2, 3])
    """

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        if not isinstance(unflattened_size, (tuple, list)):
            raise TypeError(
                f"Unflatten: unflattened_size must be a tuple of ints, but found type {type(unflattened_size).__name__}."
            )
        for place, size in enumerate(unflattened_size):
            if not isinstance(size, int):
                raise TypeError(
                    f"Unflatten: unflattened_size must be tuple of ints, but found element of type {type(size).__name__} at "
                    f"position {place}."
                )
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
