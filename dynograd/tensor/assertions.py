"""Checks that programs write beside their code (`torch._check`), and numbers that might be symbols elsewhere (`torch.SymInt`)."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

from dynograd.interpreter.override_protocol import OVERRIDING, dispatch

__all__ = [
    "SymBool",
    "SymFloat",
    "SymInt",
    "sym_float",
    "sym_int",
    "sym_ite",
    "sym_max",
    "sym_min",
    "sym_not",
    "sym_sqrt",
    "sym_sum",
]


def _check_with(error: type[Exception], cond: Any, message: Callable[[], object] | None = None) -> None:
    """Raises `error` unless `cond`; the message is made only then."""
    if not isinstance(cond, bool) and not hasattr(cond, "dtype"):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if cond:
        return
    if message is not None and not callable(message):
        raise TypeError("message must be a callable")
    raise error("Expected cond to be True, but got False." if message is None else str(message()))


def _check(cond: Any, message: Callable[[], object] | None = None) -> None:
    """Raises RuntimeError unless `cond`.

    >>> dynograd._check(1 + 1 == 3, lambda: "arithmetic is broken")
    Traceback (most recent call last):
    RuntimeError: arithmetic is broken
    """
    _check_with(RuntimeError, cond, message)


def _check_index(cond: Any, message: Callable[[], object] | None = None) -> None:
    """Raises IndexError unless `cond`."""
    _check_with(IndexError, cond, message)


def _check_value(cond: Any, message: Callable[[], object] | None = None) -> None:
    """Raises ValueError unless `cond`."""
    _check_with(ValueError, cond, message)


def _check_type(cond: Any, message: Callable[[], object] | None = None) -> None:
    """Raises TypeError unless `cond`."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: Any, message: Callable[[], object] | None = None) -> None:
    """Raises NotImplementedError unless `cond`."""
    _check_with(NotImplementedError, cond, message)


def _check_tensor_all_with(error: type[Exception], cond: Any, message: Callable[[], object] | None = None) -> None:
    """Raises `error` unless all elements of a bool tensor are true."""
    if getattr(cond, "dtype", None) is None or not str(cond.dtype).endswith("bool"):
        raise TypeError(f"cond must be a tensor of dtype bool, got {type(cond).__name__}")
    _check_with(error, bool(cond.all()), message)


def _check_tensor_all(cond: Any, message: Callable[[], object] | None = None) -> None:
    """Raises RuntimeError unless all elements of a bool tensor are true."""
    _check_tensor_all_with(RuntimeError, cond, message)


def _check_is_size(i: int, message: Callable[[], object] | None = None, *, max: int | None = None) -> None:
    """Raises RuntimeError unless 0 <= i (<= max)."""
    _check(i >= 0, message)
    _check(max is None or i <= max, message)


def _assert(condition: Any, message: str) -> None:
    """`assert condition, message`, also when Python leaves assertions out."""
    if type(condition) in OVERRIDING:
        dispatch(_assert, [condition], (condition, message), {})
    elif not condition:
        raise AssertionError(message)


class _Number:
    """Sizes are plain numbers here; the class is for `isinstance`, which says False of them."""

    __slots__ = ()

    def __init__(self, node: object = None) -> None:
        raise TypeError(f"{type(self).__name__}: sizes are plain numbers here, never symbols. Use the number itself.")


class SymInt(_Number):
    """A size that is no number: here that of a ragged dim, in PyTorch also every one while it traces.

    Args:
        node: not used.
    Raises:
        TypeError: always: other sizes are plain numbers here.

    >>> isinstance(tensor([1]).shape[0], dynograd.SymInt)
    False
    >>> isinstance(dynograd.ragged_tensor([[1], [2, 3]]).shape[1], dynograd.SymInt)
    True
    """

    __slots__ = ()


class SymFloat(_Number):
    """What a float is while PyTorch traces; nothing is of it here.

    Args:
        node: not used.
    Raises:
        TypeError: always: sizes are plain numbers here.

    >>> isinstance(2.0, dynograd.SymFloat)
    False
    """


class SymBool(_Number):
    """What a comparison is while PyTorch traces; nothing is of it here.

    Args:
        node: not used.
    Raises:
        TypeError: always: sizes are plain numbers here.

    >>> isinstance(1 < 2, dynograd.SymBool)
    False
    """


def sym_int(a: Any) -> int:
    """`int(a)`.

    Args:
        a: number.
    Returns:
        An int.

    >>> dynograd.sym_int(3.7)
    3
    """
    return int(a)


def sym_float(a: Any) -> float:
    """`float(a)`.

    Args:
        a: number.
    Returns:
        A float.

    >>> dynograd.sym_float(3)
    3.0
    """
    return float(a)


def sym_not(a: Any) -> bool:
    """`not a`.

    Args:
        a: a truth value.
    Returns:
        A bool.

    >>> dynograd.sym_not(True)
    False
    """
    return not a


def sym_max(a: Any, b: Any) -> Any:
    """The larger one, as a float if one of them is.

    Args:
        a, b (number): numbers.
    Returns:
        A number.

    >>> dynograd.sym_max(2, 1.0)
    2.0
    """
    larger = builtins.max(a, b)
    return float(larger) if isinstance(a, float) or isinstance(b, float) else larger


def sym_min(a: Any, b: Any) -> Any:
    """The smaller one, as a float if one of them is.

    Args:
        a, b (number): numbers.
    Returns:
        A number.

    >>> dynograd.sym_min(1, 2.5)
    1.0
    """
    smaller = builtins.min(a, b)
    return float(smaller) if isinstance(a, float) or isinstance(b, float) else smaller


def sym_sum(args: Any) -> Any:
    """The sum of some numbers.

    >>> dynograd.sym_sum([1, 2, 3])
    6
    """
    return builtins.sum(args)


def sym_ite(b: bool, t: Any, f: Any) -> Any:
    """`t if b else f`.

    Args:
        b (bool): the condition.
        t, f: the two values.
    Returns:
        One of the two.

    >>> dynograd.sym_ite(True, 1, 2)
    1
    """
    return t if b else f


def sym_sqrt(a: Any) -> float:
    """The square root.

    Args:
        a: number of at least 0.
    Returns:
        A float.

    >>> dynograd.sym_sqrt(9)
    3.0
    """
    return math.sqrt(a)
