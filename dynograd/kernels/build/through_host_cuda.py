"""Kernels that a GPU has not: the CPU's are used, on copies in host memory, and a warning says so once for each.

For what is rare on GPUs or is done on the host elsewhere too: factorizations, Fourier transforms, functions of complex numbers.
Everything that training steps are made of has kernels of its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.errors import user_level


class NoComplexKernelError(TypeError):
    """A kernel was asked for complex numbers; the CPU's takes them."""


FAMILIES = frozenset({"family_draws", "ffts", "linear_algebra", "symmetric_factors"})
# Elementwise functions whose loops end where values tell.
FUNCTIONS = frozenset({"igamma", "igammac"})


def through_host(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The CPU's kernel on copies of a GPU's arrays; its results lie on the GPU."""
    warned = False

    def computed(*args: Any, device: Any = None, **kwargs: Any) -> Any:
        nonlocal warned
        index = device.index if device is not None else _device_of((*args, *kwargs.values()))
        if not warned:
            warned = True
            warnings.warn(
                f"{name}: has no kernel for GPUs. It is computed on the CPU: the host waits and copies, each time. "
                f"Move the tensor with .cpu() where that matters.",
                stacklevel=user_level(),
            )
        result = function(
            *[_to_host(value) for value in args], **{key: _to_host(value) for key, value in kwargs.items()}
        )
        return _to_device(result, index)

    computed.__name__, computed.__doc__ = name, function.__doc__
    return computed


def _device_of(values: Any) -> int:
    for value in values:
        if type(value) is CudaArray:
            return value.device_index
        if isinstance(value, (list, tuple)) and (place := _device_of(value)) >= 0:
            return place
    return -1


def _to_host(value: Any) -> Any:
    if type(value) is CudaArray:
        return value.numpy()
    if type(value) in (list, tuple):
        return type(value)([_to_host(part) for part in value])
    return value


def _to_device(value: Any, device: int) -> Any:
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        return cuda_arrays.from_numpy(numpy.asarray(value), device)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[_to_device(part, device) for part in value])
    if type(value) in (list, tuple):
        return type(value)([_to_device(part, device) for part in value])
    return value
