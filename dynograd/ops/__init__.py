"""What each op means: one file per family, each op once. Importing this package registers every op in `op.registry`.

Other names stand for namespaces of operators, as in `torch.ops.aten.add`; a higher layer fills them in.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

__all__ = ["families"]

families = sorted(module.name for module in iter_modules(__path__) if module.name != "op")
for _family in families:
    import_module(f"dynograd.ops.{_family}")

namespace: list[Callable[[str], Any]] = []  # gives the namespace of a name


def __getattr__(name: str) -> Any:
    if name.startswith("_") or not namespace:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return namespace[0](name)
