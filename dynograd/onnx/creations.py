"""Tensors that a program makes to write into, `zeros(n)` and its like: while it is recorded they are copies, which are values of the record."""

from __future__ import annotations

from typing import Any

from dynograd.onnx.noting import aside
from dynograd.onnx.structures import Watching
from dynograd.plans.recording import Recording
from dynograd.tensor import creation
from dynograd.tensor.tensor import Tensor

__all__ = ["CREATIONS"]


def _copied(plan: Recording, below: Any, *args: Any, **kwargs: Any) -> Tensor:
    result: Tensor = below(*args, **kwargs)
    return result if kwargs.get("out") is not None else result.clone()


def _emptied(plan: Recording, below: Any, *args: Any, **kwargs: Any) -> Tensor:
    """Zeros instead of what was in the memory, so that each record has the same."""
    result: Tensor = below(*args, **kwargs)
    if kwargs.get("out") is not None:
        return result
    with aside():
        result.zero_()
    return result.clone()


_FILLED: tuple[Any, ...] = (
    creation.zeros, creation.ones, creation.full, creation.zeros_like, creation.ones_like, creation.full_like,
)  # fmt: skip
_UNSET: tuple[Any, ...] = (creation.empty, creation.empty_like)
CREATIONS = Watching({**dict.fromkeys(_FILLED, _copied), **dict.fromkeys(_UNSET, _emptied)})
