"""One value or another, element by element: `where`, `masked_fill`, `clamp`."""

from __future__ import annotations

from typing import Any

from dynograd import arrays
from dynograd.arrays import Array, literals
from dynograd.base import dtypes
from dynograd.errors import DtypeError, ShapeError
from dynograd.ops.layout.broadcasting import convert
from dynograd.ops.layout.conversions import copied
from dynograd.ops.op import composed, elementwise, shortcut

__all__ = ["clamp", "clamp_max", "clamp_min", "clip", "masked_fill", "where"]

places: list[Any] = []  # filled by `lookups` with its `nonzero`


@elementwise(
    name="where",
    formula="condition ? input : other",
    derivative=(None, "where(condition, g, 0.0)", "where(condition, 0.0, g)"),
    promote="select",
)
def choose(condition: Array, input: Array, other: Array) -> Array:
    """`input` where `condition` is true, `other` elsewhere."""


@composed(covers="where")
def where(condition: Any, input: Any = None, other: Any = None) -> Array | tuple[Array, ...]:
    """`input` where `condition` is true, `other` elsewhere; all three broadcast. Without them, the indices of the true elements.

    The gradient is exactly 0 on the side that was not chosen, even where that side is infinite or NaN.

    Args:
        condition: bool tensor.
        input, other: tensors or numbers.
    Returns:
        the promoted dtype of `input` and `other`; with one argument, a tuple of index tensors, one per dim.
    Raises:
        DtypeError: `condition` is not a bool tensor.
        TypeError: only one of `input` and `other` is given.

    >>> dynograd.where(tensor([True, False]), tensor([1.0, 2.0]), 0.0)
    tensor([1., 0.])
    """
    if input is None and other is None:
        return places[0](condition, as_tuple=True)
    if input is None or other is None:
        raise TypeError(
            "where: expected (condition) or (condition, input, other), got one of input and other. Give both."
        )
    return choose(condition, input, other)


@composed(method="where")
def where_of(input: Any, condition: Any, other: Any) -> Array:
    """`input` where `condition` is true, `other` elsewhere: the method `input.where(condition, other)`.

    Args:
        input: what is taken where the condition is true.
        condition: bool tensor, broadcast with `input`.
        other: tensor or number, what is taken elsewhere.
    Returns:
        A tensor of the broadcast shape, in the promoted dtype.

    >>> tensor([1, 2]).where(tensor([True, False]), 9)
    tensor([1, 9])
    """
    return choose(condition, input, other)


def _quick_masked_fill(compute: Any, input: Any, mask: Any, value: Any) -> object:
    if input.size < 4096 and mask.shape == input.shape and type(value) in (int, float):
        return compute(input, mask, value)
    return None


@composed(method=True, inplace=True, out=None, refills=True)
@shortcut(None, _quick_masked_fill, compute="writes.mask_filled", beside="input mask")
def masked_fill(input: Any, mask: Any, value: Any) -> Array:
    """`value` where `mask` is true, `input` elsewhere, in `input`'s dtype.

    Args:
        input: tensor of any shape.
        mask: bool tensor, broadcast with `input`.
        value: number or tensor without dims.
    Returns:
        A tensor of the broadcast shape, in `input`'s dtype.
    Raises:
        DtypeError: `mask` is not bool, or `value` does not fit into `input`'s dtype.
        ShapeError: `value` has dims.

    >>> tensor([1.0, 2.0]).masked_fill(tensor([True, False]), float("-inf"))
    tensor([-inf, 2.])
    """
    input = copied(input) if _is_turned(input) else input  # the result is row-major, as PyTorch's is
    return _filled(input, copied(mask) if _is_turned(mask) else mask, value)


def _is_turned(tensor: Any) -> bool:
    """Whether its elements lie in memory in another order than row by row, as far as that is known."""
    array = getattr(tensor, "array", tensor)
    if type(array) is arrays.ndarray:
        return array.ndim > 1 and not array.flags.c_contiguous
    return getattr(array, "is_in_order", True) is False and array.ndim > 1


def _filled(input: Any, mask: Any, value: Any) -> Array:
    kind = dtypes.of_array(getattr(input, "array", input))
    mask_kind = dtypes.of_array(getattr(mask, "array", mask))
    if mask_kind is not dtypes.bool:
        raise DtypeError(
            f"masked_fill: expected mask to be a boolean tensor, got {mask_kind}. Use mask.bool() or a comparison."
        )
    if not hasattr(value, "shape"):
        return choose(mask, _fitting(value, kind), input)
    if len(value.shape):
        raise ShapeError(
            f"masked_fill: expected value to be a number or a 0-dimensional tensor, got shape {tuple(value.shape)}. "
            f"Use where(mask, value, input) for several values."
        )
    if kind.category < dtypes.COMPLEX and kind is not dtypes.bool and getattr(value, "array", value).dtype.kind == "c":
        raise DtypeError(
            f"masked_fill: value is complex and cannot be converted to {kind} without overflow. Use value.real."
        )
    return choose(mask, convert(value, kind), input)


@composed(out=None)
def fill(input: Any, value: Any) -> Array:
    """A tensor like `input` of which every element is `value`, a number or a tensor without dims.

    Args:
        input: tensor of any shape.
        value: number, or tensor without dims.
    Returns:
        A tensor of the shape and dtype of `input`.

    >>> dynograd.fill(tensor([1, 2]), 7)
    tensor([7, 7])
    """
    raw = getattr(input, "array", input)
    if not hasattr(value, "shape"):
        value = literals.fitting(value, dtypes.of_array(raw), raw.size)
    return _filled(input, arrays.to_device(arrays.from_python(True, dtypes.bool), arrays.place_of(raw)), value)


