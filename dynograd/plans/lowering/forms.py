"""What a lowered call is, and the table of written forms that families fill."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dynograd.autograd.modes import MODES
from dynograd.autograd.nodes import Partial
from dynograd.kernels.build.launches import Launch
from dynograd.kernels.index.indexing_cpu import out_of_range
from dynograd.ops.op import Op
from dynograd.plans.calls import Call

__all__ = ["FORMS", "Check", "IndexCheck", "Lowered", "Misfit", "arguments_of", "described", "form", "gradients_of"]

Form = Callable[..., "Lowered | None"]
FORMS: dict[tuple[str, str], Form] = {}
"""(kind of the call, name) -> form(call, arguments by name); None from a form: the call stays in Python."""


class Misfit(LookupError):
    """Numbers that the kernels of a call leave out, though the op takes them."""


class Check:
    """Lets an op say what is wrong where numbers in its inputs' memory do not fit. The kernels are safe for such numbers.

    Args:
        call: of the op.
        values: what is looked at: arrays and numbers.
    """

    def __init__(self, call: Any, *values: Any) -> None:
        self.call, self.values = call, values

    def __call__(self) -> None:
        if not self.fits(*self.values):
            plan, recorder, grad = MODES.plan, MODES.recorder, MODES.grad
            MODES.plan, MODES.recorder, MODES.grad = None, None, 0  # the op is none of the program's
            try:
                self.call.compute()
            finally:
                MODES.plan, MODES.recorder, MODES.grad = plan, recorder, grad
            raise Misfit("the kernels of this call leave out what follows such numbers")

    def fits(self, *values: Any) -> bool:
        raise NotImplementedError


class IndexCheck(Check):
    """Of index arrays that must not leave what they are for; the kernels leave out what follows such an index.

    Its values are (index array, the least that it may hold, what it must be below).
    """

    def fits(self, *values: Any) -> bool:
        return all([out_of_range(index, low, high) is None for index, low, high in values])


class Lowered(list[Launch]):
    """Launches that write all outputs of a call from its inputs, in order.

    Args:
        launches: in order.
        exact: whether the outputs have the bits of the eager call; else they differ by rounding.
        check: called before the launches; raises what the eager call would raise for the values in the inputs' memory, for any of which the
            launches are safe then.
        draw: an array of seed and offset (uint64), where the launches look for the place in the random stream at which they draw.
        places: of launches that were noted, where they read whole numbers anew in each step: pairs of an array of such numbers and some that
            fit.
        scratch: arrays of whole numbers beside the call's own, which the launches write before they read them.
    """

    __slots__ = ("check", "draw", "exact", "places", "scratch")

    def __init__(
        self,
        launches: Iterable[Launch] = (),
        exact: bool = True,
        check: Callable[[], None] | None = None,
        draw: Any = None,
        places: Sequence[tuple[Any, Any]] | None = None,
        scratch: Sequence[Any] = (),
    ) -> None:
        super().__init__(launches)
        self.exact, self.check, self.draw, self.places, self.scratch = exact, check, draw, places, scratch


def form(kind: str, *names: str) -> Callable[[Form], Form]:
    """Enters a form for calls of this kind and these names."""

    def enter(function: Form) -> Form:
        for name in names:
            assert (kind, name) not in FORMS, (kind, name)
            FORMS[kind, name] = function
        return function

    return enter


def described(op: Op, arguments: dict[str, Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """`Call.inputs` and `Call.statics` of a call of an op.

    Args:
        op: its row.
        arguments: by the names of the op's function, as they came; arrays in place of tensors.
    """
    values = dict(arguments)
    for alias, name in (("axis", "dim"), ("keepdims", "keepdim")):
        if values.get(alias) is not None:
            values[name] = values[alias]
    inputs: list[Any] = []
    for name in op.array_names:
        value: Any = values.get(name)
        inputs += value if name == op.list_name else [value]
    return tuple(inputs), tuple([values.get(name) for name in op.static_names])


def arguments_of(call: Call) -> dict[str, Any]:
    """The arguments of a call of an op by name: arrays, numbers, None, a list of arrays."""
    op, inputs = call.op, list(call.inputs)
    arguments: dict[str, Any] = dict(zip(op.static_names, call.statics))
    for position, name in enumerate(op.array_names):
        if name == op.list_name:
            count = len(inputs) - (len(op.array_names) - position - 1)
            arguments[name], inputs = inputs[:count], inputs[count:]
        else:
            arguments[name] = inputs.pop(0)
    return arguments


def gradients_of(call: Call) -> dict[int, Any] | None:
    """What comes to the rule of an op with several results, by their numbers; None where the call does not say which are there."""
    g = getattr(call.compute, "g", None)
    return dict(g.parts) if type(g) is Partial else None
