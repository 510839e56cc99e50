"""Signatures of the library's own functions: more than a thousand are read at every import."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

__all__ = ["signature_of"]

_PARAMETER = inspect.Parameter


@cache
def _parameter(name: str, kind: Any, of: type, default: Any, annotation: Any) -> inspect.Parameter:
    """Parameters do not change, and most functions share theirs (`input: Array`). `of` tells 1 from True."""
    return _PARAMETER(name, kind, default=default, annotation=annotation)


def signature_of(function: Any) -> inspect.Signature:
    """What `inspect.signature` gives, for a function with named parameters only in a part of the time."""
    code = function.__code__
    if function.__dict__ or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS) or code.co_posonlyargcount:
        return inspect.signature(function)
    names, count = code.co_varnames, code.co_argcount
    defaults, annotations, empty = function.__defaults__ or (), function.__annotations__, inspect.Signature.empty
    values = dict(zip(names[count - len(defaults) : count], defaults, strict=True)) | (function.__kwdefaults__ or {})
    parameters = []
    for number, name in enumerate(names[: count + code.co_kwonlyargcount]):
        kind = _PARAMETER.POSITIONAL_OR_KEYWORD if number < count else _PARAMETER.KEYWORD_ONLY
        default = values.get(name, empty)
        make: Any = _parameter if type(default).__hash__ is not None else _parameter.__wrapped__
        parameters.append(make(name, kind, type(default), default, annotations.get(name, empty)))
    return inspect.Signature(
        parameters, return_annotation=annotations.get("return", empty), __validate_parameters__=False
    )
