"""`torch.return_types`: the named tuples that functions give, under the functions' names."""

from __future__ import annotations

import importlib
import inspect
import sys
from typing import Any

from dynograd.interpreter.shared import named_outputs
from dynograd.ops.op import registry

dynograd: Any = sys.modules["dynograd"]  # its public names, as programs have them: it lies above this layer

__all__: list[str] = []

_FILES = (
    "ops.elementwise.mantissas ops.linalg.factorizations ops.linalg.least_squares ops.linalg.lu_factors ops.linalg.linear_systems "
    "ops.linalg.symmetric_systems ops.reduce.extremes tensor.histograms"
)
_SAME_CLASS = {"nanmedian": "median", "slogdet": "linalg_slogdet"}


def __getattr__(name: str) -> type:
    """Made when they are first named.

    >>> isinstance(dynograd.ones(3).sort(), dynograd.return_types.sort)
    True
    """
    op = registry.get(_SAME_CLASS.get(name, name))
    if op is not None and isinstance(op.outputs, tuple) and (name.startswith("linalg_") or hasattr(dynograd, name)):
        return _explained(named_outputs(op))
    raise AttributeError(f"return_types: no function {name!r} gives a named tuple of that name.")


def _explained(kind: type) -> type:
    """The class, with a docstring where it has only the one that Python gives named tuples."""
    fields = getattr(kind, "_fields", ())
    if (kind.__doc__ or "").startswith(f"{kind.__name__}("):
        kind.__doc__ = (
            f"What `{kind.__name__}` gives: a named tuple.\n\nArgs:\n    {', '.join(fields)}: tensors.\n\n"
            f">>> dynograd.return_types.{kind.__name__}._fields\n{fields!r}"
        )
    return kind


for _path in _FILES.split():
    for _value in list(vars(importlib.import_module(f"dynograd.{_path}")).values()):
        if inspect.isclass(_value) and issubclass(_value, tuple) and hasattr(_value, "_fields"):
            if not _value.__name__.startswith("_"):
                globals()[_value.__name__] = _explained(_value)
                __all__.append(_value.__name__)
