"""Modules: the layers, containers and losses that models are built of, under PyTorch's names."""

from __future__ import annotations

from importlib import import_module

from dynograd.nn import functional, init, parameter, utils
from dynograd.nn.module import Module
from dynograd.nn.parameter import Buffer, Parameter
from dynograd.nn.uninitialized import UninitializedBuffer, UninitializedParameter

_families = """
    layers.activation layers.adaptive attention layers.batchnorm layers.containers layers.conv layers.crf layers.distance layers.dropout layers.flatten
    layers.lazy layers.linear layers.linear_losses layers.loss layers.normalization layers.padding parallel layers.pooling layers.resampling layers.rnn
    layers.rnn_cells layers.sparse layers.transformer layers.tree_lstm
""".split()
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
