"""`torch.nn.parallel.scatter_gather`: structures of tensors in chunks for devices, and back."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from dynograd.tensor.tensor import Tensor

dynograd: Any = sys.modules["dynograd"]  # its public names, as programs have them: it lies above this layer

__all__ = ["gather", "is_namedtuple", "scatter", "scatter_kwargs"]


def is_namedtuple(obj: Any) -> bool:
    return isinstance(obj, tuple) and hasattr(obj, "_asdict") and hasattr(obj, "_fields")


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> Any:
    """One structure for each device, tensors in chunks along `dim`; other values are the same in each.

    >>> from dynograd.nn.parallel.scatter_gather import scatter
    >>> scatter({"x": tensor([1, 2, 3]), "n": 5}, ["cpu", "cpu"])
    [{'x': tensor([1, 2]), 'n': 5}, {'x': tensor([3]), 'n': 5}]
    """
    if isinstance(inputs, Tensor):
        chunks = inputs.chunk(len(target_gpus), dim)
        return tuple([chunk.to(_place(device)) for chunk, device in zip(chunks, target_gpus)])
    if is_namedtuple(inputs):
        return [type(inputs)(*row) for row in zip(*[scatter(value, target_gpus, dim) for value in inputs])]
    if isinstance(inputs, tuple) and inputs:
        return list(zip(*[scatter(value, target_gpus, dim) for value in inputs]))
    if isinstance(inputs, list) and inputs:
        return [list(row) for row in zip(*[scatter(value, target_gpus, dim) for value in inputs])]
    if isinstance(inputs, dict) and inputs:
        rows = zip(*[scatter(value, target_gpus, dim) for value in inputs.values()])
        return [type(inputs)(zip(inputs.keys(), row)) for row in rows]
    return [inputs for _ in target_gpus]


def scatter_kwargs(
    inputs: tuple, kwargs: dict[str, Any] | None, target_gpus: Sequence[Any], dim: int = 0
) -> tuple[tuple, tuple]:
    """`scatter` of the arguments of a call, as many of both."""
    positional = list(scatter(inputs, target_gpus, dim)) if inputs else []
    named = list(scatter(kwargs, target_gpus, dim)) if kwargs else []
    positional += [()] * (len(named) - len(positional))
    named += [{} for _ in range(len(positional) - len(named))]
    return tuple(positional), tuple(named)


def gather(outputs: Sequence[Any], target_device: Any, dim: int = 0) -> object:
    """One structure of those of several devices, tensors joined along `dim`."""
    first = outputs[0]
    if isinstance(first, Tensor):
        parts = [part.reshape(1) if part.ndim == 0 else part for part in outputs]
        return dynograd.cat([part.to(_place(target_device)) for part in parts], dim)
    if first is None:
        return None
    if isinstance(first, dict):
        return type(first)((key, gather([output[key] for output in outputs], target_device, dim)) for key in first)
    if is_namedtuple(first):
        return type(first)._make([gather(row, target_device, dim) for row in zip(*outputs)])
    return type(first)([gather(row, target_device, dim) for row in zip(*outputs)])


def _place(device: Any) -> object:
    if isinstance(device, int):
        return "cpu" if device < 0 else f"cuda:{device}"
    return device
