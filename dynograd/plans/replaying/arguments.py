"""What a function is called with, and what it gives: trees of tensors and other things, compared and made without running its Python."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from dynograd.arrays import ndarray
from dynograd.interpreter import TENSORS
from dynograd.interpreter.override_protocol import is_overriding
from dynograd.interpreter.view_history import follow_base
from dynograd.plans.recording import kind_of
from dynograd.tensor.tensor import Tensor

__all__ = ["OTHER_KIND", "ArgumentGuard", "NotReplayed", "form_of"]

OTHER_KIND = "the dtype, layout or requires_grad of an argument"
_NUMBERS = (int, str, bytes, bool, type(None))


class NotReplayed(Exception):
    """Why a step cannot be replayed."""


def form_of(value: Any, tensors: list[Any], others: list[Any]) -> tuple[Any, ...]:
    """How a value is nested, with what is no tensor in it; its tensors and other objects in order."""
    kind = type(value)
    if isinstance(value, Tensor):
        tensors.append(value)
        return (Tensor,)
    if kind in _NUMBERS:
        return kind, value
    if kind in (float, complex):
        return kind, repr(value)
    if kind is list or isinstance(value, tuple):
        return kind, *[form_of(element, tensors, others) for element in value]
    if isinstance(value, dict):
        return kind, *[(key, form_of(element, tensors, others)) for key, element in value.items()]
    others.append(value)
    return kind, id(value)


class ArgumentGuard:
    """Whether a call has the arguments of another one, in other tensors.

    Args:
        args, kwargs: of the call that was traced.
        staying: ids of the tensors that the step has from elsewhere, which live as long as this.
    Raises:
        NotReplayed: they are none that can be compared.
    """

    def __init__(self, args: tuple, kwargs: dict[str, Any], staying: set[int]) -> None:
        self.tensors: list[Any] = []
        self.others: list[Any] = []
        self.form = form_of((args, kwargs), self.tensors, self.others)
        self.only_tensors = not kwargs and all([part == (Tensor,) for part in self.form[1][1:]])
        self.staying = staying
        for tensor in self.tensors:
            if type(tensor) not in TENSORS or type(tensor.array) is not ndarray:
                raise NotReplayed(f"an argument is a {type(tensor).__name__}")
        for value in self.others:
            if isinstance(value, (ndarray, set, list)):
                raise NotReplayed(
                    f"an argument is a {type(value).__name__}, which may hold something else in each call"
                )
        if not staying.isdisjoint(map(id, self.tensors)):
            raise NotReplayed("an argument is a tensor that the step has from elsewhere as well")
        self.kinds = [kind_of(tensor) for tensor in self.tensors]
        # Of each tensor: whether it requires grad, and has no gradient; what no copy compares.
        self.flags = [(tensor._requires_grad, tensor._grad is None) for tensor in self.tensors]
        self.compared = [*enumerate(self.kinds)]  # those that are not compared as they are copied, by place
        self.aliases = self._aliases(self.tensors)
        self.are_apart = len({*self.aliases}) == len(self.aliases)

    @staticmethod
    def _aliases(tensors: list[Any]) -> list[int]:
        places: dict[int, int] = {}
        return [places.setdefault(id(tensor), place) for place, tensor in enumerate(tensors)]

    def copies(self, places: Collection[int]) -> None:
        """The tensors at these places are compared when they are copied."""
        self.compared = [(place, kind) for place, kind in self.compared if place not in places]

    def failed(self, args: tuple, kwargs: dict[str, Any], tensors: list[Any]) -> str:
        """What is another thing now, "" if nothing; puts the call's tensors into `tensors`."""
        if self.only_tensors:
            tensors += args
            if kwargs or len(args) != len(self.kinds):
                return "an argument"
        elif form_of((args, kwargs), tensors, []) != self.form:
            return "an argument"
        for tensor, (requires_grad, without) in zip(tensors, self.flags):
            if type(tensor) not in TENSORS or is_overriding(type(tensor)):
                return "the type of an argument"
            if tensor._meta is not None:
                follow_base(tensor)
            if tensor.node is not None:
                return "an argument, which has a history"
            if tensor._requires_grad is not requires_grad or type(tensor.array) is not ndarray:
                return OTHER_KIND
            if (tensor._grad is None) is not without:
                return "whether an argument has a gradient"
        for place, kind in self.compared:
            if kind_of(tensors[place]) != kind:
                return OTHER_KIND
        ids = {*map(id, tensors)}
        if len(ids) != len(tensors) if self.are_apart else self._aliases(tensors) != self.aliases:
            return "which arguments are one tensor"
        if not self.staying.isdisjoint(ids):
            return "an argument, which is a tensor that the step has from elsewhere"
        return ""
