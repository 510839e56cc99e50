"""Signatures of the library's own functions: more than a thousand are asked for at every import, and few are looked at."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from functools import cache
from types import FunctionType, MappingProxyType
from typing import Any, ForwardRef, TypeVar

__all__ = [
    "Annotation",
    "SignatureLater",
    "annotations_of",
    "call_signature",
    "find_here",
    "plain_annotations",
    "shown_signature",
    "show_plainly",
    "signature_of",
    "without_private",
]

F = TypeVar("F", bound=Callable[..., Any])
_PARAMETER, _EMPTY = inspect.Parameter, inspect.Signature.empty


_SHOWN = {  # kinds of arguments of ops (`ops/argument_kinds.py`), as a caller sees them: an array inside is a tensor outside
    "Array": "Tensor",
    "Arrays": "Sequence[Tensor]",
    "IndexArrays": "Sequence[Tensor]",
    "Axis": "int | tuple[int, ...] | None",
    "ClassDim": "int | None",
    "Dim": "int",
    "Dims": "int | tuple[int, ...] | None",
    "Dtype": "dtype | None",
    "Inplace": "bool",
    "Keepdims": "bool | None",
    "Real": "float",
    "SomeDims": "int | tuple[int, ...] | None",
}


class Annotation(str):
    """An annotation's text, which `help` and editors show without quotes.

    >>> from dynograd.base.signatures import Annotation, plain_annotations
    >>> [Annotation("Array"), Annotation("Array | None")]
    [Tensor, Tensor | None]
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return re.sub(r"\w+", lambda word: _SHOWN.get(word[0], word[0]), self)


def plain_annotations(function: Any) -> Any:
    """The function itself; `help` shows its annotations without quotes from now on."""
    annotations = function.__annotations__
    for name, text in annotations.items():
        if type(text) is str:
            annotations[name] = Annotation(text)
        elif type(text) is ForwardRef:  # of a NamedTuple
            annotations[name] = Annotation(text.__forward_arg__)
    return function


def show_plainly(namespace: Mapping[str, Any]) -> None:
    """`help` shows a public module's functions and classes without quotes and without private parameters from now on.

    Args:
        namespace: `globals()` of the module, when all is in it.
    """
    owners: dict[type, None] = {}  # classes and those above them, each once: modules have most of theirs in common
    for value in list(namespace.values()):
        if type(value) is FunctionType:
            if "op" not in value.__dict__:  # those of ops are plain from the start
                _show_plainly(value)
        elif isinstance(value, type) and value.__module__.startswith("dynograd"):
            owners |= dict.fromkeys((*value.__mro__, type(value)))
    for owner in owners:
        if owner.__module__.startswith("dynograd"):
            for member in list(vars(owner).values()):
                function = member.__func__ if type(member) in (classmethod, staticmethod) else member
                if type(function) is FunctionType and "op" not in function.__dict__:
                    _show_plainly(function)


def _show_plainly(function: Any) -> None:
    plain_annotations(function)
    if "__signature__" not in function.__dict__:
        for name in function.__annotations__:
            if name[0] == "_":
                without_private(function)


def find_here(namespace: Mapping[str, Any], module: str) -> None:
    """Public functions that are not found under their own `__module__` and `__qualname__` are found in this module from now on: pickle asks.

    Args:
        namespace: names and what they stand for in the module.
        module: its name.
    """
    for name, value in namespace.items():
        if type(value) is FunctionType and name[0] != "_" and not _is_found(value):
            value.__module__, value.__qualname__ = module, name


def _is_found(function: FunctionType) -> bool:
    place: Any = sys.modules.get(function.__module__)
    for part in function.__qualname__.split("."):
        place = getattr(place, "__dict__", {}).get(part)
    return place is function


class SignatureLater(inspect.Signature):
    """The signature that `read` gives, read when somebody looks at it."""

    __slots__ = ("_read", "_signature")

    def __init__(self, read: Callable[[], inspect.Signature]) -> None:
        self._read = read

    def _known(self) -> inspect.Signature:
        if not hasattr(self, "_signature"):
            self._signature = self._read()
        return self._signature

    @property
    def parameters(self) -> MappingProxyType[str, inspect.Parameter]:
        return self._known().parameters

    @property
    def return_annotation(self) -> Any:
        return self._known().return_annotation

    def replace(self, **changes: Any) -> Any:
        return self._known().replace(**changes)

    def __reduce__(self) -> str | tuple[Any, ...]:
        return self._known().__reduce__()

    def __repr__(self) -> str:
        return repr(self._known())


