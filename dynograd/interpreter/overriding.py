"""`__torch_function__`: types whose own code takes over what is called with them, by PyTorch's protocol.

Plain calls never ask. Who asks instead: the methods that a subclass of Tensor inherits (`OverridingTensor`, a base class it is given
without a word), the functions of `overriding_guards` from the first such type on, and, for types that are no tensors, `other_types`.
Inside `__torch_function__` of Tensor, everything is computed as on plain tensors; the results become instances of the subclass.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

from dynograd.interpreter import dispatch as foreign
from dynograd.interpreter.public_forms import taken_over
from dynograd.ops.op import Op
from dynograd.tensor.methods import OPERATORS
from dynograd.tensor.tensor import Tensor, when_derived

__all__ = [
    "STATE",
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "OverridingTensor",
    "disabled_torch_function",
    "dispatch",
    "fill_overriding",
    "install_overriding",
    "is_overriding",
    "name_of",
    "overriding_among",
    "paused",
]


class _State(threading.local):
    """What this thread has switched off, and the modes it is in, innermost last."""

    def __init__(self) -> None:
        self.off = 0  # types are not asked
        self.modes_off = 0
        self.modes: list[Any] = []


STATE = _State()
OVERRIDING: set[type] = set()
when_first: list[Callable[[], Any]] = []  # called when the first type is met: functions begin to look for them
public_function: list[Callable[[Op], Any]] = []  # gives the function by which users call an op


def disabled_torch_function(func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
    """As `__torch_function__` of a subclass: its instances are plain tensors to every function, and so are the results."""
    return NotImplemented


def is_overriding(kind: type) -> bool:
    """Whether instances of `kind` take functions over."""
    if kind in OVERRIDING:
        return True
    handler = getattr(kind, "__torch_function__", None)
    if handler is None or handler is disabled_torch_function or kind is Tensor or kind is OverridingTensor:
        return False
    if _of_the_library(kind.__module__):  # our own kinds of tensors have ways of their own
        return False
    OVERRIDING.add(kind)
    for begin in when_first:
        begin()
    when_first.clear()
    return True


def overriding_among(values: Iterable[Any]) -> list[Any]:
    """One instance of each type that takes over, in the order in which they are asked: a subclass before its bases."""
    found: list[Any] = []
    for value in values:
        for one in value if type(value) in (list, tuple) else (value,):
            kind = type(one)
            if is_overriding(kind) and all(type(other) is not kind for other in found):
                place = [number for number, other in enumerate(found) if issubclass(kind, type(other))]
                found.insert(place[0] if place else len(found), one)
    return found


def dispatch(func: Any, found: list[Any], args: tuple, kwargs: dict[str, Any]) -> Any:
    """What the innermost mode, or else the first of `found` that does not decline, makes of `func(*args, **kwargs)`.

    Raises:
        TypeError: all declined.
    """
    kinds = tuple([type(one) for one in found])
    asked: list[Any] = []
    if STATE.modes and not STATE.modes_off:
        before = STATE.modes
        mode, STATE.modes = before[-1], before[:-1]
        try:
            result = mode.__torch_function__(func, kinds, args, kwargs)
        finally:
            STATE.modes = before
        if result is not NotImplemented:
            return result
        asked.append(mode)
    if not STATE.off:
        for one in found:
            result = one.__torch_function__(func, kinds, args, kwargs)
            if result is not NotImplemented:
                return result
        asked += found
    listed = "\n".join([f"  - {_kind(one)} {type(one)}" for one in asked])
    raise TypeError(
        f"Multiple dispatch failed for '{name_of(func)}'; all __torch_function__ handlers returned NotImplemented:\n\n{listed}\n\n"
        f"Let one of them handle this function, or convert the arguments to one type."
    )


def _kind(value: Any) -> str:
    return "tensor subclass" if isinstance(value, Tensor) else "mode" if value in STATE.modes else "type"


def name_of(func: Any) -> Any:
    """`dynograd.add`, `dynograd.Tensor.add`, `dynograd.Tensor.shape.__get__`."""
    return known_names.get(func) or getattr(func, "__qualname__", repr(func))


known_names: dict[Any, str] = {}


class paused:
    """A context in which types (and with `modes`, modes too) are not asked, in this thread."""

    def __init__(self, modes: bool = False) -> None:
        self.modes = modes

    def __enter__(self) -> None:
        STATE.off += 1
        STATE.modes_off += self.modes

    def __exit__(self, *error: Any) -> None:
        STATE.off -= 1
        STATE.modes_off -= self.modes


class DisableTorchFunctionSubclass(paused):
    """A context in which subclasses and types like tensors are not asked; modes are.

    >>> class Named(dynograd.Tensor):
    ...     pass
    >>> with dynograd._C.DisableTorchFunctionSubclass():
    ...     type(Named([1.0]) + 1).__name__
    'Tensor'
    """

    def __init__(self) -> None:
        super().__init__()


class DisableTorchFunction(paused):
    """A context in which neither types nor modes are asked."""

    def __init__(self) -> None:
        super().__init__(modes=True)


# --- subclasses of Tensor --------------------------------------------------------------------------------------------------


def _torch_function(cls: Any, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
    """Calls `func` as on plain tensors; tensors in the result become instances of the subclass.

    Declines (NotImplemented) where an argument is of a type that is no base of this one.
    """
    if not all([issubclass(cls, kind) for kind in types]):
        return NotImplemented
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
        if not any([result is one for one in args]):
            try:
                result.__class__ = cls  # it was made just now
                return result
            except TypeError:  # a class with __slots__ of its own
                pass
        return result.as_subclass(cls)  # type: ignore[attr-defined]
    if isinstance(result, (tuple, list)) and kind.__module__ != "dynograd.base.shapes":
        made = [_as_instance(cls, one, args) for one in result]
        return kind._make(made) if hasattr(kind, "_make") else kind(made)  # type: ignore[attr-defined]
    return result


class OverridingTensor(Tensor):
    """Tensor with methods, operators and attributes that ask `__torch_function__`: a hidden base of subclasses."""

    __slots__ = ()
    _printed_prefix = property(lambda self: f"{type(self).__name__}(")

    def __iter__(self) -> Any:
        if STATE.off or not self.array.ndim:
            return Tensor.__iter__(self)
        return iter(dispatch(Tensor.unbind, [self], (self, 0), {}))  # type: ignore[attr-defined]


# What subclasses inherit as it is: the machinery, and what PyTorch does not hand over.
_UNASKED = frozenset(
    """accumulate_grad adds_directly array as_subclass edges gradients meta node run_hooks seq takes_deferred_sums wrap
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


