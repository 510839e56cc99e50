"""Logic on the bits of integers (on bools, plain logic), and shifts. Nothing here has a gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynograd.arrays import Array
from dynograd.ops.op import elementwise

__all__ = ["bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor"]


def _bitwise(formula: str) -> Callable[..., Any]:
    return elementwise(formula=formula, derivative=None, promote="integer", method=True, inplace=True)


@_bitwise("input & other")
def bitwise_and(input: Array, other: Array) -> Array:
    """The bits set in both.

    Args:
        input, other: tensors of integers or bools, or numbers; they broadcast.
    Returns:
        A tensor of the broadcast shape, in the promoted dtype.
    Raises:
        DtypeError: a floating-point tensor.

    >>> dynograd.bitwise_and(tensor([5, 6]), 4)
    tensor([4, 4])
    """


@_bitwise("input | other")
def bitwise_or(input: Array, other: Array) -> Array:
    """The bits set in at least one.

    Args:
        input, other: tensors of integers or bools, or numbers; they broadcast.
    Returns:
        A tensor of the broadcast shape, in the promoted dtype.
    Raises:
        DtypeError: a floating-point tensor.

    >>> dynograd.bitwise_or(tensor([5, 2]), tensor([2, 2]))
    tensor([7, 2])
    """


@_bitwise("input ^ other")
def bitwise_xor(input: Array, other: Array) -> Array:
    """The bits set in exactly one.

    Args:
        input, other: tensors of integers or bools, or numbers; they broadcast.
    Returns:
        A tensor of the broadcast shape, in the promoted dtype.
    Raises:
        DtypeError: a floating-point tensor.

    >>> dynograd.bitwise_xor(tensor([5, 2]), tensor([1, 2]))
    tensor([4, 0])
    """


@_bitwise("~input")
def bitwise_not(input: Array) -> Array:
    """All bits turned over.

    Args:
        input: tensor of integers or bools, of any shape.
    Returns:
        A tensor of the shape and dtype of `input`.
    Raises:
        DtypeError: a floating-point tensor.

    >>> dynograd.bitwise_not(tensor([True, False]))
    tensor([False,  True])
    """


@_bitwise("input << other")
def bitwise_left_shift(input: Array, other: Array) -> Array:
    """`input * 2 ** other`, as bits; 0 when everything is shifted out.

    Args:
        input, other: tensors of integers or bools, or numbers; they broadcast.
    Returns:
        A tensor of the broadcast shape, in the promoted dtype.
    Raises:
        DtypeError: a floating-point tensor.

    >>> dynograd.bitwise_left_shift(tensor([1, 3]), 2)
    tensor([ 4, 12])
    """


@_bitwise("input >> other")
def bitwise_right_shift(input: Array, other: Array) -> Array:
    """`input // 2 ** other`.

    Args:
        input, other: tensors of integers or bools, or numbers; they broadcast.
    Returns:
        A tensor of the broadcast shape, in the promoted dtype.
    Raises:
        DtypeError: a floating-point tensor.

    >>> dynograd.bitwise_right_shift(tensor([8, -8]), 1)
    tensor([ 4, -4])
    """
