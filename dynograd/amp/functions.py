"""`custom_fwd` and `custom_bwd`: how an `autograd.Function` runs inside `autocast`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from dynograd import arrays
from dynograd.amp.autocasting import autocast, get_autocast_dtype, is_autocast_available, is_autocast_enabled
from dynograd.base.dtypes import float64
from dynograd.tensor.tensor import Tensor

__all__ = ["custom_bwd", "custom_fwd"]


def custom_fwd(fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: Any = None) -> Any:
    """A decorator for `forward` of an `autograd.Function`, which says how it meets autocast.

    Args:
        fwd: the method; without it a decorator is returned.
        device_type: "cuda" or "cpu".
        cast_inputs: floating tensors of the device are cast to this dtype and autocast is off inside; None: it stays as it is.
    Returns:
        The method, or a decorator for it.

    >>> class Double(dynograd.autograd.Function):
    ...     @staticmethod
    ...     @dynograd.amp.custom_fwd(device_type="cpu", cast_inputs=dynograd.float32)
    ...     def forward(ctx, x):
    ...         return x * 2
    ...
    ...     @staticmethod
    ...     @dynograd.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, grad):
    ...         return grad * 2
    >>> with dynograd.autocast("cpu"):
    ...     Double.apply(dynograd.ones(2, dtype=dynograd.bfloat16)).dtype
    dynograd.float32
    """
    _check("custom_fwd", device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(*args: Any, **kwargs: Any) -> Any:
        context = args[0]
        context._dtype = get_autocast_dtype(device_type)
        enabled = is_autocast_enabled(device_type)
        if cast_inputs is None:
            context._fwd_used_autocast = enabled
            return fwd(*args, **kwargs)
        context._fwd_used_autocast = False
        if not enabled:
            return fwd(*args, **kwargs)
        with autocast(device_type=device_type, enabled=False):
            return fwd(*_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs))

    return forward


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Any:
    """A decorator for `backward`: autocast is there as it was in `forward`, which must have `custom_fwd`.

    Args:
        bwd: the method; without it a decorator is returned.
        device_type: "cuda" or "cpu".
    Returns:
        The method, or a decorator for it; `custom_fwd` has an example.

    >>> @dynograd.amp.custom_bwd(device_type="cpu")
    ... def backward(ctx, grad):
    ...     return grad * 2
    >>> backward.__name__
    'backward'
    """
    _check("custom_bwd", device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(*args: Any, **kwargs: Any) -> Any:
        context = args[0]
        with autocast(device_type=device_type, enabled=context._fwd_used_autocast, dtype=context._dtype):
            return bwd(*args, **kwargs)

    return backward


def _check(who: str, device_type: str) -> None:
    if not is_autocast_available(device_type):
        raise ValueError(f"{who}: expected device_type 'cuda' or 'cpu', got {device_type!r}.")


def _cast(value: Any, device_type: str, dtype: Any) -> Any:
    if isinstance(value, Tensor):
        eligible = (
            value.is_floating_point()
            and arrays.device_of(value.array).type == device_type
            and value.dtype is not float64
        )
        return value.to(dtype) if eligible else value
    if isinstance(value, dict):
        return {key: _cast(entry, device_type, dtype) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(entry, device_type, dtype) for entry in value)
    return value
