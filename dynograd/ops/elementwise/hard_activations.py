"""Activation functions made of straight pieces, and the ones that shrink towards 0.

The `inplace` argument is PyTorch's: the result is written into `input`, which is returned.
"""

from __future__ import annotations

from typing import Any

from dynograd.arrays import Array
from dynograd.ops.argument_kinds import Inplace
from dynograd.ops.elementwise.arithmetic import abs
from dynograd.ops.elementwise.exponentials import tanh
from dynograd.ops.op import composed, elementwise
from dynograd.ops.row import Row

__all__ = [
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "relu6",
    "softshrink",
    "softsign",
    "tanhshrink",
    "threshold",
]

FAMILY = Row(functional=True)


@elementwise(
    name="hardtanh",
    formula="min(max(input, min_val), max_val)",
    derivative="where((input > min_val) & (input < max_val), g, 0.0)",
    inplace=True,
    out=None,
)
def bounded(input: Array, min_val: float, max_val: float) -> Array:
    """`input` between two bounds, at which the gradient is 0."""


@composed(covers="hardtanh", functional="inplace")
def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Array:
    """`input` between `min_val` and `max_val`; the gradient at the bounds and beyond is 0.

    Args:
        input: tensor of any shape.
        min_val, max_val: the bounds.
        inplace: write the result into `input`.
    Returns:
        A tensor of the shape and dtype of `input`.
    Raises:
        ValueError: `min_val` is above `max_val`.

    >>> dynograd.nn.functional.hardtanh(tensor([-2.0, 0.5]))
    tensor([-1.0000,  0.5000])
    """
    if min_val > max_val:
        raise ValueError(f"hardtanh: min_val cannot be greater than max_val, got {min_val} and {max_val}.")
    return input.hardtanh_(min_val, max_val) if inplace else bounded(input, min_val, max_val)


@composed(inplace=True, out=None)
def relu6(input: Any, inplace: bool = False) -> Array:
    """`input` between 0 and 6.

    Args:
        input: tensor of any shape.
        inplace: write the result into `input`.
    Returns:
        A tensor of the shape and dtype of `input`.

    >>> dynograd.nn.functional.relu6(tensor([-2.0, 3.0, 8.0]))
    tensor([0., 3., 6.])
    """
    return input.relu6_() if inplace else bounded(input, 0.0, 6.0)


@elementwise(
    formula="min(max(input + 3, 0), 6) / 6",
    derivative="where((input > -3) & (input < 3), g / 6, 0.0)",
    promote="float",
    inplace=True,
    out=None,
)
def hardsigmoid(input: Array, inplace: Inplace = False) -> Array:
    """`(input + 3) / 6` between 0 and 1: a sigmoid of three straight pieces.

    Args:
        input: tensor of any shape; integers become the default dtype.
        inplace: write the result into `input`.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.nn.functional.hardsigmoid(tensor([-4.0, 0.0, 4.0]))
    tensor([0.0000, 0.5000, 1.0000])
    """


@elementwise(
    formula="input * min(max(input + 3, 0), 6) / 6",
    derivative="where(input <= -3, 0.0, where(input >= 3, g, g * (input / 3 + 0.5)))",
    promote="float",
    inplace=True,
    out=None,
)
def hardswish(input: Array, inplace: Inplace = False) -> Array:
    """`input * hardsigmoid(input)`.

    Args:
        input: tensor of any shape; integers become the default dtype.
        inplace: write the result into `input`.
    Returns:
        A floating tensor of the shape of `input`.
    Source: Howard and others, Searching for MobileNetV3, 2019 (arXiv:1905.02244).

    >>> dynograd.nn.functional.hardswish(tensor([-4.0, 1.0, 4.0]))
    tensor([-0.0000, 0.6667, 4.0000])
    """


@elementwise(
    name="hardshrink",
    formula="abs(input) <= lambd ? 0 : input",
    derivative="where((input < -lambd) | (input > lambd), g, 0.0)",
    promote="float",
)
def kept_outside(input: Array, lambd: float) -> Array:
    """`input`, and 0 where it is within `lambd` of 0."""


@composed(covers="hardshrink", method=True)
def hardshrink(input: Any, lambd: float = 0.5) -> Array:
    """`input`, and 0 where it is within `lambd` of 0.

    Args:
        input: tensor of any shape; integers become the default dtype.
        lambd: half the width of the interval that becomes 0, rounded to the dtype of half tensors.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.hardshrink(tensor([-1.0, 0.3]))
    tensor([-1.,  0.])
    """
    kind = getattr(input, "array", input).dtype
    return kept_outside(input, float(kind.type(lambd)) if kind.itemsize == 2 and kind.kind in "fV" else lambd)


@elementwise(
    name="softshrink",
    formula="input - min(max(input, -lambd), lambd)",
    derivative="where((input < -lambd) | (input > lambd), g, 0.0)",
    promote="float",
)
def shrunk(input: Array, lambd: float) -> Array:
    """`input` moved by `lambd` towards 0, and no further."""


@composed(covers="softshrink")
def softshrink(input: Any, lambd: float = 0.5) -> Array:
    """`input` moved by `lambd` towards 0, and no further.

    Args:
        input: tensor of any shape.
        lambd: at least 0.
    Returns:
        A tensor of the shape and dtype of `input`.
    Raises:
        RuntimeError: `lambd` is negative.

    >>> dynograd.nn.functional.softshrink(tensor([-1.0, 0.25]))
    tensor([-0.5000,  0.0000])
    """
    if lambd < 0:
        raise RuntimeError(f"softshrink: expected lambd to be greater than or equal to 0, but found {lambd}.")
    return shrunk(input, lambd)


@composed(out=None)
def tanhshrink(input: Any) -> Array:
    """`input - tanh(input)`.

    Args:
        input: tensor of any shape.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.nn.functional.tanhshrink(tensor([0.0, 2.0]))
    tensor([0.0000, 1.0360])
    """
    return input - tanh(input)


@composed(out=None)
def softsign(input: Any) -> Array:
    """`input / (1 + abs(input))`.

    Args:
        input: tensor of any shape.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.nn.functional.softsign(tensor([-1.0, 3.0]))
    tensor([-0.5000,  0.7500])
    """
    return input / (abs(input) + 1)


@elementwise(
    name="threshold",
    formula="input <= threshold ? value : input",
    derivative="where(input <= threshold, 0.0, g)",
    inplace="function",
)
def replace_low(input: Array, threshold: float, value: float) -> Array:
    """`value` where `input` is not above `threshold`, `input` elsewhere."""


@composed(covers="threshold", functional="inplace")
def threshold(input: Any, threshold: float, value: float, inplace: bool = False) -> Array:
    """`input` where it is above `threshold`, `value` elsewhere.

    Args:
        input: tensor of any shape.
        threshold: number; what is not above it is replaced.
        value: number that replaces it.
        inplace: write the result into `input`.
    Returns:
        A tensor of the shape and dtype of `input`.

    >>> dynograd.threshold(tensor([0.5, 2.0]), 1.0, 9.0)
    tensor([9., 2.])
    """
    return input.threshold_(threshold, value) if inplace else replace_low(input, threshold, value)