@cache
def _parameter(name: str, kind: Any, of: type, default: Any, annotation: Any) -> inspect.Parameter:
    """Parameters do not change, and most functions share theirs (`input: Array`). `of` tells 1 from True."""
    return _PARAMETER(name, kind, default=default, annotation=annotation)


def _beneath_wrappers(function: Any) -> Any:
    """The function whose own signature is that of `function`, or its signature; None where only `inspect` knows."""
    while True:
        known = getattr(function, "__dict__", {})
        if "__signature__" in known:
            return known["__signature__"]
        if "__wrapped__" not in known:
            break
        function = known["__wrapped__"]
    return function if hasattr(function, "__code__") and not function.__code__.co_posonlyargcount else None


def _kinds(code: Any) -> list[tuple[str, Any]]:
    """The names of the parameters with their kinds, in the order in which they are written."""
    names, count = code.co_varnames, code.co_argcount
    last = count + code.co_kwonlyargcount
    result: list[tuple[str, Any]] = [(name, _PARAMETER.POSITIONAL_OR_KEYWORD) for name in names[:count]]
    if code.co_flags & inspect.CO_VARARGS:
        result.append((names[last], _PARAMETER.VAR_POSITIONAL))
    result += [(name, _PARAMETER.KEYWORD_ONLY) for name in names[count:last]]
    if code.co_flags & inspect.CO_VARKEYWORDS:
        result.append((names[last + (code.co_flags & inspect.CO_VARARGS > 0)], _PARAMETER.VAR_KEYWORD))
    return result


def annotations_of(function: Any) -> Mapping[str, Any]:
    """The function's parameters by name, in order, with their annotations."""
    beneath = _beneath_wrappers(function)
    if beneath is None or isinstance(beneath, inspect.Signature):
        signature = beneath or inspect.signature(function)
        return {name: parameter.annotation for name, parameter in signature.parameters.items()}
    annotations = beneath.__annotations__
    return {name: annotations.get(name, _EMPTY) for name, _ in _kinds(beneath.__code__)}


def signature_of(function: Any) -> inspect.Signature:
    """What `inspect.signature` gives, in a part of the time."""
    beneath = _beneath_wrappers(function)
    if beneath is None or isinstance(beneath, inspect.Signature):
        return beneath or inspect.signature(function)
    return _as_written(beneath)


def without_private(function: F) -> F:
    """The function itself, which takes what it took; `help` and editors do not speak of parameters that begin with an underscore.

    PyTorch has such parameters, and its packages give them.

    >>> @without_private
    ... def scaled(x, factor=2.0, _instead=None):
    ...     return x * factor if _instead is None else _instead
    >>> import inspect
    >>> inspect.signature(scaled), scaled(1, _instead=5)
    (<Signature (x, factor=2.0)>, 5)
    """

    shown: Any = function
    shown.__signature__ = SignatureLater(lambda: shown_signature(_as_written(inspect.unwrap(function))))
    return function


def shown_signature(written: inspect.Signature) -> inspect.Signature:
    """A signature without the parameters that begin with an underscore; what stands behind them is to be called by name."""
    parameters: list[inspect.Parameter] = []
    behind = False
    for name, parameter in written.parameters.items():
        if name.startswith("_"):
            behind = True
        elif behind and parameter.kind is _PARAMETER.POSITIONAL_OR_KEYWORD:
            parameters.append(parameter.replace(kind=_PARAMETER.KEYWORD_ONLY))
        else:
            parameters.append(parameter)
    return inspect.Signature(parameters, return_annotation=written.return_annotation, __validate_parameters__=False)


def _as_written(beneath: Any) -> inspect.Signature:
    code, defaults, annotations = beneath.__code__, beneath.__defaults__ or (), beneath.__annotations__
    with_default = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
    values = dict(zip(with_default, defaults, strict=True)) | (beneath.__kwdefaults__ or {})
    parameters = []
    for name, kind in _kinds(code):
        default = values.get(name, _EMPTY)
        make: Any = _parameter if type(default).__hash__ is not None else _parameter.__wrapped__
        parameters.append(make(name, kind, type(default), default, _shown(annotations.get(name, _EMPTY))))
    return inspect.Signature(
        parameters, return_annotation=_shown(annotations.get("return", _EMPTY)), __validate_parameters__=False
    )


def _shown(annotation: Any) -> Any:
    return Annotation(annotation) if type(annotation) is str else annotation


def call_signature(function: Callable[..., Any]) -> inspect.Signature:
    """What a call takes: of a module that says nothing of itself, what its `forward` does."""
    if hasattr(function, "__signature__"):
        return inspect.signature(function)
    return inspect.signature(getattr(function, "forward", function))
