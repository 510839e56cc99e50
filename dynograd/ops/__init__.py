"""What each op means: one file per family, each op once. Importing this package registers every op in `op.registry`.

Other names stand for namespaces of operators, as in `torch.ops.aten.add`; a higher layer fills them in.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

__all__ = ["families"]

_places = {
    module.name.rpartition(".")[2]: module.name
    for module in walk_packages(__path__, "dynograd.ops.")
    if not module.ispkg and module.name != "dynograd.ops.op"
}
families = sorted(_places)
for _family in families:
    import_module(_places[_family])

namespace: list[Callable[[str], Any]] = []  # gives the namespace of a name


def __getattr__(name: str) -> Any:
    if name.startswith("_") or not namespace:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return namespace[0](name)
