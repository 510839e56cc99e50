"""Composed functions look for ragged tensors among their arguments, from the first import of this package on.

A function of the table of ops that is made of other ops is plain Python; its own code is exchanged for code that hands a call with a ragged
tensor to `calls.run_call` and any other one on. The function object stays the same, so that everybody who imported it sees it.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any

from dynograd.base.generated_sources import run_source
from dynograd.errors import RaggedSizeError
from dynograd.interpreter.recorded_methods import note_change
from dynograd.ops.op import code_below, registry
from dynograd.ragged.calls import OWN, ragged_in, run_call
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


def install() -> None:
    """Every composed op of the table hands calls with ragged tensors on."""
    lines: list[str] = []
    ready: list[tuple[Any, str]] = []
    for number, (key, op) in enumerate(registry.items()):
        function = inspect.unwrap(op.function)
        if op.kind != "composed" or not isinstance(function, types.FunctionType) or function.__closure__:
            continue
        signature = inspect.signature(function)
        if tuple(signature.parameters) != tuple(op.signature.parameters):
            continue
        title = f"_r{number}"
        lines.append(_source(title, signature, title, key in SIZED))
        ready.append((function, key))
        function.__globals__[f"{title}_run"] = _runner(key)
    made = run_source("\n".join(lines), "ragged forms", {})
    numbers = {key: number for number, key in enumerate(registry)}
    for function, key in ready:
        title = f"_r{numbers[key]}"
        plain = types.FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__)
        plain.__kwdefaults__ = function.__kwdefaults__
        OWN[key] = plain
        function.__globals__.update({f"{title}_own": plain, f"{title}_kind": RaggedTensor, f"{title}_in": ragged_in})
        if key in SIZED:
            function.__globals__.update({f"{title}_sized": SIZED[key], f"{title}_error": RaggedSizeError})
        _put_over(function, made[title].__code__)


def _put_over(function: Any, code: types.CodeType) -> None:
    code = code.replace(co_name=function.__name__)
    code_below[code], function.__code__ = function.__code__, code
    note_change()


def intercept(function: Any, handler: Callable[[dict[str, Any]], Any]) -> Any:
    """From now on `function` (without closure) hands calls with ragged tensors to `handler`, arguments by name; gives its plain form."""
    signature = inspect.signature(function)
    title = f"_i_{function.__name__}"
    made = run_source(_source(title, signature, title), f"ragged {function.__name__}", {})
    plain = types.FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__)
    plain.__kwdefaults__ = function.__kwdefaults__
    function.__globals__.update(
        {f"{title}_own": plain, f"{title}_kind": RaggedTensor, f"{title}_in": ragged_in, f"{title}_run": handler}
    )
    _put_over(function, made[title].__code__)
    return plain


def intercept_sizes(function: Any, handler: Callable[[dict[str, Any]], Any]) -> None:
    """From now on `function` (without closure) hands calls that fail for a ragged size to `handler`, arguments by name."""
    signature = inspect.signature(function)
    title = f"_s_{function.__name__}"
    made = run_source(_source(title, signature, title, True, False), f"ragged {function.__name__}", {})
    plain = types.FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__)
    plain.__kwdefaults__ = function.__kwdefaults__
    named = {f"{title}_own": plain, f"{title}_sized": handler, f"{title}_error": RaggedSizeError}
    function.__globals__.update(named)
    _put_over(function, made[title].__code__)


def _runner(key: str) -> Callable[[dict[str, Any]], Any]:
    return lambda given: run_call(key, given)


def _source(title: str, signature: inspect.Signature, names: str, sized: bool = False, tensors: bool = True) -> str:
    """Code with the same parameters; defaults stay those of the function object. `sized`: it may be called again for ragged sizes."""
    parameters, call, given, tests, starred = [], [], [], [], False
    for one in signature.parameters.values():
        default = "" if one.default is one.empty else "=None"
        given.append(f"{one.name!r}: {one.name}")
        if one.kind is one.VAR_POSITIONAL:
            parameters.append(f"*{one.name}")
            call.append(f"*{one.name}")
            starred = True
            tests.append(f"{one.name} and {names}_in({one.name})")
            continue
        if one.kind is one.VAR_KEYWORD:
            parameters.append(f"**{one.name}")
            call.append(f"**{one.name}")
            tests.append(f"{one.name} and {names}_in({one.name}.values())")
            continue
        if one.kind is one.KEYWORD_ONLY:
            if not starred:
                parameters.append("*")
                starred = True
            call.append(f"{one.name}={one.name}")
        else:
            call.append(one.name)
        parameters.append(one.name + default)
        if one.name in _PLAIN or str(one.annotation).replace(" ", "") in _SCALARS:
            continue
        tests.append(f"{one.name}.__class__ is {names}_kind")
        if one.name in _LISTS:
            tests.append(f"({one.name}.__class__ is list or {one.name}.__class__ is tuple) and {names}_in({one.name})")
    body = ""
    if tests and tensors:
        body = f"    if {' or '.join(tests)}:\n        return {names}_run({{{', '.join(given)}}})\n"
    own = f"return {names}_own({', '.join(call)})"
    if sized:
        again = f"found = {names}_sized({{{', '.join(given)}}})\n        if found is NotImplemented:\n            raise\n        return found"
        own = f"try:\n        {own}\n    except {names}_error:\n        {again}"
    return f"def {title}({', '.join(parameters)}):\n{body}    {own}\n"


_LISTS = frozenset("tensors matrices index indices spacing target input hx values".split())
