"""What a compiled function in mode "replay" knows of its ways: which are replayed, and why others are not."""

from __future__ import annotations

import sys
from typing import Any

from dynograd.plans.replaying.arguments import NotReplayed
from dynograd.plans.replaying.learning import modes
from dynograd.plans.replaying.replays import FAILS, Replay
from dynograd.plans.replaying.traces import Trace
from dynograd.plans.steps import Path
from dynograd.plans.walks import Walk

__all__ = ["Replays"]

_MOST_VARIANTS = 8  # of one walk at one size, in what guards look at
_MOST_SIZES = 256  # of one walk
_OLD = 16 * _MOST_SIZES  # calls after which a size that did not come gives its place to another one


class _OfSize:
    """The replays of a walk at one size, those that were made last first."""

    def __init__(self) -> None:
        self.replays: list[Replay] = []
        self.walked: Any = None  # the way that was walked last
        self.time = 0  # the call that had it last


class Replays:
    """Of one compiled function."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner
        self.times = self.refused = 0  # calls that were replayed; ways that are not

    def call(self, walk: Walk, sizes: tuple, args: tuple, kwargs: dict[str, Any]) -> list[object] | None:
        """What the function gives, alone in a list; None: the call is to be walked."""
        known = walk.replays.get(sizes)
        if known is None or not known.replays:
            return None
        known.time = self.owner.calls
        reason = ""
        for replay in known.replays:
            tensors: list[Any] = []
            outcome = replay.failed(args, kwargs, tensors) or replay.run(tensors)
            if isinstance(outcome, list):
                self.times += 1
                return outcome
            reason = reason or outcome
            if outcome is FAILS:
                reason = FAILS
                break
        self.owner.note_left(f"not replayed, since this is another one now: {reason}")
        return None

    def trace(self, walk: Walk, sizes: tuple) -> Trace | None:
        """A trace of a call that is about to be walked, where one is wanted."""
        known = walk.replays.get(sizes)
        if known is None or len(known.replays) >= _MOST_VARIANTS or sys.getprofile() is not None:
            return None
        if known.walked.not_replayed:
            return None
        if walk.path.program.on_gpu:
            self._refuse(walk.path, "it is computed on a GPU", "")
            return None
        return Trace(walk, modes())

    def walked(
        self, walk: Walk, sizes: tuple, trace: Trace | None, args: tuple, kwargs: dict[str, Any], box: list[Any]
    ) -> None:
        """A call has been walked from its beginning to its end.

        Raises:
            RuntimeError: it cannot be replayed, and `fullgraph` is True.
        """
        known = walk.replays.get(sizes)
        if known is None:
            if len(walk.replays) >= _MOST_SIZES:
                oldest = min(walk.replays, key=lambda its: walk.replays[its].time)
                if self.owner.calls - walk.replays[oldest].time < _OLD:
                    return  # where all come in turn, none would be there when it comes again
                del walk.replays[oldest]
            known = walk.replays[sizes] = _OfSize()
        known.time, known.walked = self.owner.calls, walk.path
        if trace is None or walk.path.not_replayed:
            return
        try:
            if walk.path.program.on_gpu:
                raise NotReplayed("it is computed on a GPU")
            known.replays.insert(0, Replay(trace, args, kwargs, box))
        except NotReplayed as error:
            self._refuse(walk.path, str(error), trace.line or "its end")
            if self.owner.fullgraph:
                raise RuntimeError(
                    f"compile: {self.owner.name} cannot be replayed, as fullgraph=True and mode='replay' ask: {error}, at "
                    f"{trace.line or 'its end'}. Leave fullgraph out, or change the program there."
                ) from None

    def _refuse(self, path: Path, reason: str, line: str) -> None:
        """The way is walked from now on, at all its sizes."""
        path.not_replayed = reason
        self.refused += 1
        self.owner.note_left(f"not replayed: {reason}", line)

    def why_not(self) -> str:
        """Why nothing is replayed, "" where something is, or the reason has been noted."""
        if self.times or self.refused or not self.owner.ways:
            return ""
        return "not replayed: no way has been walked twice from its beginning to its end, the second time to be watched"
