"""Ctrl-C in the midst of a step: wherever Python looks for signals, and at random moments.

Python looks for signals when a function begins, behind each call of a function that is not written in Python, and when a loop begins anew. The
first two are what `sys.setprofile` sees: there the signal is raised, one place of a step after the other.
"""

from __future__ import annotations

import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any


class Places:
    """Counts the places of a call where Python looks for signals, and raises one at a chosen place."""

    def __init__(self, place: int = -1) -> None:
        self.place, self.count = place, 0
        self.where = ""

    def __call__(self, frame: Any, event: str, argument: Any) -> None:
        if event not in ("call", "c_return") or frame.f_code.co_filename == __file__:
            return
        self.count += 1
        if self.count == self.place:
            sys.setprofile(None)
            self.where = f"{event} {getattr(argument, '__name__', '')} at {traceback.format_stack(frame, 4)}"
            signal.raise_signal(signal.SIGINT)

    def run(self, function: Callable[[], Any]) -> bool:
        """Whether the call was interrupted."""
        sys.setprofile(self)
        try:
            function()
        except KeyboardInterrupt:
            return True
        finally:
            sys.setprofile(None)
        return False
