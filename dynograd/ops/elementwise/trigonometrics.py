"""Sines, their relatives and inverses, and angles in degrees."""

from __future__ import annotations

from typing import Any

from dynograd.arrays import Array
from dynograd.ops.op import composed, elementwise

__all__ = ["acos", "asin", "atan", "atan2", "cos", "deg2rad", "hypot", "rad2deg", "sin", "sinc", "tan"]


@elementwise(formula="sin(input)", derivative="g * cos(input)", promote="float", method=True, inplace="function")
def sin(input: Array) -> Array:
    """The sine of an angle in radians.

    Args:
        input: tensor of any shape, in radians; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.sin(tensor([0.0, 1.0]))
    tensor([0.0000, 0.8415])
    """


@elementwise(formula="cos(input)", derivative="-g * sin(input)", promote="float", method=True, inplace="function")
def cos(input: Array) -> Array:
    """The cosine of an angle in radians.

    Args:
        input: tensor of any shape, in radians; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.cos(tensor([0.0, 1.0]))
    tensor([1.0000, 0.5403])
    """


@elementwise(
    formula="tan(input)",
    derivative="g + g * output * output",
    promote="float",
    method=True,
    inplace="function",
    cast={"cuda": "wide"},
)
def tan(input: Array) -> Array:
    """The tangent of an angle in radians.

    Args:
        input: tensor of any shape, in radians; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.tan(tensor([0.0, 1.0]))
    tensor([0.0000, 1.5574])
    """


@elementwise(
    formula="asin(input)",
    derivative="g * rsqrt((1 - input) * (1 + input))",
    promote="float",
    method=True,
    inplace="function",
    cast={"cuda": "wide"},
)
def asin(input: Array) -> Array:
    """The angle in [-pi/2, pi/2] with this sine; NaN outside [-1, 1].

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.asin(tensor([0.0, 1.0]))
    tensor([0.0000, 1.5708])
    """


@elementwise(
    formula="acos(input)",
    derivative="-g * rsqrt((1 - input) * (1 + input))",
    promote="float",
    method=True,
    inplace="function",
    cast={"cuda": "wide"},
)
def acos(input: Array) -> Array:
    """The angle in [0, pi] with this cosine; NaN outside [-1, 1].

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.acos(tensor([0.0, 1.0]))
    tensor([1.5708, 0.0000])
    """


@elementwise(
    formula="atan(input)", derivative="g / (input * input + 1)", promote="float", method=True, inplace="function"
)
def atan(input: Array) -> Array:
    """The angle in (-pi/2, pi/2) with this tangent.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.atan(tensor([0.0, 1.0]))
    tensor([0.0000, 0.7854])
    """


@elementwise(
    formula="atan2(input, other)",
    derivative=(
        "where(input * input + other * other == 0, 0.0, g * other / (input * input + other * other))",
        "where(input * input + other * other == 0, 0.0, -g * input / (input * input + other * other))",
    ),
    promote="float",
    method=True,
    inplace=True,
    tensors="input other",
    cast={"cuda": "widest"},
)
def atan2(input: Array, other: Array) -> Array:
    """The angle in [-pi, pi] of the point with y `input` and x `other`; gradient 0 at the origin.

    Args:
        input, other: tensors; they broadcast.
    Returns:
        A floating tensor of the broadcast shape.

    >>> dynograd.atan2(tensor([1.0, 0.0]), tensor([1.0, -1.0]))
    tensor([0.7854, 3.1416])
    """


@elementwise(
    formula="hypot(input, other)",
    derivative=("g * (input / output)", "g * (other / output)"),
    promote="float",
    method=True,
    inplace=True,
    tensors="input other",
)
def hypot(input: Array, other: Array) -> Array:
    """The long side of a right triangle: `sqrt(input**2 + other**2)` without overflow.

    Args:
        input, other: tensors; they broadcast.
    Returns:
        A floating tensor of the broadcast shape.

    >>> dynograd.hypot(tensor([3.0]), tensor([4.0]))
    tensor([5.])
    """


@elementwise(
    formula="input == 0 ? 1 : sin(pi * input) / (pi * input)",
    derivative="where(input == 0, 0.0, g * (cos(input * 3.141592653589793) - sinc(input)) / where(input == 0, 1.0, input))",
    promote="float",
    method=True,
    inplace="function",
)
def sinc(input: Array) -> Array:
    """`sin(pi * input) / (pi * input)`, 1 at 0.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.sinc(tensor([0.0, 0.5]))
    tensor([1.0000, 0.6366])
    """


@composed(method=True, inplace="function")
def deg2rad(input: Any) -> Array:
    """Degrees as radians.

    Args:
        input: tensor of any shape, in degrees.
    Returns:
        A floating tensor of the shape of `input`, in radians.

    >>> dynograd.deg2rad(tensor([180.0]))
    tensor([3.1416])
    """
    return input * 0.017453292519943295


@composed(method=True, inplace="function")
def rad2deg(input: Any) -> Array:
    """Radians as degrees.

    Args:
        input: tensor of any shape, in radians.
    Returns:
        A floating tensor of the shape of `input`, in degrees.

    >>> dynograd.rad2deg(tensor([3.141592653589793]))
    tensor([180.])
    """
    return input * 57.29577951308232
