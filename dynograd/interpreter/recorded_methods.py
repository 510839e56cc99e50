"""Methods of which one call is one call of the record inside `autobatch`, whatever they compute.

What a recorder knows of a module's methods lies in the module: a dict under `CELLS`, method -> cell. It is neither copied nor saved.
"""

from __future__ import annotations

import functools
from typing import Any

from dynograd.autograd.modes import MODES
from dynograd.interpreter.signatures import standing_before

__all__ = ["CELLS", "NOT_QUICK", "READY", "STATE", "Cells", "Ready", "recorded_whole"]

CELLS = "_dynograd_cells"
READY = "_dynograd_ready"
NOT_QUICK = (
    KeyError,
    AttributeError,
    TypeError,
    ValueError,
)  # what quick recording raises of calls that it does not know


class State:
    """Of all threads: `scopes` is how many record now, `hooked` another object whenever some module has been given a hook."""

    def __init__(self) -> None:
        self.scopes, self.hooked = 0, object()

    def note_hook(self) -> None:
        self.hooked = object()


STATE = State()


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


class Ready:
    """What a module notes under `READY`: it had no hooks when `STATE.hooked` was `hooked`; its `forward` is `cell`, if that is what a recorder knows of it."""

    __slots__ = ("cell", "forward", "hooked")

    def __init__(self, hooked: Any = None, cell: Any = None, forward: Any = None) -> None:
        self.hooked, self.cell, self.forward = hooked, cell, forward

    def __reduce__(self) -> tuple:
        return Ready, ()


class Cells(dict):
    """The cells of one module."""

    def __reduce__(self) -> tuple:
        return Cells, ()


def recorded_whole(method: Any) -> Any:
    """Decorates a method, such as `forward`, that does the same ops for all inputs of the same shapes: see `dynograd.cell`."""
    found = standing_before(
        method, _LINES, dict(own_modes=MODES, own_state=STATE, own_method=method, own_not_quick=NOT_QUICK)
    )
    if found is not None:
        found.recorded = method
        return found

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        recorder = MODES.recorder
        return method(*args, **kwargs) if recorder is None else recorder.call_method(method, args, kwargs)

    return call
