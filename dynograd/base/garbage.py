"""Python's garbage collector, which has nothing to find among what an import makes."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["uncollected"]


@contextmanager
def uncollected() -> Iterator[None]:
    """Without collections, each of which would look through all that has been imported so far: an eighth of the time.

    What it has made is old afterwards, so that the next collection does not look through it either; objects that a program has frozen
    stay frozen.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()  # into the oldest generation, without a look at any
            gc.enable()