def _asking_method(name: str, function: Any) -> Any:
    reported = vars(Tensor).get(OPERATORS.get(name, name), function)  # of `x + y`, handlers see Tensor.add
    known_names.setdefault(reported, f"dynograd.Tensor.{name}")
    if isinstance(function, FunctionType) and function.__name__ in ("getitem", "set_item", "reflected"):
        function.__name__ = name

    @functools.wraps(function)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if (STATE.off and not STATE.modes) or _from_inside() or (args and type(args[0]) in _NO_OPERANDS):
            return function(self, *args, **kwargs)
        return dispatch(reported, overriding_among((self, *args, *kwargs.values())), (self, *args), kwargs)

    return method


_NO_OPERANDS = frozenset({type(None), str, bytes, dict})  # `x == None` is left to Python


def _asking_property(name: str, found: property) -> property:
    getter, setter = found.__get__, found.__set__
    known_names[getter], known_names[setter] = f"dynograd.Tensor.{name}.__get__", f"dynograd.Tensor.{name}.__set__"

    def get(self: Any) -> Any:
        if STATE.off or _from_inside():
            return getter(self)
        return dispatch(getter, [self], (self,), {})

    def put(self: Any, value: Any) -> Any:
        if STATE.off or _from_inside():
            setter(self, value)
        else:
            dispatch(setter, [self], (self, value), {})

    return property(get, put if found.fset is not None else None, found.fdel, found.__doc__)


