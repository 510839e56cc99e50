"""Composed functions look for ragged tensors among their arguments, from the first import of this package on.

A function of the table of ops that is made of other ops is plain Python. A reader (`ops/readers.py`) hands a call of it with a ragged tensor
to `dispatch.run_call` and any other one on.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from dynograd.errors import RaggedSizeError
from dynograd.ops.readers import Entry, Reader, join
from dynograd.ragged.calls import is_made_of_parts
from dynograd.ragged.dispatch import run_call
from dynograd.ragged.families.sized import SIZED
from dynograd.ragged.tensor import RaggedTensor

__all__ = ["install", "intercept", "intercept_sizes"]

# Parameters that are never tensors.
_PLAIN = frozenset(
    """dim dims dtype keepdim keepdims axis size sizes order memory_format out_int32 reduction size_average reduce stride padding dilation
    kernel_size output_size output_padding groups normalized_shape num_groups ceil_mode mode device layout correction unbiased _stacklevel
    equation stable ord inplace p eps ignore_index axis0 axis1 dim0 dim1 source destination shifts norm s n k""".split()
)
_SCALARS = ("int", "bool", "str", "float", "int|None", "str|None", "float|None", "bool|None")


class _Intercepting(Reader):
    """Hands calls with ragged tensors on: of composed ops to their rules, of other functions to `handlers`; or those that fail for a ragged
    size to `sized`."""

    name = "ragged"

    def __init__(self) -> None:
        super().__init__()
        self.handlers: dict[Any, Callable[[dict[str, Any]], Any]] = {}
        self.sized: dict[Any, Callable[[dict[str, Any]], Any]] = {}

    def sees(self, entry: Entry) -> bool:
        return entry.function in self.handlers or entry.function in self.sized or is_made_of_parts(entry)

    def write(self, entry: Entry, below: Any, names: dict[str, Any]) -> tuple[str, list[str]]:
        sized = self.sized.get(entry.function) or SIZED.get(entry.key)
        handler = self.handlers.get(entry.function)
        if handler is None and entry.op is not None:
            handler = functools.partial(run_call, entry.key)
        names.update(own=below, kind=RaggedTensor, among=_has_ragged, run=handler, sized=sized, error=RaggedSizeError)
        return _source(inspect.signature(entry.function), sized is not None, handler is not None)


def _has_ragged(values: Iterable[Any]) -> bool:
    return any([value.__class__ is RaggedTensor for value in values])


_intercepting = _Intercepting()


def install() -> None:
    """Every composed op of the table hands calls with ragged tensors on."""
    _intercepting.turn_on()


def intercept(function: Any, handler: Callable[[dict[str, Any]], Any]) -> Callable[..., Any]:
    """From now on `function` hands calls with ragged tensors to `handler`, arguments by name; gives its plain form."""
    _intercepting.handlers[function] = handler
    return _seen(function)


def intercept_sizes(function: Any, handler: Callable[[dict[str, Any]], Any]) -> None:
    """From now on `function` hands calls that fail for a ragged size to `handler`, arguments by name."""
    _intercepting.sized[function] = handler
    _seen(function)


def _seen(function: Any) -> Callable[..., Any]:
    entry = join(function)
    _intercepting.see(entry)
    return entry.apart()


def _source(signature: inspect.Signature, sized: bool, tensors: bool) -> tuple[str, list[str]]:
    """Code with the same parameters; defaults stay those of the function object. `sized`: it may be called again for ragged sizes."""
    parameters, call, arguments, tests, starred = [], [], [], [], False
    for parameter in signature.parameters.values():
        default = "" if parameter.default is parameter.empty else "=None"
        arguments.append(f"{parameter.name!r}: {parameter.name}")
        if parameter.kind is parameter.VAR_POSITIONAL:
            parameters.append(f"*{parameter.name}")
            call.append(f"*{parameter.name}")
            starred = True
            tests.append(f"{parameter.name} and $among({parameter.name})")
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            parameters.append(f"**{parameter.name}")
            call.append(f"**{parameter.name}")
            tests.append(f"{parameter.name} and $among({parameter.name}.values())")
            continue
        if parameter.kind is parameter.KEYWORD_ONLY:
            if not starred:
                parameters.append("*")
                starred = True
            call.append(f"{parameter.name}={parameter.name}")
        else:
            call.append(parameter.name)
        parameters.append(parameter.name + default)
        if parameter.name in _PLAIN or str(parameter.annotation).replace(" ", "") in _SCALARS:
            continue
        tests.append(f"{parameter.name}.__class__ is $kind")
        if parameter.name in _LISTS:
            tests.append(
                f"({parameter.name}.__class__ is list or {parameter.name}.__class__ is tuple) and $among({parameter.name})"
            )
    lines = []
    if tests and tensors:
        lines += [f"if {' or '.join(tests)}:", f"    return $run({{{', '.join(arguments)}}})"]
    own = f"return $own({', '.join(call)})"
    if sized:
        lines += [
            "try:",
            f"    {own}",
            "except $error:",
            f"    result = $sized({{{', '.join(arguments)}}})",
            "    if result is NotImplemented:",
            "        raise",
            "    return result",
        ]
    else:
        lines.append(own)
    return ", ".join(parameters), lines


_LISTS = frozenset("tensors matrices index indices spacing target input hx values".split())
