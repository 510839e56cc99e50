"""`skip_init`: a module whose parameters are not initialised, because they will be loaded."""

from __future__ import annotations

from typing import Any

__all__ = ["skip_init"]


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Any:
    """`module_cls(*args, **kwargs)`; its parameters may hold any values, here those of the usual initialisation.

    Raises:
        RuntimeError: not a Module class.

    >>> dynograd.nn.utils.skip_init(dynograd.nn.Linear, 2, 3).weight.shape
    dynograd.Size([3, 2])
    """
    if not (isinstance(module_cls, type) and hasattr(module_cls, "state_dict")):
        raise RuntimeError(f"skip_init: Expected a Module; got {module_cls}")
    return module_cls(*args, **kwargs)
