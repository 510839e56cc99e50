"""`dynograd.amp` for CUDA, under PyTorch's older names."""

from __future__ import annotations

import sys
from typing import Any

from dynograd.base import dtypes
from dynograd.base.signatures import show_plainly as _show_plainly

__path__: list[str] = []  # PyTorch has modules below it (`compat.faces`)
__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


def _amp() -> Any:
    return sys.modules["dynograd"].amp  # it lies above this layer, so it is looked up and not imported


def autocast(enabled: bool = True, dtype: Any = dtypes.float16, cache_enabled: bool = True) -> Any:
    """`amp.autocast("cuda", ...)`; without a dtype it is float16, as in PyTorch.

    Args:
        enabled, dtype, cache_enabled: as in `amp.autocast`.
    Returns:
        A context manager and decorator.

    >>> with dynograd.cuda.amp.autocast(enabled=False):
    ...     dynograd.is_autocast_enabled("cuda")
    False
    """
    return _amp().autocast("cuda", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


def GradScaler(*args: Any, **kwargs: Any) -> Any:
    """`amp.GradScaler("cuda", ...)`.

    Args:
        *args, **kwargs: as in `amp.GradScaler`, without the device.
    Returns:
        A `GradScaler`.

    >>> dynograd.cuda.amp.GradScaler(init_scale=8.0, enabled=False).get_scale()
    1.0
    """
    return _amp().GradScaler("cuda", *args, **kwargs)


def amp_definitely_not_available() -> bool:
    """Whether there is no GPU."""
    return not sys.modules["dynograd"].cuda.is_available()


def custom_fwd(fwd: Any = None, *, cast_inputs: Any = None) -> Any:
    """`amp.custom_fwd(device_type="cuda", ...)`.

    Args:
        fwd, cast_inputs: as in `amp.custom_fwd`.
    Returns:
        The method, or a decorator for it.

    >>> dynograd.cuda.amp.custom_fwd(lambda ctx, x: x).__name__
    '<lambda>'
    """
    return _amp().custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Any) -> Any:
    """`amp.custom_bwd(device_type="cuda", ...)`.

    Args:
        bwd: the method.
    Returns:
        The method.

    >>> dynograd.cuda.amp.custom_bwd(lambda ctx, g: g).__name__
    '<lambda>'
    """
    return _amp().custom_bwd(bwd, device_type="cuda")


_show_plainly(globals())
