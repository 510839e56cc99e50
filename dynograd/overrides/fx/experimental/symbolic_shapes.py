"""`torch.fx.experimental.symbolic_shapes` for programs that ask: sizes are numbers here, so every answer is known."""

from __future__ import annotations

from typing import Any

__all__ = [
    "GuardOnDataDependentSymNode",
    "free_symbols",
    "free_unbacked_symbols",
    "guard_or_false",
    "guard_or_true",
    "guard_size_oblivious",
    "has_free_symbols",
    "is_concrete_bool",
    "is_concrete_int",
    "statically_known_false",
    "statically_known_true",
    "sym_eq",
]


class GuardOnDataDependentSymNode(RuntimeError):
    """Never raised: there are no symbols."""


def free_symbols(val: Any) -> set:
    """The symbols in a size: none.

    >>> from dynograd.fx.experimental.symbolic_shapes import free_symbols, guard_or_false
    >>> free_symbols(3), guard_or_false(2 > 1)
    (set(), True)
    """
    return set()


free_unbacked_symbols = free_symbols


def has_free_symbols(val: Any) -> bool:
    return False


def guard_or_false(a: Any) -> bool:
    """The answer itself, which is known."""
    return bool(a)


guard_or_true = guard_size_oblivious = statically_known_true = guard_or_false


def statically_known_false(x: Any) -> bool:
    return not x


def is_concrete_bool(a: Any) -> bool:
    return True


is_concrete_int = is_concrete_bool


def sym_eq(x: Any, y: Any) -> bool:
    return bool(x == y)
