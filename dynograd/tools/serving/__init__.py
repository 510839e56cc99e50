"""Models that answer requests: `dynograd.serving`.

A `Batcher` answers rows of different lengths in ragged batches, a pool (`batched(function, running=True)`) runs any program over one example; a
`Service` gives both names and versions, and is what `python -m dynograd.serve` puts behind HTTP.
"""

from __future__ import annotations

from dynograd.tools.serving.batcher import Batcher
from dynograd.tools.serving.engines import Caller
from dynograd.tools.serving.service import Model, Service

__all__ = ["Batcher", "Caller", "Model", "Service"]
