"""Import paths below `dynograd.autograd` (`dynograd.autograd.graph`, `.functional`, ...) for modules that lie elsewhere, and of modules
that are made of the table of `stubs` alone (`dynograd.hub`).

`autograd` is a low layer, the tape; what PyTorch keeps beside it needs tensors, transforms or more, and lies in higher layers. The
modules behind the paths are imported when they are first named.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from types import ModuleType
from typing import Any

from dynograd import stubs
from dynograd.absent import absent_module

__all__ = ["PATHS", "install"]

PATHS = {
    "dynograd.autograd.anomaly_mode": "dynograd.autograd.modes",
    "dynograd.autograd.forward_ad": "dynograd.transforms.forward_ad",
    "dynograd.autograd.function": "dynograd.custom_function",
    "dynograd.autograd.functional": "dynograd.transforms.functional",
    "dynograd.autograd.grad_mode": "dynograd.autograd.modes",
    "dynograd.autograd.gradcheck": "dynograd.gradcheck",
    "dynograd.autograd.graph": "dynograd.graphs",
    "dynograd.autograd.profiler": "dynograd.profiler.legacy",
    "dynograd.autograd.variable": "dynograd.legacy",
}


class _Face(ModuleType):
    """A module under another path. Called, it is the function of its own name (`autograd.gradcheck` is a module and a function)."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(self, self.__name__.rpartition(".")[2])(*args, **kwargs)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        package, _, name = fullname.partition(".")
        if fullname in PATHS or (package == "dynograd" and name in stubs.MODULES):
            return importlib.machinery.ModuleSpec(fullname, self)
        why = absent_module(name) if package == "dynograd" else None
        if why is not None:
            raise ModuleNotFoundError(f"No module named {fullname!r}: {why}", name=fullname)
        return None

    def create_module(self, spec: Any) -> ModuleType:
        return _Face(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__.partition(".")[2]
        if name in stubs.MODULES:
            values = stubs.names(name)
            module.__dict__.update(values, __doc__=stubs.MODULES[name], __all__=sorted(values))
            return
        real = importlib.import_module(PATHS[module.__name__])
        module.__doc__ = real.__doc__
        module.__dict__.update({name: value for name, value in vars(real).items() if not name.startswith("__")})
        module.__dict__["__all__"] = list(real.__all__)


def install() -> None:
    """Makes the paths importable, and readable as attributes."""
    if not any(isinstance(one, _Finder) for one in sys.meta_path):
        sys.meta_path.append(_Finder())

    for package in {name.rpartition(".")[0] for name in PATHS}:

        def found(name: str, package: str = package) -> Any:
            if f"{package}.{name}" in PATHS:
                return importlib.import_module(f"{package}.{name}")
            raise AttributeError(f"module {package!r} has no attribute {name!r}")

        sys.modules[package].__getattr__ = found  # type: ignore[method-assign]
