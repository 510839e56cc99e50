"""Memory of large arrays: how much is in use, how much is kept for the next ones, and how to give it back.

Pages that are fresh from the system cost more than most arithmetic on them, so dynograd keeps the memory of large results
(256 KiB and more) when they die and hands it to later ones. `statistics()` says how much, `set_limit(bytes)` bounds what lies
unused, and `release()` gives it back at once.

>>> x = dynograd.zeros(1000, 1000)
>>> del x
>>> dynograd.memory.release() >= 4_000_000
True
>>> dynograd.memory.statistics()["unused"]
0

`tracking()` notes which lines and modules make memory, `snapshot()` tells who holds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynograd.arrays.buffers import limit, release, reset_peak, set_limit, statistics

if TYPE_CHECKING:  # they lie above, and are imported when they are called
    from dynograd.debug.memory_lines import snapshot, tracking

__all__ = ["limit", "release", "reset_peak", "set_limit", "snapshot", "statistics", "tracking"]
