"""Kernels by family, name and backend: `kernel("softmaxes", "softmax_forward", x)` is `softmax_forward` in `softmaxes_cpu.py`.

A kernel computes on the arrays it is given. It checks nothing (the op has), allocates only its result and knows no gradients.
A backend's file is imported on the first use of one of its kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from dynograd.arrays import backend_of

__all__ = ["kernel"]

_found: dict[tuple[str, str, type], Callable[..., Any]] = {}


def kernel(family: str, name: str, like: Any) -> Callable[..., Any]:
    """The kernel `name` of `family` for the backend of the array `like`."""
    try:
        return _found[family, name, type(like)]
    except KeyError:
        return _load(family, name, type(like), backend_of(like))


def _load(family: str, name: str, array_type: type, backend: str) -> Callable[..., Any]:
    try:
        module = import_module(f"dynograd.kernels.{family}_{backend}")
        found = getattr(module, name)
    except (ModuleNotFoundError, AttributeError):
        raise NotImplementedError(f"{name} has no {backend} kernel; x.cpu() works.") from None
    _found[family, name, array_type] = found
    return found
