"""Fills Tensor with its methods from the registry of ops, and Python's operators with the same functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynograd import ops as _ops
from dynograd.interpreter.dispatch import is_operand
from dynograd.interpreter.public_forms import method_form
from dynograd.ops.elementwise.complexes import PROPERTIES as WRITABLE
from dynograd.ops.layout.transposes import PROPERTIES
from dynograd.ops.op import registry
from dynograd.tensor.tensor import Tensor

__all__ = ["install_methods", "public_function", "public_functions"]

OPERATORS = {
    "__add__": "add",
    "__sub__": "sub",
    "__mul__": "mul",
    "__truediv__": "div",
    "__div__": "div",  # Python 2's name, which programs still call
    "__floordiv__": "floor_divide",
    "__mod__": "remainder",
    "__neg__": "neg",
    "__matmul__": "matmul",
    "__eq__": "eq",
    "__ne__": "ne",
    "__lt__": "lt",
    "__le__": "le",
    "__gt__": "gt",
    "__ge__": "ge",
    "__and__": "bitwise_and",
    "__or__": "bitwise_or",
    "__xor__": "bitwise_xor",
    "__invert__": "bitwise_not",
    "__lshift__": "bitwise_left_shift",
    "__rshift__": "bitwise_right_shift",
}
_REFLECTED = {
    "__radd__": "add",
    "__rsub__": "sub",
    "__rmul__": "mul",
    "__rtruediv__": "div",
    "__rdiv__": "div",
    "__rfloordiv__": "floor_divide",
    "__rmod__": "remainder",
    "__rmatmul__": "matmul",
    "__rpow__": "pow",
    "__rand__": "bitwise_and",
    "__ror__": "bitwise_or",
    "__rxor__": "bitwise_xor",
    "__rlshift__": "bitwise_left_shift",
    "__rrshift__": "bitwise_right_shift",
}

_COMMUTATIVE = ("__radd__", "__rmul__")  # these put the tensor first, also in the recorded graph

_REFLECTION = {
    "__eq__": "__eq__",
    "__ne__": "__ne__",
    "__lt__": "__gt__",
    "__le__": "__ge__",
    "__gt__": "__lt__",
    "__ge__": "__le__",
}
_NUMBERS = frozenset({bool, int, float, complex})


def public_functions() -> dict[str, Any]:
    """Every op's public function by name; a composed face (`add` with alpha) stands before the op it covers."""
    result = {name: entry.function for name, entry in registry.items() if not name.endswith(".public")}
    result |= {name[: -len(".public")]: entry.function for name, entry in registry.items() if name.endswith(".public")}
    return result


def public_function(name: str) -> Callable[..., Any]:
    """The public function of one op."""
    return (registry.get(f"{name}.public") or registry[name]).function


def install_methods() -> None:
    """Puts methods and operators on Tensor; called once, when `dynograd` is imported."""
    for entry in list(registry.values()):
        if entry.method:
            setattr(Tensor, entry.method if isinstance(entry.method, str) else entry.name, method_form(entry))
    for operator, name in OPERATORS.items():
        if name in registry:
            setattr(Tensor, operator, registry[name].function)
    for operator, name in {**OPERATORS, "__pow__": "pow"}.items():
        if name in registry and operator != "__div__" and len(registry[name].array_names) == 2:
            registry[name].reflected = _REFLECTION.get(operator, f"__r{operator[2:]}")
    for operator, name in _REFLECTED.items():
        if name in registry:
            setattr(Tensor, operator, _reflected(operator, registry[name].function, operator in _COMMUTATIVE))
    if "pow.public" in registry:
        Tensor.__pow__ = registry["pow.public"].function  # type: ignore[method-assign]
    Tensor.broadcast_to = registry["expand.public"].function  # type: ignore[method-assign]
    Tensor.__abs__ = registry["abs.public"].function  # type: ignore[method-assign]
    for operator in ("__eq__", "__ne__"):
        setattr(Tensor, operator, _comparable(getattr(Tensor, operator)))
    Tensor.__pos__ = registry["positive"].function  # type: ignore[method-assign]
    for name, function in PROPERTIES.items():
        setattr(Tensor, name, property(function))
    for name, (function, setter) in WRITABLE.items():
        setattr(Tensor, name, property(function, setter))
    Tensor.__hash__ = object.__hash__  # type: ignore[method-assign,assignment]


def _comparable(function: Any) -> Callable[..., Any]:
    """`==` and `!=` with what is no number, array or tensor (None, a string) say NotImplemented: Python then compares identity."""

    def compare(self: Tensor, other: Any) -> Any:
        return function(self, other) if isinstance(other, Tensor) or is_operand(other) else NotImplemented

    return compare


def _reflected(operator: str, function: Any, commutative: bool) -> Callable[..., Any]:
    """The operator whose left operand is no tensor. What is neither number nor array has NotImplemented: `[0] * tensor(2)` repeats the list, `[0] + t` is
    Python's own error."""

    def reflected(self: Tensor, other: Any) -> Tensor:
        if type(self) in _NUMBERS:
            raise TypeError(
                f"Tensor.{operator}: self must be a Tensor, not {type(self).__name__}, got {self!r}. Call it on a tensor."
            )
        if type(other) not in _NUMBERS and not is_operand(other):
            return NotImplemented
        return function(self, other) if commutative else function(other, self)

    return reflected


assert _ops.families
