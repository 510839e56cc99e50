"""`torch.fx._compatibility`: the mark that PyTorch puts on what it promises to keep."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["compatibility"]


def compatibility(is_backward_compatible: bool) -> Callable:
    """A decorator that gives back what it gets."""
    return lambda function: function
