"""Padding layers: constants, zeros, reflections, repetitions or the other end, around the last 1, 2 or 3 dims."""

from __future__ import annotations

from typing import Any

from dynograd.base.hints import Sizes
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
        padding: one number for every side, or (left, right, top, bottom, front, back), as many as there are sides;
            negative numbers cut.
    """

    rank = 1
    mode = "constant"

    def __init__(self, padding: Sizes) -> None:
        super().__init__()
        sides = 2 * self.rank
        each: Any = tuple(padding) if isinstance(padding, (tuple, list)) else (padding,) * sides  # checked below
        self.padding: tuple[int, ...] = each
        for amount in self.padding:
            check_whole(type(self).__name__, padding=amount)
        if len(self.padding) != sides:
            raise ValueError(f"{type(self).__name__}: padding wants one number or {sides}, got {padding!r}.")

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPadNd(_PadNd):
    def __init__(self, padding: Sizes, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """Puts `value` around the last dim.

    Args:
        padding: one number for both sides, or (left, right); negative numbers cut.
        value: what is put there.
    Shape: input (N, C, L) or (C, L); gives (N, C, L) or (C, L), each dim longer by its two paddings.
    Raises:
        ValueError: padding is no single number and no 2 numbers.
        TypeError: padding is not of integers.

    >>> dynograd.nn.ConstantPad1d(1, 9.0)(dynograd.zeros(1, 2))
    tensor([[9., 0., 0., 9.]])
    """


class ConstantPad2d(_ConstantPadNd):
    """Puts `value` around the last two dims.

    Args:
        padding: one number for all sides, or (left, right, top, bottom); negative numbers cut.
        value: what is put there.
    Shape: input (N, C, H, W) or (C, H, W); gives (N, C, H, W) or (C, H, W), each dim longer by its two paddings.
    Raises:
        ValueError: padding is no single number and no 4 numbers.
        TypeError: padding is not of integers.

    >>> dynograd.nn.ConstantPad2d((1, 0, 0, 1), 9.0)(dynograd.zeros(1, 1, 1))
    tensor([[[9., 0.],
             [9., 9.]]])
    """

    rank = 2


class ConstantPad3d(_ConstantPadNd):
    """Puts `value` around the last three dims.

    Args:
        padding: one number for all sides, or (left, right, top, bottom, front, back); negative numbers cut.
        value: what is put there.
    Shape: input (N, C, D, H, W) or (C, D, H, W); gives (N, C, D, H, W) or (C, D, H, W), each dim longer by its two paddings.
    Raises:
        ValueError: padding is no single number and no 6 numbers.
        TypeError: padding is not of integers.

    >>> dynograd.nn.ConstantPad3d(1, 9.0)(dynograd.zeros(1, 2, 2, 2)).shape
    dynograd.Size([1, 4, 4, 4])
    """

    rank = 3


class _ZeroPadNd(_PadNd):
    value = 0.0


class ZeroPad1d(_ZeroPadNd):
    """Puts zeros around the last dim.

    Args:
        padding: one number for both sides, or (left, right); negative numbers cut.
    Shape: input (N, C, L) or (C, L); gives (N, C, L) or (C, L), each dim longer by its two paddings.
    Raises:
        ValueError: padding is no single number and no 2 numbers.
        TypeError: padding is not of integers.

    >>> dynograd.nn.ZeroPad1d(1)(dynograd.ones(1, 2))
    tensor([[0., 1., 1., 0.]])
    """


class ZeroPad2d(_ZeroPadNd):
    """Puts zeros around the last two dims.

    Args:
        padding: one number for all sides, or (left, right, top, bottom); negative numbers cut.
    Shape: input (N, C, H, W) or (C, H, W); gives (N, C, H, W) or (C, H, W), each dim longer by its two paddings.
    Raises:
        ValueError: padding is no single number and no 4 numbers.
        TypeError: padding is not of integers.

    >>> dynograd.nn.ZeroPad2d((1, 0, 0, 1))(dynograd.ones(1, 1, 1))
    tensor([[[0., 1.],
             [0., 0.]]])
    """

    rank = 2


class ZeroPad3d(_ZeroPadNd):
    """Puts zeros around the last three dims.

    Args:
        padding: one number for all sides, or (left, right, top, bottom, front, back); negative numbers cut.
    Shape: input (N, C, D, H, W) or (C, D, H, W); gives (N, C, D, H, W) or (C, D, H, W), each dim longer by its two paddings.
    Raises:
        ValueError: padding is no single number and no 6 numbers.
        TypeError: padding is not of integers.

    >>> dynograd.nn.ZeroPad3d(1)(dynograd.ones(1, 2, 2, 2)).shape
    dynograd.Size([1, 4, 4, 4])
    """

    rank = 3


class _ReflectionPadNd(_PadNd):
    mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """Mirrors the last dim at the first and last element, which are not repeated.

    Args:
        padding: one number for both sides, or (left, right), each less than the dim it pads.
    Shape: input (N, C, L) or (C, L); gives (N, C, L) or (C, L), each dim longer by its two paddings.
    Raises:
        ValueError: padding is no single number and no 2 numbers.
        TypeError: padding is not of integers.

    >>> dynograd.nn.ReflectionPad1d(2)(tensor([[1.0, 2.0, 3.0]]))
    tensor([[3., 2., 1., 2., 3., 2., 1.]])
    """


class ReflectionPad2d(_ReflectionPadNd):
    """Mirrors the last two dims at the first and last elements, which are not repeated.

    Args:
        padding: one number for all sides, or (left, right, top, bottom), each less than the dim it pads.
    Shape: input (N, C, H, W) or (C, H, W); gives (N, C, H, W) or (C, H, W), each dim longer by its two paddings.
    Raises:
        ValueError: padding is no single number and no 4 numbers.
        TypeError: padding is not of integers.

    >>> dynograd.nn.ReflectionPad2d((1, 0, 1, 0))(tensor([[[1.0, 2.0], [3.0, 4.0]]]))
    tensor([[[4., 3., 4.],
             [2., 1., 2.],
             [4., 3., 4.]]])
    """

    rank = 2


class ReflectionPad3d(_ReflectionPadNd):
    """Mirrors the last three dims at the first and last elements, which are not repeated.

    Args:
        padding: one number for all sides, or (left, right, top, bottom, front, back), each less than the dim it pads.
    Shape: input (N, C, D, H, W) or (C, D, H, W); gives (N, C, D, H, W) or (C, D, H, W), each dim longer by its two paddings.
    Raises:
        ValueError: padding is no single number and no 6 numbers.
        TypeError: padding is not of integers.

    >>> dynograd.nn.ReflectionPad3d(1)(dynograd.ones(1, 2, 2, 2)).shape
    dynograd.Size([1, 4, 4, 4])
    """

    rank = 3


class _ReplicationPadNd(_PadNd):
    mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """Repeats the first and last element of the last dim.

    Args:
        padding: one number for both sides, or (left, right); negative numbers cut.
    Shape: input (N, C, L) or (C, L); gives (N, C, L) or (C, L), each dim longer by its two paddings.
    Raises:
        ValueError: padding is no single number and no 2 numbers.
        TypeError: padding is not of integers.

    >>> dynograd.nn.ReplicationPad1d(2)(tensor([[1.0, 2.0, 3.0]]))
    tensor([[1., 1., 1., 2., 3., 3., 3.]])
    """


class ReplicationPad2d(_ReplicationPadNd):
    """Repeats the first and last elements of the last two dims.

    Args:
        padding: one number for all sides, or (left, right, top, bottom); negative numbers cut.
    Shape: input (N, C, H, W) or (C, H, W); gives (N, C, H, W) or (C, H, W), each dim longer by its two paddings.
    Raises:
        ValueError: padding is no single number and no 4 numbers.
        TypeError: padding is not of integers.

    >>> dynograd.nn.ReplicationPad2d((1, 0, 1, 0))(tensor([[[1.0, 2.0], [3.0, 4.0]]]))
    tensor([[[1., 1., 2.],
             [1., 1., 2.],
             [3., 3., 4.]]])
    """

    rank = 2


class ReplicationPad3d(_ReplicationPadNd):
    """Repeats the first and last elements of the last three dims.

    Args:
        padding: one number for all sides, or (left, right, top, bottom, front, back); negative numbers cut.
    Shape: input (N, C, D, H, W) or (C, D, H, W); gives (N, C, D, H, W) or (C, D, H, W), each dim longer by its two paddings.
    Raises:
        ValueError: padding is no single number and no 6 numbers.
        TypeError: padding is not of integers.

    >>> dynograd.nn.ReplicationPad3d(1)(dynograd.ones(1, 2, 2, 2)).shape
    dynograd.Size([1, 4, 4, 4])
    """

    rank = 3


class _CircularPadNd(_PadNd):
    mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (self.rank + 1, self.rank + 2):
            raise ShapeError(
                f"{type(self).__name__}: expected {self.rank + 1}D or {self.rank + 2}D input (got {input.dim()}D input of shape "
                f"{tuple(input.shape)}). Reshape it, or use the layer of another rank."
            )
        return super().forward(input)


class CircularPad1d(_CircularPadNd):
    """Continues the last dim from its other end.

    Args:
        padding: one number for both sides, or (left, right), each at most the dim it pads.
    Shape: input (N, C, L) or (C, L); gives (N, C, L) or (C, L), each dim longer by its two paddings.
    Raises:
        ValueError: padding is no single number and no 2 numbers.
        TypeError: padding is not of integers.
        ShapeError: in a call: an input of another rank.

    >>> dynograd.nn.CircularPad1d(1)(tensor([[1.0, 2.0, 3.0]]))
    tensor([[3., 1., 2., 3., 1.]])
    """


class CircularPad2d(_CircularPadNd):
    """Continues the last two dims from their other ends.

    Args:
        padding: one number for all sides, or (left, right, top, bottom), each at most the dim it pads.
    Shape: input (N, C, H, W) or (C, H, W); gives (N, C, H, W) or (C, H, W), each dim longer by its two paddings.
    Raises:
        ValueError: padding is no single number and no 4 numbers.
        TypeError: padding is not of integers.
        ShapeError: in a call: an input of another rank.

    >>> dynograd.nn.CircularPad2d((1, 0, 1, 0))(tensor([[[1.0, 2.0], [3.0, 4.0]]]))
    tensor([[[4., 3., 4.],
             [2., 1., 2.],
             [4., 3., 4.]]])
    """

    rank = 2


class CircularPad3d(_CircularPadNd):
    """Continues the last three dims from their other ends.

    Args:
        padding: one number for all sides, or (left, right, top, bottom, front, back), each at most the dim it pads.
    Shape: input (N, C, D, H, W) or (C, D, H, W); gives (N, C, D, H, W) or (C, D, H, W), each dim longer by its two paddings.
    Raises:
        ValueError: padding is no single number and no 6 numbers.
        TypeError: padding is not of integers.
        ShapeError: in a call: an input of another rank.

    >>> dynograd.nn.CircularPad3d(1)(dynograd.ones(1, 2, 2, 2)).shape
    dynograd.Size([1, 4, 4, 4])
    """

    rank = 3
