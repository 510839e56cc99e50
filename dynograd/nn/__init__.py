"""Modules: the layers, containers and losses that models are built of, under PyTorch's names.

The files of the layers are read when the first of their names is asked for: a saved program, which needs `Module` alone, starts without them.
"""

from __future__ import annotations

from importlib import import_module

from dynograd.base.garbage import uncollected
from dynograd.base.lazy_modules import module_below
from dynograd.base.listing import lists
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.nn.module import Module
from dynograd.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter


def __getattr__(name: str) -> object:
    if name != "__all__" and name.startswith("__"):
        raise AttributeError(f"module 'dynograd.nn' has no attribute {name!r}")
    module = module_below(__name__, name)
    if module is None and "__all__" not in globals():
        _take_layers()
    if module is None and name not in globals():
        raise AttributeError(f"module 'dynograd.nn' has no attribute {name!r}")
    return module or globals()[name]


def __dir__() -> list[str]:
    if "__all__" not in globals():
        _take_layers()
    return lists(__name__, globals()["__all__"])()


def _take_layers() -> None:
    with uncollected():
        layers = import_module("dynograd.nn.modules").of_families
    globals().update(layers)
    own = ["Buffer", "Module", "Parameter", "UninitializedBuffer", "UninitializedParameter"]
    globals()["__all__"] = [*own, "functional", "init", "parameter", "utils", *layers]
    _show_plainly(globals())


_show_plainly(globals())
