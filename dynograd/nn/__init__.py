"""Modules: the layers, containers and losses that models are built of, under PyTorch's names."""

from __future__ import annotations

from importlib import import_module

from dynograd.nn import functional, init, parameter, utils
from dynograd.nn.module import Module
from dynograd.nn.parameter import Buffer, Parameter
from dynograd.nn.uninitialized import UninitializedBuffer, UninitializedParameter

_families = (
    "activation adaptive attention batchnorm containers conv crf distance dropout flatten lazy linear linear_losses loss normalization padding parallel "
    "pooling resampling rnn rnn_cells sparse transformer tree_lstm"
).split()
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
for _family in _families:
    _module = import_module(f"dynograd.nn.{_family}")
    globals().update({_name: getattr(_module, _name) for _name in _module.__all__})
    __all__ += _module.__all__
modules = import_module("dynograd.nn.modules")
