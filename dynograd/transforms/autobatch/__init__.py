"""Automatic batching: code for one example, run for many at once.

`autobatch()` records ops on tensors and runs those that are alike as one group, forward and backward; see docs/autobatch.md.
"""

from __future__ import annotations

from dynograd.transforms.autobatch.record.cells import cell
from dynograd.transforms.autobatch.scope import autobatch
from dynograd.transforms.autobatch.tasks import batched

__all__ = ["autobatch", "batched", "cell"]
