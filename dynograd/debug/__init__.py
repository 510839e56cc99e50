"""Looking into a program: where values come from, backward one node at a time, what layers do, who holds memory."""

from dynograd.debug.explaining import explain
from dynograd.debug.explanations import Explanation, Step
from dynograd.debug.recording import forget, provenance
from dynograd.debug.stepping import Stop, stepping

__all__ = ["Explanation", "Step", "Stop", "explain", "forget", "provenance", "stepping"]
