"""Looking into a program: where values come from, backward one node at a time, what layers do, who holds memory."""

from dynograd.debug.explaining import explain
from dynograd.debug.explanations import Explanation, Step
from dynograd.debug.recording import forget, provenance

__all__ = ["Explanation", "Step", "explain", "forget", "provenance"]
