"""Methods of which one call is one call of the record inside `autobatch`, whatever they compute.

What a recorder knows of a module's methods lies in the module: a dict under `CELLS`, method -> cell. It is neither copied nor saved.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from dynograd.autograd.modes import MODES
from dynograd.interpreter.signatures import standing_before
from dynograd.ops.readers import CALLS

CELLS = "_dynograd_cells"
READY = "_dynograd_ready"
NOT_QUICK = (
    KeyError,
    AttributeError,
    TypeError,
    ValueError,
)  # what quick recording raises of calls that it does not know


_LINES = f"""\
    if not own_state.scopes:
        return own_method(ARGS)
    try:
        own_cell = FIRST.__dict__["{CELLS}"][own_method]
        if own_cell.owner is FIRST:
            return own_cell.quick(ARGS_AFTER_FIRST)
    except own_not_quick:
        pass
    own_recorder = own_modes.recorder
    if own_recorder is None:
        return own_method(ARGS)
    return own_recorder.call_method(own_method, [ARGS], {{}})
"""

F = TypeVar("F", bound=Callable[..., Any])


class Ready:
    """What a module notes under `READY`: at `change` it had no hooks, and inside a scope `quick` records a call of `forward`.

    `owner` is whose calls those are, as the dict may come to another module: the module, or the dict of its parameters.
    """

    __slots__ = ("change", "forward", "owner", "quick")

    def __init__(self, change: Any = None, forward: Any = None, quick: Any = None, owner: Any = None) -> None:
        self.change, self.forward, self.quick, self.owner = change, forward, quick, owner

    def __reduce__(self) -> tuple:
        return Ready, ()


class Cells(dict):
    """The cells of one module."""

    def __reduce__(self) -> tuple:
        return Cells, ()


def recorded_whole(method: F) -> F:
    """Decorates a method, such as `forward`, that does the same ops for all inputs of the same shapes: see `dynograd.cell`."""
    result: Any = standing_before(
        method, _LINES, dict(own_modes=MODES, own_state=CALLS, own_method=method, own_not_quick=NOT_QUICK)
    )
    if result is not None:
        result.recorded = method
        return result

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        recorder = MODES.recorder
        return method(*args, **kwargs) if recorder is None else recorder.call_method(method, args, kwargs)

    return cast(F, call)


def recorded_as(op: str, *parameters: str, through: Any, attributes: tuple[str, ...] = ()) -> Callable[[F], F]:
    """Decorates a `forward(self, input)` that is `through.op(input, *its parameters of these names)`, and nothing else.

    Args:
        attributes: what else it depends on.
    """
    NOTED.update(attributes)

    def mark(forward: F) -> F:
        vars(forward)["recorded_as"] = op, parameters, vars(through)
        return forward

    return mark


NOTED = {"forward", "_compiled_call_impl"}
"""Attributes of modules with which the way of their calls changes."""
