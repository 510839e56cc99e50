"""Models that answer requests: `dynograd.serving`.

A `Batcher` answers rows of different lengths in ragged batches; a pool (`dynograd.batched(function, running=True)`) runs any program over one
example, and lets new examples in while others are under way.
"""

from __future__ import annotations

from dynograd.tools.serving.batcher import Batcher

__all__ = ["Batcher"]
