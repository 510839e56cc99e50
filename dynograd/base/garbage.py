"""Python's garbage collector, which has nothing to find among what an import makes."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["uncollected", "age"]

# By the program: once seen, it is not asked again, since counting them takes longer the more there are.
_some_are_frozen = False


def age() -> None:
    """Puts all objects into the oldest generation, without a look at any; not where the program has frozen some, which stay frozen."""
    global _some_are_frozen
    _some_are_frozen = _some_are_frozen or gc.get_freeze_count() > 0
    if not _some_are_frozen:
        gc.freeze()
        gc.unfreeze()


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
            age()
            gc.enable()
