"""Sums of a tensor and something scaled: `addcmul`, `addcdiv`, `lerp`."""

from __future__ import annotations

from typing import Any

from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.errors import DtypeError
from dynograd.ops.elementwise.arithmetic import is_whole
from dynograd.ops.op import composed, elementwise

__all__ = ["addcdiv", "addcmul", "lerp"]


@elementwise(
    name="addcmul",
    formula="input + value * tensor1 * tensor2",
    derivative=("g", "g * (tensor2 * value)", "g * (tensor1 * value)"),
    inplace=True,
    tensors="input tensor1 tensor2",
    cast={"cuda": "widest"},
)
def add_product(input: Array, tensor1: Array, tensor2: Array, value: float) -> Array:
    """`input + value * tensor1 * tensor2`, broadcast and promoted."""


@composed(covers="addcmul", method=True, direct=True)
def addcmul(input: Any, tensor1: Any, tensor2: Any, tensor3: Any = None, *, value: Any = 1) -> Array:
    """`input + value * tensor1 * tensor2`, broadcast and promoted. The old form `addcmul(input, value, tensor1, tensor2)` works too.

    Args:
        input, tensor1, tensor2: tensors; they broadcast.
        tensor3: only in the old form.
        value: number that the product is multiplied by.
    Returns:
        A tensor of the broadcast shape, in the promoted dtype.

    >>> dynograd.addcmul(tensor([1.0]), tensor([2.0]), tensor([3.0]), value=0.5)
    tensor([4.])
    """
    if tensor3 is not None:
        value, tensor1, tensor2 = tensor1, tensor2, tensor3
    elif isinstance(tensor1, (int, float, complex)):
        raise TypeError(
            f"addcmul(): argument 'tensor1' must be Tensor, not {type(tensor1).__name__}. Make one with dynograd.tensor(...)."
        )
    return add_product(input, tensor1, tensor2, value)


@elementwise(
    name="addcdiv",
    formula="input + value * tensor1 / tensor2",
    derivative=("g", "g * value / tensor2", "-g * value * tensor1 / (tensor2 * tensor2)"),
    promote="float",
    inplace=True,
    tensors="input tensor1 tensor2",
    cast={"cuda": "widest"},
)
def add_quotient(input: Array, tensor1: Array, tensor2: Array, value: float) -> Array:
    """`input + value * tensor1 / tensor2`, broadcast and promoted."""


@composed(covers="addcdiv", method=True, direct=True)
def addcdiv(input: Any, tensor1: Any, tensor2: Any, tensor3: Any = None, *, value: Any = 1) -> Array:
    """`input + value * tensor1 / tensor2`, broadcast and promoted. The old form `addcdiv(input, value, tensor1, tensor2)` works too.

    Args:
        input, tensor1, tensor2: tensors; they broadcast.
        tensor3: only in the old form.
        value: number that the quotient is multiplied by.
    Returns:
        A tensor of the broadcast shape, in the promoted dtype.
    Raises:
        DtypeError: `tensor1` and `tensor2` are both integers.

    >>> dynograd.addcdiv(tensor([1.0]), tensor([3.0]), tensor([2.0]))
    tensor([2.5000])
    """
    if tensor3 is not None:
        value, tensor1, tensor2 = tensor1, tensor2, tensor3
    elif isinstance(tensor1, (int, float, complex)):
        raise TypeError(
            f"addcdiv(): argument 'tensor1' must be Tensor, not {type(tensor1).__name__}. Make one with dynograd.tensor(...)."
        )
    if is_whole(tensor1) and is_whole(tensor2):
        raise DtypeError(
            f"addcdiv: Integer division with addcdiv is not supported, got tensor1 of {_dtype_of(tensor1)} and tensor2 of "
            f"{_dtype_of(tensor2)}. Use tensor1.float()."
        )
    return add_quotient(input, tensor1, tensor2, value)


def _dtype_of(value: Any) -> dtypes.dtype | str:
    return dtypes.of_array(getattr(value, "array", value)) if hasattr(value, "shape") else type(value).__name__


@elementwise(
    formula="abs(weight) < 0.5 ? input + weight * (end - input) : end - (end - input) * (1 - weight)",
    derivative=("g - g * weight", "g * weight", "g * (end - input)"),
    promote="float",
    method=True,
    inplace=True,
    tensors="input end",
)
def lerp(input: Array, end: Array, weight: Array) -> Array:
    """`input + weight * (end - input)`: `input` at weight 0, `end` at 1.

    Args:
        input, end: tensors of one dtype; they broadcast.
        weight: tensor or number.
    Returns:
        A floating tensor of the broadcast shape.

    >>> dynograd.lerp(tensor([1.0, 2.0]), tensor([3.0, 6.0]), 0.5)
    tensor([2., 4.])
    """
