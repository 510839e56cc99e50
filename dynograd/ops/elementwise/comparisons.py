"""Comparisons and questions with the answers true and false, and logic on such answers. Nothing here has a gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

from dynograd.arrays import Array, item
from dynograd.base import dtypes
from dynograd.errors import DtypeError
from dynograd.ops.elementwise.arithmetic import abs, mul, sub
from dynograd.ops.layout.broadcasting import convert
from dynograd.ops.op import composed, elementwise, shortcut
from dynograd.ops.reduce.reductions import all
from dynograd.ops.row import Row

__all__ = [
    "allclose",
    "eq",
    "equal",
    "ge",
    "gt",
    "isclose",
    "isfinite",
    "isinf",
    "isnan",
    "le",
    "logical_not",
    "lt",
    "ne",
]


def _comparison(symbol: str, **row: Unpack[Row]) -> Callable[..., Any]:
    row["tensors"] = "input"
    formula = f"input {symbol} other"
    return elementwise(formula=formula, derivative=None, promote="compare", method=True, inplace=True, **row)


@_comparison("==", float8=True)
def eq(input: Array, other: Array) -> Array:
    """Where `input` equals `other`; NaN equals nothing.

    Args:
        input: tensor of any shape.
        other: tensor or number.
    Returns:
        A bool tensor of the broadcast shape.

    >>> dynograd.eq(tensor([1, 2]), tensor([1, 3]))
    tensor([ True, False])
    """


@_comparison("!=", float8=True)
def ne(input: Array, other: Array) -> Array:
    """Where `input` differs from `other`.

    Args:
        input, other: tensors, or one of them a number; they broadcast.
    Returns:
        A bool tensor of the broadcast shape.

    >>> dynograd.ne(tensor([1, 2]), 1)
    tensor([False,  True])
    """


@_comparison("<", ordered=True)
def lt(input: Array, other: Array) -> Array:
    """Where `input` is less than `other`.

    Args:
        input, other: tensors, or one of them a number; they broadcast.
    Returns:
        A bool tensor of the broadcast shape.

    >>> dynograd.lt(tensor([1, 2]), 2)
    tensor([ True, False])
    """


@_comparison("<=", ordered=True)
def le(input: Array, other: Array) -> Array:
    """Where `input` is at most `other`.

    Args:
        input, other: tensors, or one of them a number; they broadcast.
    Returns:
        A bool tensor of the broadcast shape.

    >>> dynograd.le(tensor([1, 2]), 1)
    tensor([ True, False])
    """


@_comparison(">", ordered=True)
def gt(input: Array, other: Array) -> Array:
    """Where `input` is greater than `other`.

    Args:
        input, other: tensors, or one of them a number; they broadcast.
    Returns:
        A bool tensor of the broadcast shape.

    >>> dynograd.gt(tensor([1, 2]), 1)
    tensor([False,  True])
    """


@_comparison(">=", ordered=True)
def ge(input: Array, other: Array) -> Array:
    """Where `input` is at least `other`.

    Args:
        input, other: tensors, or one of them a number; they broadcast.
    Returns:
        A bool tensor of the broadcast shape.

    >>> dynograd.ge(tensor([1, 2]), 2)
    tensor([False,  True])
    """


def _question(formula: str, **row: Unpack[Row]) -> Callable[..., Any]:
    return elementwise(formula=formula, derivative=None, promote="compare", method=True, **row)


@_question("input != input", out=None, float8=True)
def isnan(input: Array) -> Array:
    """Where `input` is NaN.

    Args:
        input: tensor of any shape and dtype.
    Returns:
        A bool tensor of the shape of `input`.

    >>> dynograd.isnan(tensor([1.0, float("nan")]))
    tensor([False,  True])
    """


@_question("abs(input) == inf", out=None, float8=True)
def isinf(input: Array) -> Array:
    """Where `input` is infinite.

    Args:
        input: tensor of any shape and dtype.
    Returns:
        A bool tensor of the shape of `input`.

    >>> dynograd.isinf(tensor([1.0, float("-inf")]))
    tensor([False,  True])
    """


@_question("abs(input) < inf", out=None, float8=True)
def isfinite(input: Array) -> Array:
    """Where `input` is neither infinite nor NaN.

    Args:
        input: tensor of any shape and dtype.
    Returns:
        A bool tensor of the shape of `input`.

    >>> dynograd.isfinite(tensor([1.0, float("inf"), float("nan")]))
    tensor([ True, False, False])
    """


@_question("input == inf", out="exact", ordered=True)
def isposinf(input: Array) -> Array:
    """Where `input` is plus infinity.

    Args:
        input: tensor of any shape and dtype.
    Returns:
        A bool tensor of the shape of `input`.

    >>> dynograd.isposinf(tensor([float("inf"), float("-inf")]))
    tensor([ True, False])
    """


@_question("input == -inf", out="exact", ordered=True)
def isneginf(input: Array) -> Array:
    """Where `input` is minus infinity.

    Args:
        input: tensor of any shape and dtype.
    Returns:
        A bool tensor of the shape of `input`.

    >>> dynograd.isneginf(tensor([float("inf"), float("-inf")]))
    tensor([False,  True])
    """


@_question("signbit(input)", out="exact")
def signbit(input: Array) -> Array:
    """Where `input` carries a minus sign, -0.0 included.

    Args:
        input: tensor of any shape and dtype.
    Returns:
        A bool tensor of the shape of `input`.

    >>> dynograd.signbit(tensor([-0.0, 0.0]))
    tensor([ True, False])
    """


def _logic(formula: str, **row: Unpack[Row]) -> Callable[..., Any]:
    return elementwise(formula=formula, derivative=None, promote="logical", method=True, inplace=True, **row)


@_logic("input && other", tensors="input other")
def logical_and(input: Array, other: Array) -> Array:
    """Where both are true (not 0).

    Args:
        input, other: tensors; they broadcast.
    Returns:
        A bool tensor of the broadcast shape.

    >>> dynograd.logical_and(tensor([True, True]), tensor([True, False]))
    tensor([ True, False])
    """


@_logic("input || other", tensors="input other")
def logical_or(input: Array, other: Array) -> Array:
    """Where at least one is true (not 0).

    Args:
        input, other: tensors; they broadcast.
    Returns:
        A bool tensor of the broadcast shape.

    >>> dynograd.logical_or(tensor([True, False]), tensor([False, False]))
    tensor([ True, False])
    """


@_logic("!input != !other", tensors="input other")
def logical_xor(input: Array, other: Array) -> Array:
    """Where exactly one is true (not 0).

    Args:
        input, other: tensors; they broadcast.
    Returns:
        A bool tensor of the broadcast shape.

    >>> dynograd.logical_xor(tensor([True, True]), tensor([True, False]))
    tensor([False,  True])
    """


@_logic("!input")
def logical_not(input: Array) -> Array:
    """Where `input` is false (0).

    Args:
        input: tensor of any shape and dtype.
    Returns:
        A bool tensor of the shape of `input`.

    >>> dynograd.logical_not(tensor([2.0, 0.0]))
    tensor([False,  True])
    """


@composed(method=True, out=None)
def isclose(input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Array:
    """Where `abs(input - other) <= atol + rtol * abs(other)`; infinities are close when they are equal.

    Args:
        input, other: tensors of one dtype; they broadcast.
        rtol, atol: relative and absolute tolerance, at least 0.
        equal_nan: whether NaN is close to NaN.
    Returns:
        A bool tensor of the broadcast shape.
    Raises:
        DtypeError: the dtypes differ.
        RuntimeError: a negative tolerance.

    >>> dynograd.isclose(tensor([1.0, 1.1]), tensor([1.0, 1.0]))
    tensor([ True, False])
    """
    for name, value in (("input", input), ("other", other)):
        if not hasattr(value, "dtype"):
            raise TypeError(f"isclose(): argument '{name}' must be Tensor, not {type(value).__name__} ({value!r}).")
    first, second = (dtypes.of_array(getattr(value, "array", value)) for value in (input, other))
    if first is not second:
        raise DtypeError(
            f"isclose: input is {first} but other is {second}. Convert one of them, e.g. other.to({first})."
        )
    for name, value in (("rtol", rtol), ("atol", atol)):
        if value < 0:
            raise RuntimeError(f"isclose: {name} must be greater than or equal to zero, but got {value}.")
    close = eq(input, other)
    if equal_nan:
        close = logical_or(close, logical_and(isnan(input), isnan(other)))
    if rtol == 0 and atol == 0:
        return close
    if first.category < dtypes.FLOATING:
        input, other = (convert(value, dtypes.float64) for value in (input, other))
    distance = abs(sub(input, other))
    allowed = abs(mul(other, rtol)) + atol
    return logical_or(close, logical_and(isfinite(distance), le(distance, allowed)))


@composed(method=True, out=None)
def allclose(input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether all elements are close; see `isclose`.

    Args:
        input, other: tensors of one dtype; they broadcast.
        rtol, atol: relative and absolute tolerance, at least 0.
        equal_nan: whether NaN is close to NaN.
    Returns:
        A bool.

    >>> dynograd.allclose(tensor([1.0]), tensor([1.0 + 1e-9]))
    True
    """
    return _truth(all(isclose(input, other, rtol, atol, equal_nan)))


def _quick_equal(compute: Any, input: Any, other: Any) -> object:
    return compute(input, other)


@composed(method=True, out=None)
@shortcut(None, _quick_equal, compute="few.equal", beside="input other", raw=True)
def equal(input: Any, other: Any) -> bool:
    """Whether shapes and all elements are equal.

    Args:
        input, other: tensors.
    Returns:
        A bool.

    >>> dynograd.equal(tensor([1, 2]), tensor([1, 2]))
    True
    """
    return tuple(input.shape) == tuple(other.shape) and _truth(all(eq(input, other)))


def _truth(answer: Any) -> bool:
    return bool(item(getattr(answer, "array", answer)))
