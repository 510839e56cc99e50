"""Looking into a program: where values come from, backward one node at a time, what layers do, who holds memory."""

from dynograd.debug.explaining import explain
from dynograd.debug.explanations import Explanation, Step
from dynograd.debug.recording import forget, provenance
from dynograd.debug.stepping import Stop, stepping
from dynograd.debug.watching import Alarm, LayerStatistics, Watcher, watch

__all__ = [
    "Alarm",
    "LayerStatistics",
    "Watcher",
    "watch",
    "Explanation",
    "Step",
    "Stop",
    "explain",
    "forget",
    "provenance",
    "stepping",
]
