"""PyTorch's import paths below `torch.nn.modules`: each holds the classes of its name, wherever they lie in `dynograd.nn`.

>>> from dynograd.nn.modules.batchnorm import _BatchNorm
>>> isinstance(dynograd.nn.BatchNorm2d(3), _BatchNorm)
True
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from dynograd.nn.module import Module
from dynograd.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

_FAMILIES = """
    layers.activation layers.adaptive attention layers.batchnorm layers.containers layers.conv layers.crf layers.distance layers.dropout layers.flatten
    layers.lazy layers.linear layers.linear_losses layers.loss layers.normalization layers.padding parallel.data_parallel
    parallel.distributed layers.pooling layers.resampling layers.rnn
    layers.rnn_cells layers.sparse layers.transformer layers.tree_lstm
""".split()

# path below torch.nn.modules -> the files of dynograd.nn it is made of; names of earlier ones win
_PATHS = {
    "activation": "layers.activation attention",
    "adaptive": "layers.adaptive",
    "batchnorm": "layers.batchnorm layers.lazy",
    "channelshuffle": "layers.resampling",
    "container": "layers.containers",
    "conv": "layers.conv layers.lazy",
    "distance": "layers.distance",
    "dropout": "layers.dropout",
    "flatten": "layers.flatten",
    "fold": "layers.resampling",
    "instancenorm": "layers.batchnorm layers.lazy",
    "lazy": "layers.lazy",
    "linear": "layers.linear layers.lazy",
    "linear_cross_entropy": "layers.linear_losses",
    "linear_cross_entropy_options": "layers.linear_losses",
    "loss": "layers.loss layers.linear_losses",
    "module": "module",
    "normalization": "layers.normalization",
    "padding": "layers.padding",
    "pixelshuffle": "layers.resampling",
    "pooling": "layers.pooling",
    "rnn": "layers.rnn layers.rnn_cells",
    "sparse": "layers.sparse",
    "transformer": "layers.transformer",
    "upsampling": "layers.resampling",
}


def _face(name: str, files: list[str]) -> ModuleType:
    """The file itself, or one module with the names of several."""
    modules = [import_module(f"dynograd.nn.{file}") for file in files]
    if len(modules) == 1:
        return modules[0]
    face = ModuleType(f"{__name__}.{name}", modules[0].__doc__)
    for module in reversed(modules):
        face.__dict__.update({key: value for key, value in vars(module).items() if not key.startswith("__")})
    face.__dict__["__all__"] = [key for module in modules for key in module.__all__]
    return face


for _name, _files in _PATHS.items():
    _module = _face(_name, _files.split())
    sys.modules[f"{__name__}.{_name}"] = _module
    globals()[_name] = _module

utils = import_module("dynograd.nn.modules.utils")
of_families: dict[str, Any] = {}  # what the files of layers have in `__all__`: dynograd.nn's names
for _file in _FAMILIES:
    _module = import_module(f"dynograd.nn.{_file}")
    of_families.update({_name: getattr(_module, _name) for _name in _module.__all__})
globals().update({_name: _value for _name, _value in of_families.items() if isinstance(_value, type)})
__all__ = ["Buffer", "Module", "Parameter", "UninitializedBuffer", "UninitializedParameter"]
__all__ += [_name for _name, _value in of_families.items() if isinstance(_value, type)]
