"""Sums, means and extremes over axes, normalising functions over an axis, cumulative sums and sorted order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynograd.onnx.reading.registry import operator
from dynograd.onnx.reading.values import Numbers, dynograd, ints, number
from dynograd.tensor.tensor import Tensor


def _sum(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    return dynograd.sum(x, axes, keepdim=keep).to(x.dtype)


def _mean(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    if x.dtype.is_floating_point:
        return dynograd.mean(x, axes, keepdim=keep)
    return dynograd.mean(x.double(), axes, keepdim=keep).to(x.dtype)


def _product(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    for axis in sorted((axis % x.ndim for axis in axes), reverse=True):
        x = dynograd.prod(x, axis, keepdim=keep).to(x.dtype)
    return x


def _extreme(name: str) -> Callable[..., Any]:
    def extreme(x: Any, axes: list[int], keep: bool) -> Tensor:
        if x.dtype == dynograd.bool:
            whole = extreme(x.to(dynograd.uint8), axes, keep)
            return whole == 1 if name == "amax" else whole != 0
        if 0 in [x.shape[axis] for axis in axes]:
            shape = [1 if axis in axes or axis - x.ndim in axes else size for axis, size in enumerate(x.shape)]
            info = dynograd.finfo(x.dtype) if x.dtype.is_floating_point else dynograd.iinfo(x.dtype)
            infinite = float("inf") if x.dtype.is_floating_point else info.max
            lowest = -infinite if x.dtype.is_floating_point else info.min
            y = dynograd.full(shape, lowest if name == "amax" else infinite, dtype=x.dtype)
            return y if keep else y.squeeze(tuple(axes))
        return getattr(dynograd, name)(x, axes, keepdim=keep)

    return extreme


_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "ReduceSum": _sum,
    "ReduceMean": _mean,
    "ReduceProd": _product,
    "ReduceMax": _extreme("amax"),
    "ReduceMin": _extreme("amin"),
    "ReduceL1": lambda x, axes, keep: _sum(abs(x), axes, keep),
    "ReduceL2": lambda x, axes, keep: dynograd.sqrt(_sum((x * x).double(), axes, keep)).to(x.dtype),
    "ReduceSumSquare": lambda x, axes, keep: _sum(x * x, axes, keep),
    "ReduceLogSum": lambda x, axes, keep: dynograd.log(_sum(x, axes, keep)),
    "ReduceLogSumExp": lambda x, axes, keep: dynograd.logsumexp(x.double(), axes, keepdim=keep).to(x.dtype),
}


def reduced(kind: str, x: Any, axes: Any, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Tensor:
    """The reduction `kind` of `x` over the axes; over all where there are none, unless that is to do nothing."""
    axes = [] if axes is None else ints(axes)
    if not axes and not noop_with_empty_axes:
        axes = list(range(x.ndim))
    if not axes and x.ndim and kind in ("ReduceSum", "ReduceMean", "ReduceProd", "ReduceMax", "ReduceMin"):
        return x
    if not axes:  # an element alone is what is reduced
        return _REDUCTIONS[kind](x.unsqueeze(-1), [-1], False)
    return _REDUCTIONS[kind](x, axes, bool(keepdims))


def _enter(kind: str, since: int) -> None:
    @operator(kind, since=since)
    def over_tensor_axes(
        x: Tensor, axes: Numbers | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Tensor:
        return reduced(kind, x, axes, keepdims, noop_with_empty_axes)

    @operator(kind)
    def over_listed_axes(x: Tensor, *, axes: Any = None, keepdims: int = 1) -> Tensor:
        return reduced(kind, x, axes, keepdims)

    for function, name in ((over_tensor_axes, f"{kind}"), (over_listed_axes, f"{kind}_1")):
        function.__name__ = name
        globals()[name] = function


for _kind in _REDUCTIONS:
    _enter(_kind, 13 if _kind == "ReduceSum" else 18)


@operator("ArgMax")
def arg_max(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    if select_last_index:
        y = x.shape[axis] - 1 - dynograd.argmax(dynograd.flip(x, [axis]), axis, keepdim=bool(keepdims))
        return y
    return dynograd.argmax(x, axis, keepdim=bool(keepdims))


@operator("ArgMin")
def arg_min(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    return arg_max(-x, axis=axis, keepdims=keepdims, select_last_index=select_last_index)


def _over_last_axes(function: Callable[..., Any], x: Any, axis: int) -> Tensor:
    """Before opset 13 these functions saw a matrix: all dims from `axis` on are one."""
    axis %= x.ndim
    return function(x.flatten(axis), -1).reshape(x.shape)


@operator("Softmax", since=13)
def softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    return dynograd.softmax(x, axis)


@operator("Softmax")
def softmax_1(x: Tensor, *, axis: int = 1) -> Tensor:
    return _over_last_axes(dynograd.softmax, x, axis)


@operator("LogSoftmax", since=13)
def log_softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    return dynograd.log_softmax(x, axis)


@operator("LogSoftmax")
def log_softmax_1(x: Tensor, *, axis: int = 1) -> Tensor:
    return _over_last_axes(dynograd.log_softmax, x, axis)


def _hardmax(x: Tensor, axis: int) -> Tensor:
    first = dynograd.argmax(x, axis, keepdim=True)
    return dynograd.zeros_like(x).scatter(axis, first, dynograd.ones_like(first, dtype=x.dtype))


@operator("Hardmax", since=13)
def hardmax(x: Tensor, *, axis: int = -1) -> Tensor:
    return _hardmax(x, axis)


@operator("Hardmax")
def hardmax_1(x: Tensor, *, axis: int = 1) -> Tensor:
    return _over_last_axes(_hardmax, x, axis)


def _cumulative(function: Callable[..., Any], x: Any, axis: int, exclusive: int, reverse: int, neutral: int) -> Tensor:
    x = dynograd.flip(x, [axis]) if reverse else x
    y = function(x, axis).to(x.dtype)
    if exclusive:
        first = dynograd.full_like(y.narrow(axis, 0, 1), neutral)
        y = dynograd.cat([first, y.narrow(axis, 0, y.shape[axis] - 1)], axis)
    return dynograd.flip(y, [axis]) if reverse else y


@operator("CumSum")
def cumulative_sum(x: Tensor, axis: Numbers, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    return _cumulative(dynograd.cumsum, x, int(number(axis)), exclusive, reverse, 0)


@operator("CumProd")
def cumulative_product(x: Tensor, axis: Numbers, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    return _cumulative(dynograd.cumprod, x, int(number(axis)), exclusive, reverse, 1)


@operator("TopK", since=10, outputs=2)
def top_k(x: Tensor, k: Numbers, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> tuple[Tensor, Tensor]:
    order = dynograd.argsort(x, dim=axis, descending=bool(largest), stable=True).narrow(axis, 0, int(number(k)))
    return dynograd.gather(x, axis, order), order
