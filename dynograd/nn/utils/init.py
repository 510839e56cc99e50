"""`skip_init`: a module whose parameters are not initialised, because they will be loaded."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from dynograd.nn.module import Module

__all__ = ["skip_init"]

M = TypeVar("M", bound=Module)


def skip_init(module_cls: Callable[..., M], *args: object, **kwargs: object) -> M:
    """`module_cls(*args, **kwargs)` with parameters and buffers in memory that nobody has set: no random number is drawn.

    The module is built on device "meta" and given memory afterwards, so its constructor must take `device` and hand
    it to all that it makes.

    Args:
        module_cls: a class of Modules.
        args, kwargs: those of its constructor; `device` is where the memory lies in the end.
    Returns:
        the module.
    Raises:
        RuntimeError: not a Module class, or its constructor takes no `device`.

    >>> dynograd.nn.utils.skip_init(dynograd.nn.Linear, 2, 3).weight.shape
    dynograd.Size([3, 2])
    """
    if not (isinstance(module_cls, type) and issubclass(module_cls, Module)):
        raise RuntimeError(f"skip_init: Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError(
            f"skip_init: Module must support a 'device' arg to skip initialization, and {module_cls.__name__} takes none. Build it under "
            f"`with dynograd.device('meta'):` and call to_empty(device='cpu')."
        )
    device: Any = kwargs.pop("device", "cpu")
    module: Any = module_cls(*args, **kwargs, device="meta")
    return module.to_empty(device=device)
