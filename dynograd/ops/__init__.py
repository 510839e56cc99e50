"""What each op means: one file per family, each op once. Importing this package registers every op in `op.registry`."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

__all__ = ["families"]

families = sorted(module.name for module in iter_modules(__path__) if module.name != "op")
for _family in families:
    import_module(f"dynograd.ops.{_family}")
