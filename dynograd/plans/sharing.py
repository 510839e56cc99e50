"""What the walks of one function share: memory, of which one path at a time is computed in, and the code that ops have meanwhile."""

from __future__ import annotations

import weakref
from sys import getrefcount
from typing import Any

from dynograd.plans.gpu.array_kinds import own_copy
from dynograd.plans.handed import Handed, become, new_handed
from dynograd.plans.memory import Arena
from dynograd.plans.walk_readers import WalkReader

__all__ = ["Shared", "let_gradient_go"]


class Shared:
    """There is a walk for each size of the function's arguments; the last one's tensors may still be the program's."""

    def __init__(self, walk_class: type) -> None:
        self.arena = Arena()
        self.reader = WalkReader(walk_class)
        weakref.finalize(self, self.reader.end).atexit = False
        self.walk: Any = None  # the one that was begun last
        self.path: Any = None  # the path that was computed last
        self.computed: Any = None  # its walk
        self.let_go_of = (
            0  # values of the call before that someone had when this one began; those that share memory twice
        )

    def let_go(self) -> None:
        """Another call begins: what the program has of the last one becomes its own."""
        self.let_go_of = 0
        if self.walk is not None:
            self.walk.let_go()

    def make_room(self, walk: Any, path: Any) -> None:
        """The memory is about to be overwritten by another path: its gradients, which leaves may still have, become their own."""
        before = self.computed
        if self.path is not None:
            for _, number, tensor in self.path.gradients:
                if (
                    walk is not before or number not in walk.assigned
                ):  # else it is this step's own, and not yet computed
                    let_gradient_go(before, number, tensor)
        self.computed, self.path = walk, path

    def keep_gradients(self, walk: Any) -> None:
        """A step is about to be computed anew: gradients of the one before that leaves still have become their own."""
        for _, number, tensor in walk.path.gradients:
            if number not in walk.assigned:
                let_gradient_go(walk, number, tensor)

    def is_leased(self) -> bool:
        """Whether the memory is still needed for a backward pass."""
        return self.walk is not None and self.walk.is_leased()


def let_gradient_go(walk: Any, number: int, tensor: Any) -> None:
    """A gradient that somebody has becomes its own."""
    handed = walk.handed[number]
    if type(handed) is Handed and getrefcount(handed) != walk.counts[number] + 1:
        walk.put_in_place(number, new_handed(walk.values[number]))
        become(handed, own_copy(tensor.array), None, False)
