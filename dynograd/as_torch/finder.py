"""The import finder behind `torch`: `torch.nn` is the module `dynograd.nn` itself, under a second name; `torch` alone is a module of its own.

`torch` has the names of `dynograd`, each taken when it is first asked for, so that `torch.__name__`, `torch.__spec__` and what programs set on it
are torch's. Below it nothing is copied: what a program replaces in `torch.nn.functional` is replaced for dynograd's layers too.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import os
import sys
from collections.abc import Iterator
from importlib.abc import SourceLoader
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from dynograd.as_torch import touched
from dynograd.base.shown_names import shown_as
from dynograd.tensor.tensor import Tensor

__all__ = ["SITE", "install", "module"]

SITE = Path(__file__).parent / "site"
"""A folder to put on `sys.path` of other processes: `torch` in it is this."""

_ROOTS = {"torch": "dynograd", "functorch": "dynograd.func"}


def install() -> None:
    """Makes `import torch` and `import functorch` mean dynograd, in this process; a second call changes nothing.

    Raises:
        ImportError: PyTorch is already imported.

    >>> dynograd.as_torch.install()
    >>> import torch
    >>> torch.Tensor is dynograd.Tensor
    True
    """
    if any([isinstance(finder, _Finder) for finder in sys.meta_path]):
        return
    _refuse_pytorch()
    sys.meta_path.insert(0, _Finder())
    # Processes that are started get one or the other; the program's own folder stays first.
    sys.path.insert(1, str(SITE))
    paths = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(SITE), *([paths] if paths else [])])
    sys.modules["torch"] = module("torch")
    Tensor.__module__ = "torch"  # packages choose their backend by it
    shown_as("torch")  # packages compare str(dtype) and str(layout)
    touched.watch_tensors()


def module(name: str) -> ModuleType:
    """The module under one of torch's names, imported if it is not yet.

    Args:
        name: as an import names it: "torch", "torch.nn".
    Returns:
        The module.
    Raises:
        ModuleNotFoundError: dynograd has none of this name; the message says why.

    >>> dynograd.as_torch.module("torch.nn") is dynograd.nn
    True
    """
    loaded = sys.modules.get(name)
    if loaded is not None and not isinstance(loaded.__spec__ and loaded.__spec__.loader, SourceLoader):
        return loaded  # not the file in `SITE` that is being imported
    spec = _Finder().find_spec(name)
    assert spec is not None
    result = importlib.util.module_from_spec(spec)
    sys.modules[name] = result
    assert spec.loader is not None
    spec.loader.exec_module(result)
    return result


def _refuse_pytorch() -> None:
    loaded = sys.modules.get("torch")
    if loaded is None or _is_own(loaded):
        return
    version, file = getattr(loaded, "__version__", "of unknown version"), getattr(loaded, "__file__", None)
    raise ImportError(
        f"dynograd.as_torch: PyTorch {version} is already imported (from {file}), and objects of both would meet. "
        f"Import dynograd.as_torch before anything that imports torch, or run the program by `python -m dynograd SCRIPT`."
    )


def _is_own(loaded: ModuleType) -> bool:
    """Whether it is one of dynograd's modules, or what the finder or a file of `SITE` makes."""
    return loaded.__name__.partition(".")[0] == "dynograd" or "__dynograd__" in loaded.__dict__


# PyTorch has imported these with their package, and programs look for them in `sys.modules`: transformers puts its own functions into
# `torch.nn.init` there while it loads weights, so that layers which are set back leave those that are loaded.
_LOOKED_FOR = {"torch.nn": ("functional", "init", "parameter")}


_LAUNCHERS = {"distributed.run.__main__", "distributed.launch.__main__"}


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules `torch`, `torch.*` and `functorch`; the distribution `torch` is found in `SITE`."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        root, _, below = fullname.partition(".")
        if root not in _ROOTS:
            return None
        if not below:
            file = SITE / root / "__init__.py"
            spec = ModuleSpec(fullname, _Root(), origin=str(file), is_package=True)
            spec.has_location = True
            spec.submodule_search_locations = [str(file.parent)]
            return spec
        if below in _LAUNCHERS:  # `python -m torch.distributed.run`
            launcher = importlib.util.find_spec("dynograd.tools.run")
            assert launcher is not None
            return importlib.util.spec_from_file_location(fullname, launcher.origin)
        real = _real(f"{_ROOTS[root]}.{below}", fullname)
        spec = ModuleSpec(fullname, _SecondName(real), origin=getattr(real, "__file__", None), is_package=True)
        spec.submodule_search_locations = list(getattr(real, "__path__", ()))
        return spec


class _Root(importlib.abc.Loader):
    """Makes the modules `torch` and `functorch`."""

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        real = importlib.import_module(_ROOTS[module.__name__])
        namespace = module.__dict__
        for name in [name for name in namespace if not name.startswith("__")]:
            del namespace[name]  # it is imported anew
        namespace["__dynograd__"] = True
        namespace["__doc__"] = real.__doc__
        namespace["__all__"] = list(getattr(real, "__all__", ()))
        for name in ("__version__", "__annotations__"):
            if hasattr(real, name):
                namespace[name] = getattr(real, name)

        def attribute(name: str) -> Any:
            try:
                value = getattr(real, name)
            except AttributeError as error:
                return touched.lacking(module.__name__, name, error)
            if isinstance(value, ModuleType) and value.__name__.startswith("dynograd."):
                return importlib.import_module(f"{module.__name__}.{name}")  # puts it into the namespace, too
            touched.used(f"{module.__name__}.{name}")
            namespace[name] = value
            return value

        if module.__name__ == "torch":
            namespace["torch"] = module  # PyTorch's files import it
        namespace["__getattr__"] = attribute
        namespace["__dir__"] = lambda: sorted({*dir(real), *getattr(real, "__all__", ()), *namespace})


class _SecondName(importlib.abc.Loader):
    """Gives a module of dynograd under a name of torch's."""

    def __init__(self, real: ModuleType) -> None:
        self.real = real
        self.own = real.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.real

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        name = module.__spec__.name
        module.__spec__ = self.own  # the import has put its own there
        touched.used(name)
        for below in _LOOKED_FOR.get(name, ()):
            importlib.import_module(f"{module.__name__}.{below}")
        _name_all(module, name)


def _name_all(module: ModuleType, name: str) -> None:
    """Names of torch's for a module and for what it has imported below it, where programs that look into `sys.modules` expect them.

    Those behind a function of the same name too (`nn.utils.weight_norm`): the import of one that has no name yet would put it in the function's place.
    """
    touched.watch(module, name)
    for below in list(vars(module)):
        value = sys.modules.get(f"{module.__name__}.{below}")
        if value is not None and value.__name__ == f"{module.__name__}.{below}":
            sys.modules.setdefault(f"{name}.{below}", value)
            _name_all(value, f"{name}.{below}")


def _real(path: str, fullname: str) -> ModuleType:
    """dynograd's module of a path: a file's, or one that another module has as an attribute."""
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{path}.".startswith(f"{error.name}."):
            raise  # something else that it imports is absent
        for place in _attributes(path):
            return place
        raise touched.no_module(fullname, error) from None


def _attributes(path: str) -> Iterator[ModuleType]:
    parent, _, name = path.rpartition(".")
    place = getattr(sys.modules.get(parent), name, None)
    if isinstance(place, ModuleType):
        yield place
