"""Padding layers: constants, zeros, reflections, repetitions or the other end, around the last 1, 2 or 3 dims."""

from __future__ import annotations

from typing import Any

from dynograd.errors import ShapeError
from dynograd.nn import functional as F
from dynograd.nn.checks import check_whole
from dynograd.nn.module import Module
from dynograd.tensor.tensor import Tensor

__all__ = [
    f"{kind}Pad{rank}d" for kind in ("Circular", "Constant", "Reflection", "Replication", "Zero") for rank in (1, 2, 3)
]


class _PadNd(Module):
    """Pads the last `rank` dims of (N, C, *) or (C, *) in the way `mode` says.

    Args:
        padding: one number for every side, or (left, right, top, bottom, front, back), as many as there are sides; negative
            numbers cut.
    """

    rank = 1
    mode = "constant"

    def __init__(self, padding: Any) -> None:
        super().__init__()
        sides = 2 * self.rank
        self.padding = tuple(padding) if isinstance(padding, (tuple, list)) else (padding,) * sides
        for amount in self.padding:
            check_whole(type(self).__name__, padding=amount)
        if len(self.padding) != sides:
            raise ValueError(f"{type(self).__name__}: padding wants one number or {sides}, got {padding!r}.")

    def forward(self, input: Any) -> Tensor:
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPadNd(_PadNd):
    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Any) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """`value` around the last dim."""


class ConstantPad2d(_ConstantPadNd):
    """`value` around the last two dims.

    >>> dynograd.nn.ConstantPad2d((1, 0, 0, 1), 9.0)(dynograd.zeros(1, 1, 1))
    tensor([[[9., 0.],
             [9., 9.]]])
    """

    rank = 2


class ConstantPad3d(_ConstantPadNd):
    """`value` around the last three dims."""

    rank = 3


class _ZeroPadNd(_PadNd):
    value = 0.0


class ZeroPad1d(_ZeroPadNd):
    """Zeros around the last dim."""


class ZeroPad2d(_ZeroPadNd):
    """Zeros around the last two dims."""

    rank = 2


class ZeroPad3d(_ZeroPadNd):
    """Zeros around the last three dims."""

    rank = 3


class _ReflectionPadNd(_PadNd):
    mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """The last dim mirrored at its first and last element, which are not repeated.

    >>> dynograd.nn.ReflectionPad1d(2)(tensor([[1.0, 2.0, 3.0]]))
    tensor([[3., 2., 1., 2., 3., 2., 1.]])
    """


class ReflectionPad2d(_ReflectionPadNd):
    """The last two dims mirrored at their borders."""

    rank = 2


class ReflectionPad3d(_ReflectionPadNd):
    """The last three dims mirrored at their borders."""

    rank = 3


class _ReplicationPadNd(_PadNd):
    mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """The first and last element of the last dim repeated."""


class ReplicationPad2d(_ReplicationPadNd):
    """The border of the last two dims repeated."""

    rank = 2


class ReplicationPad3d(_ReplicationPadNd):
    """The border of the last three dims repeated."""

    rank = 3


class _CircularPadNd(_PadNd):
    mode = "circular"

    def forward(self, input: Any) -> Tensor:
        if input.dim() not in (self.rank + 1, self.rank + 2):
            raise ShapeError(
                f"{type(self).__name__}: expected {self.rank + 1}D or {self.rank + 2}D input (got {input.dim()}D input of shape "
                f"{tuple(input.shape)}). Reshape it, or use the layer of another rank."
            )
        return super().forward(input)


class CircularPad1d(_CircularPadNd):
    """The last dim continued from its other end."""


class CircularPad2d(_CircularPadNd):
    """The last two dims continued from their other ends."""

    rank = 2


class CircularPad3d(_CircularPadNd):
    """The last three dims continued from their other ends."""

    rank = 3
