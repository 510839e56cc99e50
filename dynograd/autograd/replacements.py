"""What a hook may put in the place of a gradient: a tensor of the same shape, dtype, device and layout."""

from __future__ import annotations

from typing import Any

from dynograd.errors import GradientError

__all__ = ["check_replacement"]


def check_replacement(who: str, hook: Any, old: Any, new: Any) -> None:
    """Raises unless the tensor `new`, which `hook` returned, can stand for the gradient `old`; None of both says no gradient."""
    if new is None:
        return
    name = getattr(hook, "__name__", hook)
    if not hasattr(new, "requires_grad"):
        raise TypeError(
            f"{who}: expected the hook '{name}' to return a Tensor or None, got {type(new).__name__}. Return nothing "
            f"to leave the gradient as it is."
        )
    if old is None:
        raise GradientError(
            f"{who}: the hook '{name}' can't replace a None gradient with a non-None value (got shape {tuple(new.shape)}). Return "
            f"None there."
        )
    if new.dtype is not old.dtype or new.device != old.device or new.layout is not old.layout:
        raise GradientError(
            f"{who}: the hook '{name}' has changed the type of value: expected {_kind(old)}, got {_kind(new)}. Return the gradient "
            f"as it came, e.g. new.to(grad.dtype)."
        )
    if new.shape != old.shape:
        raise GradientError(
            f"{who}: the hook '{name}' has changed the size of value: expected {tuple(old.shape)}, got {tuple(new.shape)}. Return "
            f"one number for each of the gradient."
        )


def _kind(tensor: Any) -> str:
    return f"{tensor.dtype} ({tensor.layout}) on {tensor.device}"
