"""Python's garbage collector, which has nothing to find among what an import makes."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["age", "collect", "paused", "uncollected"]

_FEW = 10_000  # objects: Python looks at them in a millisecond
_MOST_AGED = 400_000  # objects that a collection takes half a second for
# By the program: once seen, it is not asked again, since counting them takes longer the more there are.
_some_are_frozen = False
_aged = 0  # objects, since `collect`


def age() -> bool:
    """Puts all objects into the oldest generation, without a look at any; not where the program has frozen some, which stay frozen, or where few are young.

    Gives whether `collect` is due. Python looks at old objects once it has looked at young ones so many times, which it counts from the beginning
    behind this: a process that compiles again and again would never come to it.
    """
    global _some_are_frozen, _aged
    _some_are_frozen = _some_are_frozen or gc.get_freeze_count() > 0
    young = gc.get_count()[0]
    if _some_are_frozen or young < _FEW:
        return False
    _aged += young
    gc.freeze()
    gc.unfreeze()
    return _aged > _MOST_AGED


def collect() -> None:
    """Looks at all objects."""
    global _aged
    _aged = 0
    gc.collect()


@contextmanager
def paused() -> Iterator[None]:
    """Without collections; what is made is as young afterwards as without a pause."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def uncollected() -> Iterator[None]:
    """Without collections, each of which would look through all that has been imported so far: an eighth of the time.

    What it has made is old afterwards, so that the next collection does not look through it either; objects that a program has frozen
    stay frozen.
    """
    was_enabled = gc.isenabled()
    with paused():
        try:
            yield
        finally:
            if was_enabled:
                age()
