"""`torch.jit` for programs that use it: functions and modules come back as they are, nothing is translated.

A scripted function runs as the Python that it is. What needs a translated program, `save` and `load`, refuses and names the way out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Optional, Union

from dynograd.base import stubs
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.compat import refused
from dynograd.compat.futures import Future

globals().update(stubs.names("jit"))

__path__: list[str] = []  # there is a module below it (`compat.faces`)
__all__ = ["Final", "Optional", "Union", "Future", "ScriptFunction", "fork", "isinstance", "wait", *stubs.names("jit")]

_isinstance = isinstance


def isinstance(obj: object, target_type: object) -> bool:
    """Python's `isinstance`, also for `List[int]` and its like, of which only the outer type is looked at.

    Args:
        obj: any object.
        target_type: a type, or `List[int]` and its like.
    Returns:
        True or False.

    >>> from typing import List
    >>> dynograd.jit.isinstance([1, 2], List[int])
    True
    """
    kinds = target_type if _isinstance(target_type, tuple) else (target_type,)
    return _isinstance(obj, tuple(getattr(kind, "__origin__", kind) for kind in kinds))


def fork(func: Callable[..., Any], *args: object, **kwargs: object) -> Future:
    """Calls the function now; `wait` gives the result.

    Args:
        func: the function.
        *args, **kwargs: for the function.
    Returns:
        A `Future`.

    >>> dynograd.jit.wait(dynograd.jit.fork(divmod, 7, 2))
    (3, 1)
    """
    future: Future = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Future) -> Any:
    """The result of `fork`.

    Args:
        future: what `fork` gave.
    Returns:
        What the function returned.

    >>> dynograd.jit.wait(dynograd.jit.fork(len, "abc"))
    3
    """
    return future.wait()


class ScriptFunction:
    """What PyTorch makes of a scripted function. None is made here; `isinstance` says False.

    Args:
        *args, **kwargs: not used.

    >>> isinstance(len, dynograd.jit.ScriptFunction)
    False
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise NotImplementedError(
            "jit.ScriptFunction: nothing is translated here; jit.script gives back the function itself."
        )


class Error(RuntimeError):
    """What PyTorch raises of scripted programs; never raised here."""


class TracerWarning(Warning):
    """What PyTorch warns of in traces; never given here."""

    @staticmethod
    def ignore_lib_warnings() -> None: ...


class Attribute:
    """A value of a module with its type, which scripted programs need: `value` is read.

    Args:
        value: any object.
        type: its type.

    >>> dynograd.jit.Attribute(3, int).value
    3
    """

    def __init__(self, value: Any, type: Any) -> None:
        self.value, self.type = value, type


List, Dict, Tuple = list, dict, tuple
BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = list
"""Annotations of scripted programs: a number or a list of numbers."""
_TYPES = (
    "AnyType BoolType ClassType ComplexType DeviceObjType DictType EnumType FloatType IntType InterfaceType ListType NoneType NumberType OptionalType "
    "ScriptObject StringType TensorType TupleType UnionType"
).split()
"""Types of scripted programs: their names, for annotations and `isinstance`, which says False."""
_MODULES = ("ScriptModule", "RecursiveScriptModule", "TracedModule", "TopLevelTracedModule")


def __getattr__(name: str) -> Any:
    """`ScriptModule` and its like are Modules: what derives from one runs as the Python that it is. Scripted modules are not of them."""
    if name in _TYPES:
        text = "A type of scripted programs; `isinstance` says False."
        return globals().setdefault(
            name, type(name, (ScriptFunction,), {"__module__": __name__, "__doc__": _example(text, name)})
        )
    value = None if name in _MODULES else refused.addition("jit", name)
    if value is not None:
        return value
    if name not in _MODULES:
        raise AttributeError(f"module 'dynograd.jit' has no attribute {name!r}")
    from dynograd.nn.module import Module

    base = Module if name == "ScriptModule" else globals().get("ScriptModule") or __getattr__("ScriptModule")
    kind = type(name, (base,), {"__doc__": _example("A Module; see `jit.script`.", name), "__module__": __name__})
    return globals().setdefault(name, kind)


def _example(text: str, name: str) -> str:
    arguments = "" if "Module" in name else "\n\nArgs:\n    args, kwargs: not used."
    return (
        f"{text}{arguments}\n\n>>> import dynograd.jit\n>>> isinstance(dynograd.zeros(1), dynograd.jit.{name})\nFalse"
    )


_show_plainly(globals())
