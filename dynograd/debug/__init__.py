"""Looking into a program: where values come from, backward one node at a time, what layers do, who holds memory, a step of a run again."""

from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.debug.explaining import explain
from dynograd.debug.explanations import Explanation, Step
from dynograd.debug.holders import who_holds
from dynograd.debug.recording import forget, provenance
from dynograd.debug.replaying import replay
from dynograd.debug.stepping import Stop, stepping
from dynograd.debug.watching import Alarm, LayerStatistics, Watcher, watch

__all__ = ["explain", "forget", "provenance", "replay", "stepping", "watch", "who_holds"]

_show_plainly(globals())
