"""What a cell's body can reach besides its arguments: parameters, attributes, variables of functions around it.

A fused body was traced with these as they were; when one has become another, it is traced again. The walk goes through modules,
closures, the globals that code names, containers and objects; it stops at modules of libraries.
"""

from __future__ import annotations

import functools
import types
from typing import Any

from dynograd.interpreter.recorded_methods import CELLS, READY
from dynograd.interpreter.tensor_parts import base_of
from dynograd.tensor.tensor import Tensor

_PLAIN = (int, float, bool, str, complex, bytes, type(None))
_MOST = 1000
_IGNORED = (
    "dynograd",
    "numpy",
    "builtins",
    "math",
    "typing",
    "functools",
    "collections",
    "itertools",
    "operator",
    "sys",
)


def watched(body: Any, owner: Any) -> list[Any] | None:
    """Everything that was met, in order; None where it is too much."""
    result: list[Any] = []
    seen: set[int] = set()
    waiting = [body if owner is None else owner, body]
    while waiting:
        waiting_one = waiting.pop()
        kind = type(waiting_one)
        result.append(waiting_one)
        if len(result) > _MOST:
            return None
        if kind in _PLAIN or id(waiting_one) in seen:
            continue
        seen.add(id(waiting_one))
        if isinstance(waiting_one, Tensor):
            pass  # written in place it is still itself
        elif kind is tuple or kind is list:
            waiting += waiting_one
        elif isinstance(waiting_one, dict):
            waiting += waiting_one.values()
        elif kind is types.FunctionType:
            if not _ignored(waiting_one.__module__):
                waiting += _around(waiting_one)
            elif waiting_one.__closure__:
                waiting += [cell.cell_contents for cell in waiting_one.__closure__ if _filled(cell)]
        elif kind is types.MethodType:
            waiting += [waiting_one.__func__, waiting_one.__self__]
        elif kind is functools.partial:
            waiting += [waiting_one.func, *waiting_one.args, *waiting_one.keywords.values()]
        elif not isinstance(waiting_one, (type, types.ModuleType, types.BuiltinFunctionType)):
            inside = getattr(waiting_one, "__dict__", None)
            if type(inside) is dict and ("_parameters" in inside or not _ignored(kind.__module__)):
                waiting += [value for name, value in inside.items() if name not in _CACHES]
                forward = getattr(kind, "forward", None)
                if type(forward) is types.FunctionType:
                    waiting.append(forward)
    return result


_CACHES = (CELLS, READY)


def _ignored(module: Any) -> bool:
    return (module or "").partition(".")[0] in _IGNORED


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _around(function: Any) -> list[Any]:
    result = [cell.cell_contents for cell in function.__closure__ or () if _filled(cell)]
    result += function.__defaults__ or ()
    result += (function.__kwdefaults__ or {}).values()
    space, codes = function.__globals__, [function.__code__]
    for code in codes:
        for name in code.co_names:
            if name in space:
                value = space[name]
                if isinstance(value, types.ModuleType):
                    if not _ignored(value.__name__):
                        result += [getattr(value, inner) for inner in code.co_names if inner in vars(value)]
                else:
                    result.append(value)
        codes += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return result


def same(left: list[Any], other: list[Any] | None) -> bool:
    """Whether two walks have met the same things, numbers and texts by value."""
    if other is None or len(left) != len(other):
        return False
    for first, second in zip(left, other):
        if first is not second and not (
            type(first) is type(second)
            and (
                first == second
                if type(first) in _PLAIN
                else type(first) is types.MethodType and first.__func__ is second.__func__
            )
        ):
            return False
    return True


def tensors_in(values: list[Any]) -> dict[int, Any]:
    """The tensors of a walk, by id."""
    return {id(tensor): tensor for tensor in values if isinstance(tensor, Tensor)}


def origin_of(tensor: Any, known: dict[int, Any]) -> tuple[Any, bool]:
    """(the known tensor that this is, whether this is its transposed view); (None, False) where it is none."""
    if id(tensor) in known:
        return tensor, False
    base = base_of(tensor)
    if base is not None and id(base) in known and tensor.array.ndim == 2:
        turned, array = base.array.T, tensor.array
        if (
            array.shape == turned.shape
            and array.strides == turned.strides
            and array.__array_interface__["data"] == turned.__array_interface__["data"]
        ):
            return base, True
    return None, False
