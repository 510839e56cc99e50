"""Modules: the layers, containers and losses that models are built of, under PyTorch's names."""

from __future__ import annotations

from dynograd.base.listing import lists
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.nn import functional, init, modules, parameter, utils
from dynograd.nn.module import Module
from dynograd.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

__all__ = [
    "Buffer",
    "Module",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "functional",
    "init",
    "parameter",
    "utils",
]
globals().update(modules.of_families)
__all__ += list(modules.of_families)
__dir__ = lists(__name__, __all__)

_show_plainly(globals())
