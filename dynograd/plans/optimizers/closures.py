"""What optimizers call to have the loss again: `optimizer.step(closure)` in a compiled step.

An optimizer that calls it once, first of all, is the same as the call and then a step without it. One that calls it as often as it likes (LBFGS; one of a
program's own) decides by what comes of it: the step then runs as it is written, and each closure is compiled by itself.
"""

from __future__ import annotations

from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from dynograd.autograd.modes import MODES, enable_grad
from dynograd.optim import hooks
from dynograd.optim.optimizer import Optimizer

if TYPE_CHECKING:
    from dynograd.plans.compiling import Compiled

__all__ = ["REASON", "Closures", "is_usual", "stepped_behind"]

REASON = "the step of an optimizer that calls its closure when it likes: the closure is compiled by itself"


def is_usual(optimizer: Any) -> bool:
    """Whether its step is the one that all optimizers with a rule have."""
    return type(optimizer).step.__wrapped__ is Optimizer.step.__wrapped__


def stepped_behind(optimizer: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[object] | None:
    """Calls the closure, then the optimizer's step without it, and gives the loss in a tuple; None: this is no such call."""
    closure = args[0] if len(args) == 1 else kwargs.get("closure")
    if len(args) + len(kwargs) != 1 or closure is None or not is_usual(optimizer) or hooks.are_there(optimizer):
        return None
    with enable_grad():
        loss = closure()
    optimizer.step()
    return (loss,)


class Closures:
    """Of a compiled function: the closures of its optimizers, by their code."""

    def __init__(self) -> None:
        self._owner: Compiled | None = None  # during a call
        self.all: dict[CodeType, Compiled] = {}
        self.calls = 0  # that had one
        self.latest = False  # whether the latest call had one

    def note(self) -> str:
        """A step with such a closure is recorded: the next calls of it go by `call`. Why."""
        self.latest = True
        return REASON

    def call(self, owner: Compiled, args: tuple, kwargs: dict[str, Any]) -> object:
        """A call of a function that had a closure the latest time."""
        before, MODES.closures = MODES.closures, self
        self._owner, self.latest = owner, False
        try:
            return owner.function(*args, **kwargs)
        finally:
            MODES.closures, self._owner = before, None
            self.calls += self.latest

    def within(self, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        """The arguments of an optimizer's step with its closure compiled."""
        self.latest = True
        return tuple([self._of(value) for value in args]), {name: self._of(value) for name, value in kwargs.items()}

    def _of(self, closure: Any) -> object:
        if type(closure) is not FunctionType or self._owner is None:
            return closure
        compiled = self.all.get(closure.__code__)
        if compiled is None:
            compiled = self.all[closure.__code__] = self._owner.of_closure(closure)
        compiled.function = closure  # a step makes another one in each call
        return compiled
