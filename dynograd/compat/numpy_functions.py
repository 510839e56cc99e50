"""`torch.compiler.wrap_numpy`: functions of NumPy's arrays as functions of tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy

from dynograd.tensor.creation import from_numpy
from dynograd.tensor.tensor import Tensor
from dynograd.transforms.trees import map_tree

__all__ = ["wrap_numpy"]


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function of tensors of one of NumPy's arrays: they are handed on as arrays that share their memory, and results come back as tensors.

    Args:
        fn: takes and gives arrays, also nested in lists, tuples and dicts.
    Returns:
        The function of tensors. Those that require grad it refuses, as NumPy knows no gradients.

    >>> import numpy
    >>> dynograd.compiler.wrap_numpy(numpy.flip)(tensor([1.0, 2.0]))
    tensor([2., 1.])
    """

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> object:
        args, kwargs = map_tree(lambda leaf: leaf.numpy() if isinstance(leaf, Tensor) else leaf, (args, kwargs))
        result = fn(*args, **kwargs)
        return map_tree(
            lambda leaf: _tensor_of(leaf) if isinstance(leaf, (numpy.ndarray, numpy.generic)) else leaf, result
        )

    return call


def _tensor_of(value: Any) -> Tensor:
    array = numpy.asarray(value)
    return from_numpy(array.copy() if min(array.strides, default=0) < 0 else array)
