"""Running ops of the table: by their name, or with all arguments by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from dynograd.ops.op import Op, registry

__all__ = ["invoke", "mapped", "run"]


def run(name: str, *args: Any, **kwargs: Any) -> Any:
    """The op `name`."""
    return registry[name].function(*args, **kwargs)


def invoke(function: Callable[..., Any], op: Op, arguments: dict[str, Any]) -> Any:
    """`function` with arguments by name, each passed the way its signature wants it."""
    if _takes_names(op):
        return function(**arguments)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    starred = False
    for name, parameter in op.signature.parameters.items():
        if name not in arguments:  # left to its default
            starred = True
        elif parameter.kind is parameter.VAR_POSITIONAL:
            args += arguments[name]
            starred = True
        elif parameter.kind is parameter.VAR_KEYWORD:
            kwargs.update(arguments[name])
        elif parameter.kind is parameter.KEYWORD_ONLY or starred:
            kwargs[name] = arguments[name]
        else:
            args.append(arguments[name])
    return function(*args, **kwargs)


@cache
def _takes_names(op: Op) -> bool:
    return not any(
        [
            parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY)
            for parameter in op.signature.parameters.values()
        ]
    )


def mapped(value: Any, change: Callable[[Any], Any], kind: type) -> Any:
    """`value`, or the values in a list, tuple or dict, with `change(x)` in place of each that is of `kind`."""
    if isinstance(value, kind):
        return change(value)
    if type(value) in (list, tuple):
        return type(value)(mapped(entry, change, kind) for entry in value)
    if type(value) is dict:
        return {key: mapped(entry, change, kind) for key, entry in value.items()}
    return value
