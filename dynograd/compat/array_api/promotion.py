"""The standard's promotion of dtypes: tensors without dimensions count like any other, Python numbers take the tensor's dtype.

(PyTorch lets tensors with dimensions beat those without.) Mixed kinds, which the standard leaves open, go PyTorch's way.
"""

from __future__ import annotations

import functools
from typing import Any

from dynograd.base import dtypes
from dynograd.base.dtypes import dtype, promote_types
from dynograd.ops.layout.broadcasting import convert
from dynograd.tensor.creation import tensor
from dynograd.tensor.tensor import Tensor

__all__ = ["can_cast", "result_type"]


def result_type(*arrays_and_dtypes: Tensor | dtype | complex) -> dtype:
    """The dtype in which these tensors, dtypes and Python numbers meet.

    Args:
        arrays_and_dtypes: tensors, dtypes and Python numbers.
    Returns:
        A dtype.
    Raises:
        TypeError: no tensor or dtype among them.
        DtypeError: uint64 beside a signed integer dtype.

    >>> xp.result_type(xp.asarray([1.0]), xp.float64, 2)
    dynograd.float64
    """
    kinds, numbers = [], []
    for argument in arrays_and_dtypes:
        if isinstance(argument, Tensor):
            kinds.append(argument.dtype)
        elif isinstance(argument, dtype):
            kinds.append(argument)
        elif isinstance(argument, (bool, int, float, complex)):
            numbers.append(argument)
        else:
            raise TypeError(
                f"result_type: expected tensors, dtypes and Python numbers, got {type(argument).__name__} {argument!r}. Use asarray()."
            )
    if not kinds:
        raise TypeError(
            f"result_type: at least one tensor or dtype is required, got {arrays_and_dtypes}. Make one with asarray()."
        )
    return functools.reduce(_beside_number, numbers, functools.reduce(promote_types, kinds))


def can_cast(from_: dtype | Tensor, to: dtype, /) -> bool:
    """Whether promotion takes `from_` (a dtype or a tensor) to `to`.

    Args:
        from_: a dtype or a tensor.
        to: a dtype.
    Returns:
        True or False.

    >>> xp.can_cast(xp.int8, xp.int32), xp.can_cast(xp.int32, xp.int8), xp.can_cast(xp.uint64, xp.int64)
    (True, False, False)
    """
    source = from_.dtype if isinstance(from_, Tensor) else from_
    try:
        return promote_types(source, to) is to
    except dtypes.DtypeError:
        return False


def in_dtype(x: Tensor, kind: dtype) -> Tensor:
    """`x` in `kind`; itself when it has it."""
    return x if x.dtype is kind else convert(x, kind)


def promoted(*values: Any) -> tuple[Any, ...]:
    """The operands of an elementwise function: tensors in their common dtype, numbers as they are."""
    kinds = [value.dtype for value in values if isinstance(value, Tensor)]
    kind = kinds[0] if len(kinds) == len(values) and len({id(dtype) for dtype in kinds}) == 1 else result_type(*values)
    return tuple([in_dtype(value, kind) if isinstance(value, Tensor) else value for value in values])


def tensors(*values: Any) -> tuple[Tensor, ...]:
    """As `promoted`, with numbers as tensors without dimensions."""
    kind = result_type(*values)
    place = next(value.device for value in values if isinstance(value, Tensor))
    return tuple(
        [
            in_dtype(value, kind) if isinstance(value, Tensor) else tensor(value, dtype=kind, device=place)
            for value in values
        ]
    )


def _beside_number(kind: dtype, number: Any) -> dtype:
    other = dtypes.of_scalar(number)
    if other.category <= kind.category:
        return kind
    return kind.to_complex() if other.category == dtypes.COMPLEX and kind.is_floating_point else other
