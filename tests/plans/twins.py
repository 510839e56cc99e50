"""Twins: the same program as it is written and compiled, and what must be equal of them."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy

import dynograd as torch
from dynograd import nn
from dynograd.plans import programs, walks
from dynograd.plans.compiling import Compiled
from dynograd.plans.handed import Handed

__all__ = ["Outcome", "difference", "in_python_form", "outcome_of", "overwritten_between_steps", "seen"]


@contextlib.contextmanager
def in_python_form() -> Iterator[None]:
    """Inside, plans that are made compute all their calls in the Python form: with eager's bits."""
    lower, groups_of = programs.lower, programs.groups_of
    programs.lower, programs.groups_of = lambda call: None, lambda *args: []
    try:
        yield
    finally:
        programs.lower, programs.groups_of = lower, groups_of


@contextlib.contextmanager
def overwritten_between_steps() -> Iterator[None]:
    """Inside, a step begins in memory full of zeros or of ones: what it reads it must have written, but gradients that leaves still have."""
    begin, numbers = walks.Walk.begin_along, numpy.random.default_rng(0)

    def begin_anew(walk: Any, path: Any) -> None:
        begin(walk, path)
        gradients = [] if walk.shared.path is None else walk.shared.path.gradients
        kept = [tensor.array for leaf, _, tensor in gradients if type(leaf._grad) is Handed]
        copies = [array.copy(order="K") for array in kept]
        walk.arena.whole[...] = numbers.choice([0, 1, 255])
        for array, copied in zip(kept, copies):
            array[...] = copied

    walks.Walk.begin_along = begin_anew  # type: ignore[method-assign]
    try:
        yield
    finally:
        walks.Walk.begin_along = begin  # type: ignore[method-assign]


def seen(value: Any, memo: dict[int, Any] | None = None) -> Any:
    """All that a program can see of a value, as plain objects: of a tensor its numbers, its gradient, and whether it has a history."""
    memo = {} if memo is None else memo
    if isinstance(value, torch.Tensor):
        if id(value) in memo:
            return memo[id(value)]
        result = ["tensor", str(value.dtype), tuple(value.shape), value.requires_grad, value.is_leaf]
        memo[id(value)] = result
        result.append(
            numpy.array(
                value.detach().resolve_conj().float().numpy()
                if value.dtype is torch.bfloat16
                else value.detach().numpy()
            )
        )
        if value.is_leaf and value.requires_grad:
            result.append(seen(value.grad, memo))
        return result
    if isinstance(value, nn.Module):
        return [
            [[name, seen(tensor, memo)] for name, tensor in (*value.named_parameters(), *value.named_buffers())],
            value.training,
        ]
    if isinstance(value, torch.optim.Optimizer):
        groups = [
            {name: element for name, element in group.items() if name != "params"} for group in value.param_groups
        ]
        return [seen(list(value.state_dict()["state"].items()), memo), seen(groups, memo)]
    if isinstance(value, dict):
        return {name: seen(inner, memo) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [seen(inner, memo) for inner in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return seen(list(vars(value).values()), memo)
    if isinstance(value, Compiled):
        return None
    return value


def difference(first: Any, second: Any, tolerance: float = 0.0, where: str = "") -> str | None:
    """Where two values that `seen` gave differ; None: nowhere."""
    if type(first) is not type(second):
        return f"{where}: {first!r} and {second!r}"
    if isinstance(first, dict):
        if first.keys() != second.keys():
            return f"{where}: {list(first)} and {list(second)}"
        pairs = [(first[name], second[name], f"{where}[{name!r}]") for name in first]
    elif isinstance(first, list):
        if len(first) != len(second):
            return f"{where}: {len(first)} and {len(second)} values: {first!r} and {second!r}"
        pairs = [(each, other, f"{where}[{place}]") for place, (each, other) in enumerate(zip(first, second))]
    elif isinstance(first, numpy.ndarray):
        return None if _equal(first, second, tolerance) else f"{where}: {first} and {second}"
    elif isinstance(first, (float, complex)):
        return difference(numpy.asarray(first), numpy.asarray(second), tolerance, where)
    else:
        return None if first == second else f"{where}: {first!r} and {second!r}"
    for element, other, place in pairs:
        result = difference(element, other, tolerance, place)
        if result:
            return result
    return None


def _equal(first: Any, second: Any, tolerance: float) -> bool:
    if first.dtype != second.dtype or first.shape != second.shape:
        return False
    if first.dtype.kind not in "fc":
        return first.tobytes() == second.tobytes()
    if tolerance:
        return bool(numpy.allclose(first, second, tolerance, tolerance, equal_nan=True))
    return bool(
        (
            (first == second) & (numpy.signbit(first.real) == numpy.signbit(second.real))
            | ((first != first) & (second != second))
        ).all()
    )


class Outcome:
    """What a call gave, or raised."""

    def __init__(self, value: Any, error: BaseException | None) -> None:
        self.value, self.error = value, error

    def seen(self) -> Any:
        if self.error is None:
            return seen(self.value)
        told = f"{type(self.error).__name__}: {self.error}"
        told = re.sub(
            r"backward of [^:]+: Trying.*", "backward a second time", told
        )  # of what a compiled function gave
        return re.sub(r"backward of [^:]+: (.* modified by an inplace operation).*", r"\1", told)


def outcome_of(function: Callable[[], Any]) -> Outcome:
    try:
        return Outcome(function(), None)
    except Exception as error:
        return Outcome(None, error.with_traceback(None))
