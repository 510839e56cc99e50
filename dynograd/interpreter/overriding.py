"""`__torch_function__`: types whose own code takes over what is called with them, by PyTorch's protocol.

Plain calls never ask. Who asks instead: the methods that a subclass of Tensor inherits (`OverridingTensor`, a base class it is given
without a word), the functions of `overriding_guards` from the first such type on, and, for types that are no tensors, `other_types`.
Inside `__torch_function__` of Tensor, everything is computed as on plain tensors; the results become instances of the subclass.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from dynograd.autograd.modes import MODES
from dynograd.interpreter import dispatch as foreign
from dynograd.interpreter.override_protocol import (
    PLAIN_CLASSES,
    STATE,
    as_given,
    disabled_torch_function,
    dispatch,
    is_overriding,
    known_names,
    of_the_library,
    overriding_among,
    paused,
)
from dynograd.ops.op import Op
from dynograd.tensor.methods import OPERATORS
from dynograd.tensor.tensor import Tensor, choose_bases, when_derived

# --- subclasses of Tensor --------------------------------------------------------------------------------------------------


def _torch_function(cls: Any, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
    """Calls `func` as on plain tensors; tensors in the result become instances of the subclass.

    Declines (NotImplemented) where an argument is of a type that is no base of this one.
    """
    if not all([issubclass(cls, kind) for kind in types]):
        return NotImplemented
    if MODES.plan is not None:
        MODES.plan.end_for(f"a tensor of the class {cls.__name__}, whose results are of this class, too")
    with paused():
        result = func(*args, **(kwargs or {}))
    return result if func in keeps_type() else _as_instance(cls, result, args)


@functools.cache
def keeps_type() -> set[Any]:
    """Functions whose result stays of the type it is."""
    return {getattr(Tensor, name).__get__ for name in ("grad", "_base", "_grad") if hasattr(Tensor, name)}


def _as_instance(cls: type, result: Any, args: tuple) -> Any:
    kind = type(result)
    if kind is Tensor and cls is not Tensor:
        if not any([result is argument for argument in args]):
            try:
                result.__class__ = cls  # it was made just now
                return result
            except TypeError:  # a class with __slots__ of its own
                pass
        return result.as_subclass(cls)
    if isinstance(result, (tuple, list)) and kind.__module__ != "dynograd.base.shapes":
        results = [_as_instance(cls, element, args) for element in result]
        return kind._make(results) if hasattr(kind, "_make") else kind(results)
    return result


public_function: list[Callable[[Op], Any]] = []  # gives the function by which users call an op


class OverridingTensor(Tensor):
    """Tensor with methods, operators and attributes that ask `__torch_function__`: a hidden base of subclasses."""

    __slots__ = ()
    _printed_prefix = property(lambda self: f"{type(self).__name__}(")

    def __iter__(self) -> Any:
        if STATE.off or not self.array.ndim:
            return Tensor.__iter__(self)
        return iter(dispatch(Tensor.unbind, [self], (self, 0), {}))


PLAIN_CLASSES.add(OverridingTensor)

# What subclasses inherit as it is: the machinery, and what PyTorch does not hand over.
_UNASKED = frozenset(
    """accumulate_grad adds_directly array as_subclass edges gradients has_hooks meta node run_hooks seq takes_deferred_sums wrap
    __new__ __init__ __init_subclass__ __torch_function__ __hash__ __slots__ __dict__ __weakref__ __doc__ __module__ __dir__ __copy__
    __array_namespace__ __array_priority__ __iter__ __reduce__ __getstate__ __class_getitem__ __getattribute__ __setattr__""".split()
)


@functools.cache
def fill_overriding() -> None:
    """Gives `OverridingTensor` an asking form of each method and property of Tensor, once there is a use for it."""
    for name, value in list(vars(Tensor).items()):
        if name in _UNASKED or (name.startswith("_") and not name.startswith("__") and name not in ("_version",)):
            continue
        if isinstance(value, property):
            setattr(OverridingTensor, name, _asking_property(name, value))
        elif callable(value) and not isinstance(value, (staticmethod, classmethod, type)):
            setattr(OverridingTensor, name, _asking_method(name, value))


def _asking_method(name: str, function: Any) -> Callable[..., Any]:
    reported = vars(Tensor).get(OPERATORS.get(name, name), function)  # of `x + y`, handlers see Tensor.add
    known_names.setdefault(reported, f"dynograd.Tensor.{name}")
    if isinstance(function, FunctionType) and function.__name__ in ("getitem", "set_item", "reflected"):
        function.__name__ = name

    @functools.wraps(function)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if (STATE.off and not STATE.modes) or (args and type(args[0]) in _NO_OPERANDS):
            return function(self, *args, **kwargs)
        return dispatch(reported, overriding_among((self, *args, *kwargs.values())), (self, *args), kwargs)

    return method


_NO_OPERANDS = frozenset({type(None), str, bytes, dict})  # `x == None` is left to Python


def _asking_property(name: str, result: property) -> property:
    getter, setter = result.__get__, result.__set__
    known_names[getter], known_names[setter] = f"dynograd.Tensor.{name}.__get__", f"dynograd.Tensor.{name}.__set__"

    def get(self: Any) -> Any:
        if STATE.off:
            return getter(self)
        return dispatch(getter, [self], (self,), {})

    def put(self: Any, value: Any) -> Any:
        if STATE.off:
            setter(self, value)
        else:
            dispatch(setter, [self], (self, value), {})

    return property(get, put if result.fset is not None else None, result.fdel, result.__doc__)


def _bases_of(bases: tuple[type, ...], namespace: dict[str, Any]) -> tuple[type, ...]:
    """The bases of a subclass that is being made: it stands on `OverridingTensor` if it takes functions over."""
    handler = namespace.get("__torch_function__") or getattr(bases[0], "__torch_function__", None)
    if handler is disabled_torch_function or of_the_library(namespace.get("__module__", "")):
        return bases
    fill_overriding()
    if any([issubclass(base, OverridingTensor) for base in bases]):
        return bases
    if Tensor in bases:
        return tuple([OverridingTensor if base is Tensor else base for base in bases])
    return (*bases, OverridingTensor)


# --- types that are no tensors ---------------------------------------------------------------------------------------------


def _of_foreign_types(op: Op, arguments: dict[str, Any], values: list[Any]) -> Any:
    """`other_types` met a type with `__torch_function__` among the operands of an op."""
    asked = [] if STATE.off else overriding_among(values)
    if not asked:
        return NotImplemented
    args, kwargs = as_given(op.signature, arguments)
    return dispatch(_method_of(op, arguments) or public_function[0](op), asked, args, kwargs)


def _method_of(op: Op, arguments: dict[str, Any]) -> Callable[..., Any] | None:
    """The method of Tensor that was called, if the first operand is a tensor and the method begins with it (that of `where` does not)."""
    method = vars(Tensor).get(op.method if isinstance(op.method, str) else op.name)
    name, value = next(iter(arguments.items()), (None, None))
    return method if isinstance(value, Tensor) and callable(method) and _first_of(method) == name else None


@functools.cache
def _first_of(function: Callable[..., Any]) -> str | None:
    return next(iter(inspect.signature(function).parameters), None)


def _make_subclass(cls: type, data: Tensor, require_grad: bool = False) -> Any:
    """The memory of `data`, without its history, as an instance of a subclass of Tensor.

    >>> class Named(dynograd.Tensor):
    ...     pass
    >>> dynograd.Tensor._make_subclass(Named, tensor([1.0]), True)
    Named([1.], requires_grad=True)
    """
    with paused():
        return data.detach().as_subclass(cls).requires_grad_(require_grad)


def install_overriding() -> None:
    """Subclasses of Tensor and other types with `__torch_function__` are asked from now on; Tensor has its own."""
    Tensor.__torch_function__ = classmethod(_torch_function)  # type: ignore[attr-defined]
    Tensor._make_subclass = staticmethod(_make_subclass)  # type: ignore[attr-defined]
    choose_bases.append(_bases_of)
    when_derived.append(is_overriding)
    foreign.overridden.append(_of_foreign_types)
