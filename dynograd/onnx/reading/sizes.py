"""Arithmetic on sizes, which are numbers of Python and small arrays of NumPy: what a model computes from shapes is no tensor in its code.

`SIZES` has a function for each operator of ONNX that models apply to shapes; its arguments are arrays and numbers, attributes are keywords.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy

from dynograd.onnx.reading.values import dtype_of, ints
from dynograd.tensor.tensor import Tensor

__all__ = ["SIZES"]

SIZES: dict[str, Callable[..., Any]] = {}

_UFUNCS = {  # operator -> NumPy's function
    "Add": "add", "Sub": "subtract", "Mul": "multiply", "Neg": "negative", "Floor": "floor", "Ceil": "ceil", "Sqrt": "sqrt",
    "Equal": "equal", "Greater": "greater", "GreaterOrEqual": "greater_equal", "Less": "less", "LessOrEqual": "less_equal",
    "Not": "logical_not",
}  # fmt: skip


def _enter(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        SIZES.update(dict.fromkeys(names, function))
        return function

    return enter


@_enter("Shape")
def shape(x: Tensor | numpy.ndarray, *, start: int = 0, end: int | None = None) -> numpy.ndarray:
    return numpy.array(list(x.shape)[start:end], numpy.int64)


@_enter("Size")
def size(x: Tensor | numpy.ndarray) -> numpy.ndarray:
    return numpy.array(numpy.prod(x.shape), numpy.int64)


@_enter("Identity")
def identity(x: Any) -> numpy.ndarray:
    return numpy.asarray(x)


@_enter("Gather")
def gather(x: Any, indices: Any, *, axis: int = 0) -> numpy.ndarray:
    return numpy.take(x, indices, axis)


@_enter("Concat")
def concat(*xs: Any, axis: int) -> numpy.ndarray:
    return numpy.concatenate(xs, axis)


@_enter("Slice")
def part(x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> numpy.ndarray:
    x, starts, ends = numpy.asarray(x), ints(starts), ints(ends)
    places = [slice(None)] * x.ndim
    for axis, start, end, step in zip(
        range(len(starts)) if axes is None else ints(axes),
        starts,
        ends,
        [1] * len(starts) if steps is None else ints(steps),
    ):
        low, high, step = slice(start, end, step).indices(x.shape[axis])
        places[axis] = slice(low, high if high >= 0 else None, step)
    return x[tuple(places)]


@_enter("Reshape")
def reshape(x: Any, sizes: Any, *, allowzero: int = 0) -> numpy.ndarray:
    x = numpy.asarray(x)
    return x.reshape([x.shape[axis] if size == 0 and not allowzero else size for axis, size in enumerate(ints(sizes))])


@_enter("Unsqueeze")
def unsqueeze(x: Any, axes: Any) -> numpy.ndarray:
    return numpy.expand_dims(x, tuple(ints(axes)))


@_enter("Squeeze")
def squeeze(x: Any, axes: Any = None) -> numpy.ndarray:
    return numpy.squeeze(x, None if axes is None else tuple(ints(axes)))


@_enter("Cast")
def cast(x: Any, *, to: int, saturate: int = 1, round_mode: str = "up") -> numpy.ndarray:
    return numpy.asarray(x).astype(dtype_of(to).numpy)


@_enter("Div")
def div(x: Any, y: Any) -> numpy.ndarray:
    x, y = numpy.asarray(x), numpy.asarray(y)
    return x / y if x.dtype.kind == "f" else numpy.trunc(x / y).astype(x.dtype)


@_enter("Mod")
def mod(x: Any, y: Any, *, fmod: int = 0) -> numpy.ndarray:
    return numpy.fmod(x, y) if fmod else numpy.mod(x, y)


@_enter("Max")
def maximum(*xs: Any) -> numpy.ndarray:
    return reduce(numpy.maximum, xs)


@_enter("Min")
def minimum(*xs: Any) -> numpy.ndarray:
    return reduce(numpy.minimum, xs)


@_enter("Where")
def where(condition: Any, x: Any, y: Any) -> numpy.ndarray:
    return numpy.where(condition, x, y)


@_enter("ReduceProd")
def prod(x: Any, axes: Any = None, *, keepdims: int = 1) -> numpy.ndarray:
    return numpy.prod(x, None if axes is None else tuple(ints(axes)), keepdims=bool(keepdims))


@_enter("ConstantOfShape")
def filled(sizes: Any, *, value: Any = None) -> numpy.ndarray:
    return numpy.full(
        ints(sizes), 0.0 if value is None else value.numpy().reshape(()), None if value is not None else numpy.float32
    )


def _add_ufuncs() -> None:
    for name, word in _UFUNCS.items():
        SIZES[name] = getattr(numpy, word)


_add_ufuncs()
