"""Weights of convolutions in another memory layout."""

from __future__ import annotations

from typing import Any

from dynograd.base.memory_formats import memory_format as MemoryFormat
from dynograd.nn.layers.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from dynograd.nn.module import Module

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def convert_conv2d_weight_memory_format(module: Module, memory_format: MemoryFormat) -> Module:
    """`module` with the weights of its `Conv2d` and `ConvTranspose2d` laid out as `memory_format` says.

    Args:
        module: changed in place, with all modules below it.
        memory_format: `channels_last` or `contiguous_format`.
    Returns:
        `module`.

    >>> model = convert_conv2d_weight_memory_format(dynograd.nn.Conv2d(2, 4, 3), dynograd.channels_last)
    >>> model.weight.is_contiguous(memory_format=dynograd.channels_last)
    True
    """
    return _converted(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: Module, memory_format: MemoryFormat) -> Module:
    """`module` with the weights of its `Conv3d` and `ConvTranspose3d` laid out as `memory_format` says.

    Args:
        module: changed in place, with all modules below it.
        memory_format: `channels_last_3d` or `contiguous_format`.
    Returns:
        `module`.

    >>> model = convert_conv3d_weight_memory_format(dynograd.nn.Conv3d(2, 4, 3), dynograd.channels_last_3d)
    >>> model.weight.is_contiguous(memory_format=dynograd.channels_last_3d)
    True
    """
    return _converted(module, (Conv3d, ConvTranspose3d), memory_format)


def _converted(module: Any, kinds: tuple[type, ...], memory_format: MemoryFormat) -> Module:
    for submodule in module.modules():
        if isinstance(submodule, kinds):
            submodule.weight.data = submodule.weight.detach().clone().contiguous(memory_format=memory_format)  # type: ignore[attr-defined]
    return module