def _from_inside() -> bool:
    """Whether the library itself called; layers hand on what users call."""
    name = sys._getframe(2).f_globals.get("__name__", "")
    return _of_the_library(name) and not name.startswith("dynograd.nn.")


def _of_the_library(module: str) -> bool:
    shows_users_classes = module.startswith(("dynograd.overrides", "dynograd.interpreter.overriding"))
    return module.startswith("dynograd.") and not shows_users_classes


def _derived(cls: type) -> None:
    """A subclass was made: it stands on `OverridingTensor` if it takes functions over."""
    if not is_overriding(cls):
        return
    fill_overriding()
    if issubclass(cls, OverridingTensor):
        return
    if Tensor in cls.__bases__:
        cls.__bases__ = tuple([OverridingTensor if one is Tensor else one for one in cls.__bases__])
    else:
        cls.__bases__ = (*cls.__bases__, OverridingTensor)


# --- types that are no tensors ---------------------------------------------------------------------------------------------


def _of_foreign_types(op: Op, given: dict[str, Any], values: list[Any]) -> Any:
    """`other_types` met a type with `__torch_function__` among the operands of an op."""
    found = [] if STATE.off else overriding_among(values)
    if not found:
        return NotImplemented
    function = None if _through_public_form() else _method_of(op, given)
    args, kwargs = _as_given(op.signature, given)
    return dispatch(function or public_function[0](op), found, args, kwargs)


def _through_public_form() -> bool:
    return "/public/" in sys._getframe(4).f_code.co_filename.replace("<dynograd ", "/")


def _method_of(op: Op, given: dict[str, Any]) -> Any:
    """The method of Tensor that was called, if the first operand is a tensor."""
    name = op.method if isinstance(op.method, str) else op.name
    first = next(iter(given.values()), None)
    return vars(Tensor).get(name) if isinstance(first, Tensor) else None


def _of_failed_call(function: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """A public function failed with these arguments: of a type with `__torch_function__` that nobody had met before?"""
    found = [] if STATE.off else overriding_among((*args, *kwargs.values()))
    if not found:
        return NotImplemented
    if hasattr(function, "op"):  # called with all its arguments, defaults too
        signature = function.op.signature
        args, kwargs = _as_given(signature, dict(signature.bind(*args, **kwargs).arguments))
    return dispatch(function, found, args, kwargs)


def _as_given(signature: inspect.Signature, given: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """Arguments by name as a caller would give them: those without a default in order, of the others what is not the default."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for name, parameter in signature.parameters.items():
        if name not in given:
            continue
        value = given[name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            args += value
        elif parameter.kind is parameter.VAR_KEYWORD:
            kwargs |= value
        elif parameter.default is parameter.empty:
            args.append(value)
        elif value is not parameter.default:
            kwargs[name] = value
    return tuple(args), kwargs


def _make_subclass(cls: type, data: Tensor, require_grad: bool = False) -> Any:
    """The memory of `data`, without its history, as an instance of a subclass of Tensor.

    >>> class Named(dynograd.Tensor):
    ...     pass
    >>> dynograd.Tensor._make_subclass(Named, tensor([1.0]), True)
    Named([1.], requires_grad=True)
    """
    with paused():
        return data.detach().as_subclass(cls).requires_grad_(require_grad)  # type: ignore[attr-defined]


def install_overriding() -> None:
    """Subclasses of Tensor and other types with `__torch_function__` are asked from now on; Tensor has its own."""
    Tensor.__torch_function__ = classmethod(_torch_function)  # type: ignore[attr-defined]
    Tensor._make_subclass = staticmethod(_make_subclass)  # type: ignore[attr-defined]
    when_derived.append(_derived)
    foreign.overridden.append(_of_foreign_types)
    taken_over.append(_of_failed_call)
