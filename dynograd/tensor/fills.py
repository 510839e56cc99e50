"""`fill_diagonal_`: writing into a tensor's diagonal, whatever lies there in memory."""

from __future__ import annotations

from typing import Any

from dynograd.errors import ShapeError
from dynograd.tensor.inplace_forms import with_writer
from dynograd.tensor.tensor import Tensor

__all__ = ["install_fills"]


def fill_diagonal_(self: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Sets the elements whose indices in all dims agree, in place.

    Args:
        fill_value: number.
        wrap: go on below the square at the top of a tall matrix, one row left out between.
    Returns:
        The tensor itself.
    Raises:
        ShapeError: fewer than 2 dims, or more than 2 of different sizes.

    >>> dynograd.zeros(2, 3).fill_diagonal_(1)
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    shape = tuple(self.array.shape)
    if len(shape) < 2:
        raise ShapeError(f"fill_diagonal_: dimensions must be larger than 1, got shape {shape}.")
    if len(shape) > 2 and len(set(shape)) > 1:
        raise ShapeError(f"fill_diagonal_: all dimensions of input must be of equal length, got shape {shape}.")
    rows, columns = shape[:2]
    for top in range(0, rows, columns + 1) if wrap and len(shape) == 2 else (0,):
        diagonal: Any = self[top:] if top else self
        for _ in shape[1:]:
            diagonal = diagonal.diagonal(0, 0, diagonal.ndim - 1)
        diagonal.fill_(fill_value)
    return self


def install_fills() -> None:
    """Puts the method on Tensor."""
    Tensor.fill_diagonal_ = with_writer(fill_diagonal_)  # type: ignore[method-assign]
