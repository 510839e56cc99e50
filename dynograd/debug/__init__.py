"""Looking into a program: where values come from, backward one node at a time, what layers do, who holds memory, a step of a run again."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from dynograd.debug.explaining import explain
from dynograd.debug.explanations import Explanation, Step
from dynograd.debug.holders import who_holds
from dynograd.debug.recording import forget, provenance
from dynograd.debug.stepping import Stop, stepping
from dynograd.debug.watching import Alarm, LayerStatistics, Watcher, watch

if TYPE_CHECKING:
    from dynograd.runs.replaying import replay

__all__ = [
    "who_holds",
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
    "replay",
    "stepping",
]


def __getattr__(name: str) -> Any:
    if name == "replay":  # of the runs, which lie above
        return importlib.import_module("dynograd.runs.replaying").replay
    raise AttributeError(f"module 'dynograd.debug' has no attribute {name!r}")
