"""Checks of the options that optimizers share, and their values as numbers."""

from __future__ import annotations

from typing import Any

from dynograd.tensor.tensor import Tensor

__all__ = ["check_flags", "check_pair", "check_range", "check_single", "scalar"]


def check_range(who: str, what: str, value: Any, below: float | None = None) -> None:
    """`value` is at least 0 and, where given, less than `below`."""
    _check_number(who, what, value)
    if not value >= 0.0 or (below is not None and not value < below):
        allowed = "at least 0" if below is None else f"in [0, {below:g})"
        raise ValueError(f"{who}: Invalid {what}: {value}. Expected a number {allowed}.")


def check_pair(who: str, what: str, value: Any) -> None:
    """`value` is two numbers, such as `betas`."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise ValueError(f"{who}: {what} must be two numbers, got {value!r}. Give both, such as {what}=(0.9, 0.999).")


def _check_number(who: str, what: str, value: Any) -> None:
    if not hasattr(value, "__float__"):  # numbers, NumPy's too, and tensors
        raise TypeError(f"{who}: Invalid {what}: {value!r} is a {type(value).__name__}. Expected a number.")


def check_single(who: str, what: str, value: Any, foreach: Any, capturable: Any) -> None:
    """A tensor option has one element, and goes with `foreach` only under `capturable`."""
    if not isinstance(value, Tensor):
        return
    if foreach and not capturable:
        raise ValueError(
            f"{who}: {what} as a Tensor is not supported for capturable=False and foreach=True. Pass a float."
        )
    if value.numel() != 1:
        raise ValueError(f"{who}: Tensor {what} must be 1-element, got shape {tuple(value.shape)}.")


def check_flags(who: str, fused: Any, foreach: Any, differentiable: Any) -> None:
    """`fused`, `foreach` and `differentiable` exclude each other where PyTorch says so; nothing else depends on the first two."""
    if fused and differentiable:
        raise RuntimeError(f"{who}: `fused` does not support `differentiable`.")
    if fused and foreach:
        raise RuntimeError(f"{who}: `fused` and `foreach` cannot be `True` together.")


def scalar(value: Any) -> Any:
    """A tensor of one element without dimensions; anything else as it is."""
    return value.reshape(()) if isinstance(value, Tensor) and value.ndim else value
