"""Picking elements along a dim by indices that another op has found: how maxima, sorts and their like move gradients."""

from __future__ import annotations

from typing import Any

from dynograd.arrays import Array
from dynograd.kernels import kernel
from dynograd.ops.op import op
from dynograd.ops.reductions import kept
from dynograd.ops.views import reshaped

__all__: list[str] = []


@op(linear=True, saves="input.shape index")
def take_along(input: Array, index: Array, dim: int, distinct: bool) -> Array:
    """The elements of `input` at `index` along `dim`; sizes of the other dims are equal. `distinct`: none is picked twice."""
    return kernel("selections_along", "take_along", input)(input, index, dim)


@take_along.backward
def take_along_backward(g: Any, saved: Any, dim: Any, distinct: Any) -> Any:
    return put_along(g, saved.index, dim, saved.input_shape[dim], distinct), None


@op(linear=True, saves="index")
def put_along(g: Array, index: Array, dim: int, size: int, distinct: bool) -> Array:
    """Zeros with `size` elements along `dim` to which `g` is added at `index`."""
    return kernel("selections_along", "put_along", g)(g, index, dim, size, distinct)


@put_along.backward
def put_along_backward(g: Any, saved: Any, dim: Any, size: Any, distinct: Any) -> Any:
    return take_along(g, saved.index, dim, distinct), None


def picked(input: Any, index: Any, shape: tuple[int, ...], dim: int, keepdim: bool) -> Any:
    """The element of each row along `dim` at `index`, which a reduction over `dim` of `shape` gave."""
    if not shape:
        return input * 1
    found = take_along(input, kept(index, shape, dim, keepdim), dim, True)
    return found if keepdim else reshaped(found, (*shape[:dim], *shape[dim + 1 :]))


def put_back(g: Any, index: Any, shape: tuple[int, ...], dim: int, keepdim: bool) -> Any:
    """The transpose of `picked`: the gradient of each result at the element that it came from."""
    if not shape:
        return g
    return put_along(kept(g, shape, dim, keepdim), kept(index, shape, dim, keepdim), dim, shape[dim], True)
