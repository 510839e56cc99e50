"""Modules whose call is one call of the record inside `autobatch`, whatever they compute."""

from __future__ import annotations

import functools
from typing import Any

from dynograd.autograd.modes import MODES
from dynograd.interpreter.signatures import standing_before

__all__ = ["recorded_whole"]

_LINES = """\
    own_recorder = own_modes.recorder
    if own_recorder is None:
        return own_forward(ARGS)
    own_cell = self.__dict__.get("_cell")
    if own_cell is not None and own_cell.owner is self:
        own_quick = own_cell.quick
        if own_quick is not None:
            try:
                return own_quick(own_recorder, ARGS_AFTER_FIRST)
            except own_cell.not_quick:
                pass
    return own_recorder.call_method(own_forward, ARGS)
"""


def recorded_whole(forward: Any) -> Any:
    """Decorates a `forward` that does the same ops for all inputs of the same shapes: see `dynograd.cell`."""
    found = standing_before(forward, _LINES, dict(own_modes=MODES, own_forward=forward))
    if found is not None:
        return found

    @functools.wraps(forward)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = MODES.recorder
        if recorder is None:
            return forward(self, *args, **kwargs)
        return recorder.call_as_cell(self, forward, args, kwargs)

    return call
