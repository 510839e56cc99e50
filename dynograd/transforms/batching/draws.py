"""Random functions inside `vmap`: an error, one draw for every example, or one draw that all share."""

from __future__ import annotations

from typing import Any

from dynograd.transforms.batching.batched import (
    Batched,
    BatchError,
    Level,
    active_levels,
    example,
    make_batched,
    run,
    without_last_level,
)
from dynograd.transforms.batching.elementwise import random_error
from dynograd.transforms.batching.places import RowPlaces

_BY_SIZE = {"rand", "randn"}
_LIKE = {"rand_like", "randn_like", "randint_like"}
_BY_ELEMENT = {"bernoulli", "normal"}


def draw_inside(function: Any, args: tuple, kwargs: dict) -> Any:
    """A random function called while a `vmap` runs in this thread (perhaps)."""
    levels = active_levels()
    if not levels:
        return function(*args, **kwargs)
    level = levels[-1]
    name = function.__name__
    if level.randomness == "error":
        raise random_error(name)
    first: Any = args[0] if args else kwargs.get("input")
    batched = [
        argument for argument in (*args, *kwargs.values()) if type(argument) is Batched and argument.level is level
    ]
    again = getattr(function, "__wrapped__", function)
    if isinstance(level.randomness, RowPlaces):
        if name.endswith("_"):
            raise BatchError(f"vmap: {name} fills memory in place.")
        with without_last_level():
            rows = [_of_example(level, again, args, kwargs, k) for k in level.randomness.in_turn(level.size)]
            return make_batched(level, run("stack", rows, 0))
    with without_last_level():
        if name.endswith("_"):
            return _fill(level, again, name, first, args, kwargs)
        if level.randomness == "same":
            if not batched:
                return _called(again, args, kwargs)
            if name in _LIKE:
                return _called(again, (example(first.inner, 0), *args[1:]), kwargs)
            raise BatchError(
                f"vmap: {name} of a tensor that differs from example to example cannot draw the same for all. Pass "
                f"randomness='different' to vmap."
            )
        if name in _LIKE and batched:
            return make_batched(level, _called(again, (first.inner, *args[1:]), kwargs))
        if name in _BY_SIZE and not kwargs.get("out"):
            size = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
            return make_batched(level, _called(again, (level.size, *size), kwargs))
        if name in _BY_ELEMENT and batched and len(args) == 1 and not kwargs:
            return make_batched(level, _called(again, (first.inner,), kwargs))
        return make_batched(
            level, run("stack", [_of_example(level, again, args, kwargs, k) for k in range(level.size)], 0)
        )


def _of_example(level: Any, function: Any, args: tuple, kwargs: dict, number: int) -> Any:
    def one(value: Any) -> Any:
        return example(value.inner, number) if type(value) is Batched and value.level is level else value

    return _called(function, tuple([one(value) for value in args]), {key: one(value) for key, value in kwargs.items()})


def _called(function: Any, args: tuple, kwargs: dict) -> Any:
    """The function, at the next level out."""
    return draw_inside(function, args, kwargs)


def _fill(level: Any, function: Any, name: str, target: Any, args: tuple, kwargs: dict) -> Any:
    """x.normal_() and the like."""
    if not (type(target) is Batched and target.level is level):
        if level.randomness == "different":
            raise BatchError(
                f"vmap: {name} would write a different draw for each example into a tensor that all examples share. Use an out-of-place "
                f"function, or randomness='same'."
            )
        _called(function, args, kwargs)
        return target
    if any(type(argument) is Batched and argument.level is level for argument in (*args[1:], *kwargs.values())):
        if level.randomness == "same":
            raise BatchError(
                f"vmap: {name} with numbers that differ from example to example cannot draw the same for all. Pass "
                f"randomness='different' to vmap."
            )
        copy = make_batched(level, run("clone", target.inner.detach()))
        rows = [_of_example(level, function, (copy, *args[1:]), kwargs, number) for number in range(level.size)]
        target.copy_(make_batched(level, run("stack", rows, 0)))
        return target
    if level.randomness == "same":
        drawn = run("clone", example(target.inner.detach(), 0))
        _called(function, (drawn, *args[1:]), kwargs)
        target.copy_(drawn)
    else:
        _called(function, (target.inner, *args[1:]), kwargs)
    return target


Level.draw = staticmethod(draw_inside)
