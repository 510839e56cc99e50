"""Batches in pinned memory, from which copies to a GPU do not wait."""

from __future__ import annotations

from typing import Any

__all__ = ["pinned_batch"]


def pinned_batch(batch: Any, device: str = "") -> Any:
    """The batch with its tensors, in dicts, lists and tuples too, moved to pinned memory.

    Anything with a `pin_memory` method is asked to do it itself; what has none is left as it is.
    """
    if hasattr(batch, "pin_memory"):
        return batch.pin_memory(device) if device else batch.pin_memory()
    if isinstance(batch, dict):
        return _like(batch, {key: pinned_batch(part, device) for key, part in batch.items()})
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*[pinned_batch(part, device) for part in batch])
    if isinstance(batch, (list, tuple)):
        return _like(batch, [pinned_batch(part, device) for part in batch])
    return batch


def _like(batch: Any, pinned: Any) -> Any:
    """`pinned` in the container type of `batch`, as far as that takes its contents."""
    try:
        return type(batch)(pinned)
    except TypeError:
        return pinned
