"""Modules whose call is one call of the record inside `autobatch`, whatever they compute."""

from __future__ import annotations

import functools
from typing import Any

from dynograd.autograd.modes import MODES

__all__ = ["recorded_whole"]


def recorded_whole(forward: Any) -> Any:
    """Decorates a `forward` that does the same ops for all inputs of the same shapes: see `dynograd.cell`."""

    @functools.wraps(forward)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = MODES.recorder
        if recorder is None:
            return forward(self, *args, **kwargs)
        return recorder.call_as_cell(self, forward, args, kwargs)

    return call
