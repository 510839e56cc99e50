"""What a trace notes, and how it reads frames of Python."""

from __future__ import annotations

import dis
import functools
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from dynograd.arrays import ndarray
from dynograd.tensor.tensor import Tensor

__all__ = [
    "Again",
    "Call",
    "Check",
    "Moment",
    "Write",
    "bound_arguments",
    "code_of",
    "count_of_arguments",
    "described",
    "first_argument",
    "frames_above",
    "global_names",
    "has_gradients",
    "has_tensors",
    "method_of",
]


_OF_GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS", "STORE_GLOBAL", "DELETE_GLOBAL")


class Call(NamedTuple):
    """A function of dynograd that has made a tensor of numbers in the step."""

    make: Callable[..., Tensor]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    draws: bool


class Moment(NamedTuple):
    """When something was done: the number of the step of the record that comes next, and what had been noted before."""

    number: int
    order: int


class Write(NamedTuple):
    """A write in place into a tensor from outside; arguments are described."""

    at: Moment
    target: Tensor
    method: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Check(NamedTuple):
    """Values that are looked at before they are used, such as indices: `check` raises what is wrong with `array`, which is described."""

    at: Moment
    check: Callable[[Any], object]
    array: tuple[str, Any]


class Again(NamedTuple):
    """A function that changes gradients in place, and is called again in each replay; `result` is what it gave."""

    at: Moment
    function: Callable[..., Any]
    tensors: list[Tensor]
    kwargs: dict[str, Any]
    result: Any


def described(value: Any, numbers: dict[int, int]) -> tuple[str, Any]:
    """A value of the step by its number in the tree, a tensor from outside, or what else an op may be called with."""
    if isinstance(value, Tensor):
        number = numbers.get(id(value))
        return ("tensor", value) if number is None else ("value", number)
    if isinstance(value, (list, tuple)):
        return "list", (type(value), [described(element, numbers) for element in value])
    return "plain", value


def first_argument(frame: Any) -> object:
    code = frame.f_code
    if code.co_argcount:
        return frame.f_locals.get(code.co_varnames[0])
    if code.co_flags & inspect.CO_VARARGS:
        return next(iter(frame.f_locals.get(code.co_varnames[code.co_kwonlyargcount], ())), None)
    return None


def method_of(frame: Any) -> Callable[..., Any] | None:
    """The method of tensors that a frame is of; forms in place of composed ops say in `who` which one they are."""
    name = frame.f_code.co_name
    if name == "set_item":
        name = "__setitem__"
    elif name == "guarded":
        name = frame.f_locals["who"]
    return None if name == "__dynograd_write__" else getattr(Tensor, name, None)


def bound_arguments(frame: Any) -> tuple[tuple, dict[str, Any]]:
    """The arguments of a call in place behind the tensor itself, as the frame has them."""
    code, values = frame.f_code, frame.f_locals
    named = code.co_argcount + code.co_kwonlyargcount
    args: list[Any] = [values[name] for name in code.co_varnames[: code.co_argcount]]
    kwargs: dict[str, Any] = {name: values[name] for name in code.co_varnames[code.co_argcount : named]}
    for name in code.co_varnames[named : count_of_arguments(code)]:
        if isinstance(values[name], tuple):
            args += values[name]
        else:
            kwargs |= values[name]
    args = args[1:]
    return tuple(args), kwargs


def count_of_arguments(code: Any) -> int:
    more = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_argcount + code.co_kwonlyargcount + more


def frames_above(frame: Any) -> Iterator[Any]:
    frame = frame.f_back
    while frame is not None:
        yield frame
        frame = frame.f_back


@functools.lru_cache(maxsize=4096)
def global_names(code: types.CodeType) -> tuple[str, ...]:
    """The global names that a function itself reads: attributes may have the same names."""
    loads = [instruction for instruction in dis.get_instructions(code) if instruction.opname.startswith(_OF_GLOBALS)]
    return tuple(dict.fromkeys([instruction.argval for instruction in loads]))


def code_of(function: Any) -> types.CodeType | None:
    return getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None


def has_tensors(values: list[Any]) -> bool:
    return any(
        [
            isinstance(value, (Tensor, ndarray)) or (isinstance(value, (list, tuple)) and has_tensors(list(value)))
            for value in values
        ]
    )


def has_gradients(values: list[Any]) -> bool:
    return any([isinstance(value, Tensor) and value.requires_grad for value in values])