def _fitting(value: Any, kind: dtypes.dtype) -> int | float | complex:
    """The number as one that does not change the dtype `kind` of what it is put into."""
    if kind.category == dtypes.COMPLEX:
        return value
    if kind is dtypes.bool:
        return bool(value)
    if isinstance(value, complex):
        raise DtypeError(
            f"masked_fill: value {value} cannot be converted to {kind} without overflow. Use a complex input."
        )
    return literals.fitting(value, kind)


@elementwise(
    name="clamp",
    formula="min(max(input, min), max)",
    derivative="where(within(input, min, max), g, 0.0)",
    inplace="function",
    ordered=True,
)
def clamp_numbers(input: Array, min: float | None, max: float | None) -> Array:
    """`input` between two numbers."""


@elementwise(formula="min <= input && input <= max", derivative=None, promote="compare")
def within(input: Array, min: float | None, max: float | None) -> Array:
    """Where `input` is neither below `min` nor above `max`, bounds included; None is no bound."""


@elementwise(
    formula="max(input, min)",
    derivative=("where(input >= min, g, 0.0)", "where(input < min, g, 0.0)"),
    method=True,
    inplace="function",
    tensors="input",
    ordered=True,
)
def clamp_min(input: Array, min: Array) -> Array:
    """`input`, and `min` where `input` is below it. At ties `input` gets the gradient.

    Args:
        input: tensor of any shape.
        min: tensor or number.
    Returns:
        A tensor of the broadcast shape, in the promoted dtype.

    >>> tensor([-1.0, 2.0]).clamp_min(0)
    tensor([0., 2.])
    """


@elementwise(
    formula="min(input, max)",
    derivative=("where(input <= max, g, 0.0)", "where(input > max, g, 0.0)"),
    method=True,
    inplace="function",
    tensors="input",
    ordered=True,
)
def clamp_max(input: Array, max: Array) -> Array:
    """`input`, and `max` where `input` is above it. At ties `input` gets the gradient.

    Args:
        input: tensor of any shape.
        max: tensor or number.
    Returns:
        A tensor of the broadcast shape, in the promoted dtype.

    >>> tensor([-1.0, 2.0]).clamp_max(0)
    tensor([-1.,  0.])
    """


@elementwise(
    formula="min(max(input, min), max)",
    derivative=(
        "where((input >= min) & (input <= max), g, 0.0)",
        "where((input < min) & (min < max), g, 0.0)",
        "where((input > max) | (max < min), g, 0.0)",
    ),
    ordered=True,
)
def clamp_between(input: Array, min: Array, max: Array) -> Array:
    """`input` between two tensors."""


@composed(covers="clamp", method=True, direct=True)
def clamp(input: Any, min: Any = None, max: Any = None) -> Array:
    """`input` with everything below `min` raised to it and everything above `max` lowered to it; NaN stays NaN.

    Where `min > max` the result is `max`. The gradient passes where `min <= input <= max`.

    Args:
        input: tensor of any shape.
        min, max: numbers or tensors, broadcast with `input`; None leaves that side open. Beside a number, a tensor without dims is a number.
    Returns:
        A tensor of the broadcast shape, in the promoted dtype.
    Raises:
        RuntimeError: both are None.
        TypeError: one is a number and the other a tensor with dims, or one that requires grad.

    >>> dynograd.clamp(tensor([-2.0, 0.5, 3.0]), min=0, max=1)
    tensor([0.0000, 0.5000, 1.0000])
    """
    if min is None and max is None:
        raise RuntimeError("clamp: At least one of 'min' or 'max' must not be None. Give a bound.")
    if hasattr(min, "shape") or hasattr(max, "shape"):
        if max is None:
            return clamp_min(input, min)
        if min is None:
            return clamp_max(input, max)
        if hasattr(min, "shape") and hasattr(max, "shape"):
            return clamp_between(input, min, max)
        min, max = _number_of(min, min, max), _number_of(max, min, max)
    array = getattr(input, "array", input)
    if array.dtype.kind != "c" and (isinstance(min, complex) or isinstance(max, complex)):
        raise DtypeError(f"clamp: the bounds {min} and {max} cannot be compared with {input.dtype}. Give real numbers.")
    if array.dtype.kind in "iub":
        floating = isinstance(min, float) or isinstance(max, float)
        if floating or array.dtype.kind == "b":
            input = convert(input, dtypes.get_default_dtype() if floating else dtypes.int64)
    return clamp_numbers(input, min, max)


@composed(method=True, inplace="function")
def clip(input: Any, min: Any = None, max: Any = None) -> Array:
    """Another name of `clamp`: everything below `min` is raised to it, everything above `max` lowered to it.

    Args:
        input: tensor of any shape.
        min, max: numbers or tensors, broadcast with `input`; None leaves that side open.
    Returns:
        A tensor of the broadcast shape, in the promoted dtype.

    >>> dynograd.clip(tensor([-2.0, 0.5, 3.0]), -1, 1)
    tensor([-1.0000,  0.5000,  1.0000])
    """
    return clamp(input, min, max)


def _number_of(bound: Any, min: Any, max: Any) -> complex | None:
    """A bound of `clamp` beside a number."""
    if not hasattr(bound, "shape"):
        return bound
    if bound.ndim or getattr(bound, "requires_grad", False):
        raise TypeError(
            f"clamp: expected min and max to be two numbers or two Tensors, got {type(min).__name__} and {type(max).__name__}. "
            f"Make the number a tensor."
        )
    return bound.item()
