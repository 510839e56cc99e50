"""PyTorch's import paths below `torch.nn.modules`: each is the file of `dynograd.nn` that holds the same classes.

>>> from dynograd.nn.modules.batchnorm import _BatchNorm
>>> isinstance(dynograd.nn.BatchNorm2d(3), _BatchNorm)
True
"""

from __future__ import annotations

import sys
from importlib import import_module

from dynograd import nn

_PATHS = {
    "activation": "activation",
    "batchnorm": "batchnorm",
    "channelshuffle": "resampling",
    "container": "containers",
    "conv": "conv",
    "distance": "distance",
    "dropout": "dropout",
    "flatten": "flatten",
    "fold": "resampling",
    "instancenorm": "batchnorm",
    "lazy": "lazy",
    "linear": "linear",
    "loss": "loss",
    "module": "module",
    "normalization": "normalization",
    "padding": "padding",
    "pixelshuffle": "resampling",
    "pooling": "pooling",
    "rnn": "rnn",
    "sparse": "sparse",
    "transformer": "transformer",
    "upsampling": "resampling",
}
for _name, _family in _PATHS.items():
    _module = import_module(f"dynograd.nn.{_family}")
    sys.modules[f"{__name__}.{_name}"] = _module
    globals()[_name] = _module

utils = import_module("dynograd.nn.modules.utils")
__all__ = [_name for _name in nn.__all__ if isinstance(getattr(nn, _name), type)]
globals().update({_name: getattr(nn, _name) for _name in __all__})
