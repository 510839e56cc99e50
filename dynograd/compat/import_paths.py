"""Import paths of PyTorch for modules that lie elsewhere: `dynograd.jit`, `dynograd.autograd.graph`, `python -m dynograd.port`.

The modules behind the paths are imported when they are first named. Below `dynograd` a path is the module itself under a second name, and so
are the modules below it; below `dynograd.autograd`, a low layer, it is a module of its own with the names of the other. `dynograd.hub` and
its like are made of the table of `stubs` alone.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import pkgutil
import sys
from collections.abc import Callable
from types import CodeType, ModuleType
from typing import Any

from dynograd.base import stubs
from dynograd.base.signatures import show_plainly
from dynograd.compat import faces, refused
from dynograd.tensor.absent import absent_module

__all__ = ["ALIASES", "PATHS", "below", "install", "is_face"]

PATHS = {
    "dynograd.autograd.anomaly_mode": "dynograd.autograd.modes",
    "dynograd.autograd.forward_ad": "dynograd.transforms.forward_ad",
    "dynograd.autograd.function": "dynograd.tensor.custom_function",
    "dynograd.autograd.functional": "dynograd.transforms.functional",
    "dynograd.autograd.grad_mode": "dynograd.autograd.modes",
    "dynograd.autograd.gradcheck": "dynograd.transforms.gradcheck",
    "dynograd.autograd.graph": "dynograd.tensor.graphs",
    "dynograd.autograd.profiler": "dynograd.profiler.legacy",
    "dynograd.autograd.variable": "dynograd.tensor.legacy",
}
_ROOMS = {
    "compat": "_C __config__ _dynamo _inductor _logging _utils accelerator array_api backends compiler cpu functional futures hub jit "
    "masked multiprocessing nested operators quasirandom special types",
    "overrides": "fx",
    "saving": "serialization",
    "tools": "__main__ convert port run serve serving warming",
    "transforms": "gradcheck",
}
_ABOVE_FACES = {"distributed.algorithms", "testing._internal"}
ALIASES = {f"dynograd.{name}": f"dynograd.{room}.{name}" for room, names in _ROOMS.items() for name in names.split()}
ALIASES["dynograd.utils.deterministic"] = "dynograd.kernels.build.determinism"


class _Face(ModuleType):
    """A module under another path. Called, it is the function of its own name (`autograd.gradcheck` is a module and a function)."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        function = getattr(self, self.__name__.rpartition(".")[2], None)
        if function is None:
            raise TypeError(f"module {self.__name__!r} is not callable. Name one of its functions.")
        return function(*args, **kwargs)


class _Faces(importlib.abc.Loader):
    """Makes the modules of `PATHS`."""

    def create_module(self, spec: Any) -> ModuleType:
        return _Face(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        real = importlib.import_module(PATHS[module.__name__])
        module.__doc__ = real.__doc__
        module.__dict__.update({name: value for name, value in vars(real).items() if not name.startswith("__")})
        module.__dict__["__all__"] = list(real.__all__)
        show_plainly(module.__dict__)


class _OfNames(importlib.abc.Loader):
    """Makes the modules of `faces` and of `refused`, and packages above them that nothing else is."""

    def create_module(self, spec: Any) -> ModuleType:
        return _Face(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        if module.__name__ in faces.FACES:
            faces.make(module)
        if module.__name__ not in faces.FACES or module.__name__.partition(".")[2] in refused.modules():
            refused.fill(module)
            module.__dict__["__getattr__"] = below(module.__name__.partition(".")[2])
            show_plainly(module.__dict__)


class _OfStubs(importlib.abc.Loader):
    """Makes modules of the table of `stubs`."""

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__.partition(".")[2]
        values = stubs.names(name)
        module.__dict__.update(values, __doc__=stubs.MODULES[name], __all__=sorted(values))

        module.__dict__["__getattr__"] = below(name)


class _SecondName(importlib.abc.InspectLoader):
    """Gives the module itself; `python -m` asks for its code."""

    def __init__(self, real: str) -> None:
        self.real = real

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = importlib.import_module(self.real)
        self.spec = module.__spec__
        # What lies below has the second name too, else its files would be loaded again.
        for file in pkgutil.walk_packages(getattr(module, "__path__", ()), f"{self.real}."):
            importlib.import_module(file.name)
        for name, below in list(sys.modules.items()):
            if name.startswith(self.real + "."):
                sys.modules[spec.name + name.removeprefix(self.real)] = below
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec  # the import has put its own there

    def get_source(self, fullname: str) -> str | None:
        return self._loader().get_source(self.real)

    def get_code(self, fullname: str) -> CodeType | None:
        return self._loader().get_code(self.real)

    def _loader(self) -> importlib.abc.InspectLoader:
        spec = importlib.util.find_spec(self.real)
        assert spec is not None and isinstance(spec.loader, importlib.abc.InspectLoader)
        return spec.loader


class _Finder(importlib.abc.MetaPathFinder):
    """Asked when there is no file of that name."""

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname in PATHS:
            return importlib.machinery.ModuleSpec(fullname, _Faces())
        if fullname in ALIASES:
            return importlib.machinery.ModuleSpec(fullname, _SecondName(ALIASES[fullname]))
        package, _, name = fullname.partition(".")
        if package != "dynograd":
            return None
        if fullname in faces.FACES:
            return importlib.machinery.ModuleSpec(fullname, _OfNames(), is_package=_has_below(name))
        if name in _ABOVE_FACES or name in refused.modules() or name in refused.above():
            return importlib.machinery.ModuleSpec(fullname, _OfNames(), is_package=True)
        if package == "dynograd" and name in stubs.MODULES:
            has_more = _has_below(name)
            return importlib.machinery.ModuleSpec(fullname, _OfStubs(), is_package=has_more)
        why = absent_module(name) if package == "dynograd" else None
        if why is not None:
            raise ModuleNotFoundError(f"No module named {fullname!r}: {why}", name=fullname)
        return None


def _has_below(path: str) -> bool:
    """Whether there are modules below the path."""
    paths = (*stubs.MODULES, *[face.partition(".")[2] for face in faces.FACES], *refused.modules())
    return any([other.startswith(f"{path}.") for other in paths])


def is_face(name: str) -> bool:
    """Whether `dynograd.<name>` has names of other modules under PyTorch's path (`dynograd.storage`)."""
    return f"dynograd.{name}" in faces.FACES


def below(package: str) -> Callable[[str], ModuleType]:
    """The `__getattr__` of a package: what lies below it is imported when it is named."""

    def attribute(name: str) -> ModuleType:
        if (
            _has_below(f"{package}.{name}")
            or f"{package}.{name}" in stubs.MODULES
            or f"{package}.{name}" in refused.modules()
            or is_face(f"{package}.{name}")
        ):
            return importlib.import_module(f"dynograd.{package}.{name}")
        raise AttributeError(f"module 'dynograd.{package}' has no attribute {name!r}")

    return attribute


def install() -> None:
    """Makes the paths importable, and readable as attributes."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())

    for package in {name.rpartition(".")[0] for name in PATHS}:

        def attribute(name: str, package: str = package) -> Any:
            if f"{package}.{name}" in PATHS:
                return importlib.import_module(f"{package}.{name}")
            raise AttributeError(f"module {package!r} has no attribute {name!r}")

        sys.modules[package].__getattr__ = attribute  # type: ignore[method-assign]
