"""`x[index] = value` of ragged tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynograd.errors import ShapeError
from dynograd.ragged.families.entries import host
from dynograd.ragged.families.groups import index_of
from dynograd.ragged.families.indexing import item
from dynograd.ragged.families.reductions import all_elements
from dynograd.ragged.invoking import run
from dynograd.ragged.tensor import RaggedTensor
from dynograd.tensor.tensor import Tensor

__all__ = ["set_item"]


def set_item(x: RaggedTensor, index: Any, value: Any) -> None:
    """`x[index] = value`: written into the elements that `x[index]` reads."""
    picked = item(x.with_packed(_numbers_of(x.packed)), index)  # what stands where, of the same shape as x
    if isinstance(value, RaggedTensor):
        if not isinstance(picked, RaggedTensor):
            raise ShapeError(
                f"setitem: a ragged value cannot be written at an index that gives shape {tuple(picked.shape)}."
            )
        picked.partition.check_same("setitem", value.partition, ("the", "the written"))
    places = all_elements(picked) if isinstance(picked, RaggedTensor) else picked.reshape(-1)
    if isinstance(value, Tensor):
        in_order = (
            isinstance(index, RaggedTensor) and not isinstance(value, RaggedTensor) and value.shape == places.shape
        )
        if not in_order and tuple(value.shape) != tuple(picked.shape):
            like = picked if isinstance(picked, RaggedTensor) else None
            value = run("expand.public", value, tuple(picked.shape)) if like is None else run("expand_as", value, like)
        value = all_elements(value)
    target = _lowest(x)
    if target.is_contiguous():
        run("view", target, (target.numel(),))[places] = value
    else:
        target[
            tuple([index_of(numbers, target) for numbers in np.unravel_index(host(places), tuple(target.shape))])
        ] = value


def _lowest(x: Any) -> Any:
    while isinstance(x, RaggedTensor):
        x = x.packed
    return x


def _numbers_of(packed: Any) -> Any:
    """The packed elements' own numbers, in the shape of the packed elements."""
    if isinstance(packed, RaggedTensor):
        return packed.with_packed(_numbers_of(packed.packed))
    return index_of(np.arange(packed.numel(), dtype=np.int64), packed).reshape(tuple(packed.shape))


setattr(RaggedTensor, "__setitem__", set_item)  # noqa: B010
