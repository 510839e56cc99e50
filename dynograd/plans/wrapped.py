"""Batches of `vmap` and moving tensors of `jvp` in a request for gradients: the plain tensors inside them, and the form in which these lie in each other.

A record compares and hands out plain tensors only. A form is "plain", None, or a tuple: ("batch", level, form), ("moving", level, form, form of
the tangent), where levels are numbered in the order in which they are met. So two requests are alike when their forms and their plain tensors are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from dynograd.tensor.tensor import Tensor
from dynograd.transforms.batching.batched import Batched, make_batched
from dynograd.transforms.duals import Dual, make_dual

__all__ = ["Unwrapped", "changed", "has_wrapped"]


def has_wrapped(*groups: Any) -> bool:
    """Whether a batch or a moving tensor is among the tensors of the groups, each of which may be None."""
    return any([type(tensor) in (Batched, Dual) for group in groups if group is not None for tensor in group])


class Unwrapped:
    """Groups of tensors as plain ones.

    Args:
        groups: tuples of tensors (or None), or None.
    """

    def __init__(self, *groups: Any) -> None:
        self.levels: list[Any] = []
        self.groups: list[Any] = []
        forms = []
        for group in groups:
            form, plain = self.form_of(group)
            forms.append(form)
            self.groups.append(None if group is None else plain)
        self.form = tuple(forms)

    def form_of(self, group: Any, may_be_new: bool = True) -> tuple[Any, tuple[Any, ...]]:
        """The forms of a group's tensors, and the plain tensors in order.

        Raises:
            LookupError: `may_be_new` is False, and a level is none of those that are known.
        """
        plain: list[Any] = []
        forms = None if group is None else tuple([self._form(tensor, plain, may_be_new) for tensor in group])
        return forms, tuple(plain)

    def _form(self, tensor: Any, plain: list[Any], may_be_new: bool) -> object:
        if type(tensor) is Batched:
            return "batch", self._number(tensor.level, may_be_new), self._form(tensor.inner, plain, may_be_new)
        if type(tensor) is Dual:
            number = self._number(tensor.level, may_be_new)
            parts = [self._form(part, plain, may_be_new) for part in (tensor.primal, tensor.tangent)]
            return "moving", number, *parts
        plain.append(tensor)
        return None if tensor is None else "plain"

    def _number(self, level: Any, may_be_new: bool) -> int:
        for number, known in enumerate(self.levels):
            if known is level:
                return number
        if not may_be_new:
            raise LookupError("a level that is not among the operands")
        self.levels.append(level)
        return len(self.levels) - 1

    def wrapped(self, forms: Any, plain: Iterator[Any]) -> list[Any]:
        """Tensors of these forms around the plain ones."""
        return [self._wrapped(form, plain) for form in forms]

    def _wrapped(self, form: Any, plain: Iterator[Any]) -> Tensor | None:
        if type(form) is not tuple:
            return next(plain)
        if form[0] == "batch":
            return make_batched(self.levels[form[1]], self._wrapped(form[2], plain))
        primal, tangent = [self._wrapped(part, plain) for part in form[2:]]
        assert primal is not None and tangent is not None
        return make_dual(self.levels[form[1]], primal, tangent)


def changed(tensor: Any, change: Callable[[Any], Tensor]) -> Tensor:
    """A tensor with `change` of each plain tensor in it."""
    if type(tensor) is Batched:
        return make_batched(tensor.level, changed(tensor.inner, change))
    if type(tensor) is Dual:
        return make_dual(tensor.level, changed(tensor.primal, change), changed(tensor.tangent, change))
    return change(tensor)
