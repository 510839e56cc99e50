"""`torch.return_types`: the named tuples that functions give, under the functions' names."""

from __future__ import annotations

import importlib
import inspect

from dynograd.interpreter.shared import named_outputs
from dynograd.ops.op import registry

__all__: list[str] = []

_FILES = "linalg.factorizations linalg.least_squares linalg.lu_factors linalg.linear_systems linalg.symmetric_systems reduce.extremes"
_OPS = "max min median nanmedian mode kthvalue cummax cummin topk sort".split()


def __getattr__(name: str) -> type:
    """Made when they are first named.

    >>> isinstance(dynograd.ones(3).sort(), dynograd.return_types.sort)
    True
    """
    if name in _OPS:
        return named_outputs(registry[name])
    raise AttributeError(f"return_types: no function {name!r} gives a named tuple of that name.")


for _path in _FILES.split():
    for _value in list(vars(importlib.import_module(f"dynograd.ops.{_path}")).values()):
        if inspect.isclass(_value) and issubclass(_value, tuple) and hasattr(_value, "_fields"):
            if not _value.__name__.startswith("_"):
                globals()[_value.__name__] = _value
                __all__.append(_value.__name__)
