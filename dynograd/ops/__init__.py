"""What each op means: one file per family, each op once. Importing this package registers every op in `op.registry`.

Other names stand for namespaces of operators, as in `torch.ops.aten.add`; a higher layer fills them in.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

__all__ = ["families"]


def _modules(folder: str, package: str) -> Iterator[tuple[str, str]]:
    """The modules in the folder and those beneath it: their last name, and all of it."""
    with os.scandir(folder) as entries:
        for entry in entries:
            name, _, ending = entry.name.rpartition(".")
            if ending == "py" and name != "__init__":
                yield name, f"{package}.{name}"
            elif "." not in entry.name and entry.name != "__pycache__":
                yield from _modules(entry.path, f"{package}.{entry.name}")


_places = dict(_modules(__path__[0], __name__))
del _places["op"]  # the table itself
families = sorted(_places)
for _family in families:
    import_module(_places[_family])

namespace: list[Callable[[str], Any]] = []  # gives the namespace of a name


def __getattr__(name: str) -> Any:
    if name.startswith("_") or not namespace:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return namespace[0](name)
