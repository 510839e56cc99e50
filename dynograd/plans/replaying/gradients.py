"""The gradients of a replay's leaves: usually those that the replay before has left, which nobody else has and which stay where they are."""

from __future__ import annotations

from typing import Any

from dynograd.plans.handed import Handed
from dynograd.plans.watches import Watch

__all__ = ["ReplayedGradients"]


class ReplayedGradients:
    """Whether all leaves have what a replay leaves, asked in one compiled call.

    Args:
        walk: of the replay.
        path: its way.
        without, with_gradient: leaves that have no gradient when it begins, and those that have one.
    """

    def __init__(self, walk: Any, path: Any, without: list[Any], with_gradient: list[Any]) -> None:
        self.walk, self.without = walk, without
        steps = [step for step in path.steps if step.event.kind == "backward"]
        self.step = steps[0] if len(steps) == 1 else None
        self.leaves: list[tuple[Any, int]] = []
        if self.step is not None and not any([had for _, _, had in self.step.subject]):
            self.leaves = [(walk._outside_now(path, place), number) for place, number, _ in self.step.subject]
        known = {id(leaf) for leaf, _ in self.leaves}
        if not self.leaves or known != {id(leaf) for leaf in with_gradient}:
            self.step = None
        self.numbers = {number for _, number in self.leaves}
        self._watch: Any = None
        self._counted: Any = None  # the walk's watch, which is another one when references are counted anew

    def is_of(self, step: Any) -> bool:
        """Whether these are all gradients of a backward pass, and there is no other."""
        return step is self.step

    def are_those_of_replay(self) -> bool:
        """Whether all leaves have what the replay before has left, or have none where it begins without."""
        if self.step is None:
            return False
        walk = self.walk
        if self._counted is not walk.watch:
            self._counted = walk.watch
            self._watch = watch = Watch()
            for leaf in self.without:
                watch.field(leaf, "_grad", None)
            for leaf, number in self.leaves:
                tensor = walk.handed[number]
                watch.field(leaf, "_grad", tensor, number)
                watch.kind(number, tensor, Handed)
                watch.holders(number, tensor, walk.counts[number] + 1)
            walk.watch_too(watch.close())
        return bool(self._watch.holds())
