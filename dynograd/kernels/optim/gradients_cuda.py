"""Sums of gradients on a GPU."""

from __future__ import annotations

from typing import Any

from dynograd.arrays.cuda_arrays import operations
from dynograd.kernels.elementwise import elementwise_cuda


def add(first: Any, other: Any) -> Any:
    """one + other, as a new array."""
    return operations.elementwise("add", first, other)


def add_into(target: Any, value: Any) -> None:
    """target += value, in the memory of `target`."""
    if target.dtype.kind == "c" or not elementwise_cuda.into("add", [target, value], ()):
        operations.copy_into(target, operations.elementwise("add", target, value))
