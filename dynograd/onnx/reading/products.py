"""Products, convolutions and pools."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.nn import functional
from dynograd.onnx.reading.registry import operator
from dynograd.onnx.reading.values import Numbers, Results, dynograd, ints, same_pads, tensor_of_sizes
from dynograd.tensor.tensor import Tensor


@operator("Gemm")
def gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    y = (a.T if transA else a) @ (b.T if transB else b)
    y = y if alpha == 1 else y * alpha
    if c is None:
        return y
    return y + (c if beta == 1 else c * beta)


@operator("Einsum")
def einsum(*xs: Tensor, equation: str) -> Tensor:
    return dynograd.einsum(equation.replace(" ", ""), *xs)


def padded(x: Tensor, pads: Any, value: float = 0.0) -> Tensor:
    """`x` with ONNX's pads (before, then behind) around its last dims."""
    if not any(pads):
        return x
    half = len(pads) // 2
    amounts = [amount for axis in reversed(range(half)) for amount in (pads[axis], pads[half + axis])]
    return functional.pad(x, amounts, value=value)


@operator("Conv")
def conv(
    x: Tensor, w: Tensor, b: Tensor | None = None, *, auto_pad: str = "NOTSET", dilations: Any = None, group: int = 1,
    kernel_shape: Any = None, pads: Any = None, strides: Any = None,
) -> Tensor:  # fmt: skip
    dims = w.ndim - 2
    strides, dilations = strides or [1] * dims, dilations or [1] * dims
    if auto_pad != "NOTSET":
        pads = same_pads(x.shape[2:], w.shape[2:], strides, dilations, auto_pad)
    pads = pads or [0] * (2 * dims)
    if pads[:dims] != pads[dims:]:
        x, pads = padded(x, pads), [0] * dims
    convolve = getattr(functional, f"conv{dims}d")
    return convolve(x, w, b, tuple(strides), tuple(pads[:dims]), tuple(dilations), group)


@operator("ConvTranspose")
def conv_transpose(
    x: Tensor, w: Tensor, b: Tensor | None = None, *, auto_pad: str = "NOTSET", dilations: Any = None, group: int = 1,
    kernel_shape: Any = None, output_padding: Any = None, output_shape: Any = None, pads: Any = None,
    strides: Any = None,
) -> Tensor:  # fmt: skip
    dims = w.ndim - 2
    strides, dilations = strides or [1] * dims, dilations or [1] * dims
    extra = output_padding or [0] * dims
    convolve = getattr(functional, f"conv_transpose{dims}d")
    y = convolve(x, w, None, tuple(strides), 0, 0, group, tuple(dilations))
    sizes = [size + more for size, more in zip(y.shape[2:], extra)]
    if auto_pad.startswith("SAME") and output_shape is None:
        output_shape = [size * stride for size, stride in zip(x.shape[2:], strides)]
    if output_shape is not None:
        totals = [size - out for size, out in zip(sizes, output_shape[-dims:])]
        small = [total // 2 for total in totals]
        large = [total - part for total, part in zip(totals, small)]
        pads = small + large if auto_pad == "SAME_UPPER" else large + small
    pads = pads or [0] * (2 * dims)
    crops = [-amount for amount in pads]
    crops[dims:] = [crop + more for crop, more in zip(crops[dims:], extra)]
    y = padded(y, crops)
    return y if b is None else y + b.reshape(-1, *[1] * dims)


def _windows(
    x: Tensor, kernel: Any, strides: Any, dilations: Any, pads: Any, ceil: int, value: float, beyond: float
) -> Tensor:
    """(N, C, out..., k): the elements under each window; `value` stands for the pads, `beyond` for what lies behind them."""
    dims = len(kernel)
    outs, more = [], []
    for axis, (size, width, stride, dilation) in enumerate(zip(x.shape[2:], kernel, strides, dilations)):
        before, behind = pads[axis], pads[dims + axis]
        free = size + before + behind - dilation * (width - 1) - 1
        out = (-(-free // stride) if ceil else free // stride) + 1
        if ceil and (out - 1) * stride >= size + before:  # a window may not begin behind the data
            out -= 1
        outs.append(out)
        more.append(max((out - 1) * stride + dilation * (width - 1) + 1 - size - before, 0))
    inside = [min(pad, amount) for pad, amount in zip(pads[dims:], more)]
    x = padded(x, [*pads[:dims], *inside], value)
    x = padded(x, [0] * dims + [amount - pad for pad, amount in zip(inside, more)], beyond)
    for axis, (out, width, stride, dilation) in enumerate(zip(outs, kernel, strides, dilations)):
        places = numpy.arange(out)[:, None] * stride + numpy.arange(width) * dilation
        x = dynograd.index_select(x, 2 + 2 * axis, tensor_of_sizes(places.reshape(-1)))
        x = x.reshape(*x.shape[: 2 + 2 * axis], out, width, *x.shape[3 + 2 * axis :])
    order = [0, 1, *(2 + 2 * axis for axis in range(dims)), *(3 + 2 * axis for axis in range(dims))]
    return x.permute(order).reshape(*x.shape[:2], *outs, -1)


def _geometry(x: Any, kernel: Any, strides: Any, dilations: Any, pads: Any, auto_pad: str) -> tuple:
    dims = len(kernel)
    strides, dilations = strides or [1] * dims, dilations or [1] * dims
    if auto_pad != "NOTSET":
        pads = same_pads(x.shape[2:], kernel, strides, dilations, auto_pad)
    return strides, dilations, pads or [0] * (2 * dims)


@operator("MaxPool", outputs=0)
def max_pool(
    x: Tensor, *, kernel_shape: Any, strides: Any = None, dilations: Any = None, pads: Any = None,
    auto_pad: str = "NOTSET", ceil_mode: int = 0, storage_order: int = 0, n_outputs: int = 1,
) -> Results:  # fmt: skip
    strides, dilations, pads = _geometry(x, kernel_shape, strides, dilations, pads, auto_pad)
    lowest = -float("inf") if x.dtype.is_floating_point else dynograd.iinfo(x.dtype).min
    windows = _windows(x, kernel_shape, strides, dilations, pads, ceil_mode, lowest, lowest)
    if n_outputs == 1:
        return dynograd.amax(windows, -1)
    numbers = dynograd.arange(x.numel()).reshape(*x.shape)
    if storage_order:
        order = range(x.ndim - 1, 1, -1)
        numbers = dynograd.arange(x.numel()).reshape(*x.shape[:2], *x.shape[:1:-1]).permute(0, 1, *order)
    places = _windows(numbers, kernel_shape, strides, dilations, pads, ceil_mode, -1, -1)
    best = dynograd.argmax(windows, -1, keepdim=True)
    return dynograd.gather(windows, -1, best).squeeze(-1), dynograd.gather(places, -1, best).squeeze(-1)


@operator("AveragePool")
def average_pool(
    x: Tensor, *, kernel_shape: Any, strides: Any = None, dilations: Any = None, pads: Any = None,
    auto_pad: str = "NOTSET", ceil_mode: int = 0, count_include_pad: int = 0,
) -> Tensor:  # fmt: skip
    strides, dilations, pads = _geometry(x, kernel_shape, strides, dilations, pads, auto_pad)
    windows = _windows(x, kernel_shape, strides, dilations, pads, ceil_mode, 0.0, 0.0)
    counted = float(bool(count_include_pad))
    counts = _windows(dynograd.ones_like(x[:1, :1]), kernel_shape, strides, dilations, pads, ceil_mode, counted, 0.0)
    return windows.sum(-1) / counts.sum(-1)


@operator("LpPool")
def lp_pool(
    x: Tensor, *, kernel_shape: Any, strides: Any = None, dilations: Any = None, pads: Any = None,
    auto_pad: str = "NOTSET", ceil_mode: int = 0, p: int = 2,
) -> Tensor:  # fmt: skip
    strides, dilations, pads = _geometry(x, kernel_shape, strides, dilations, pads, auto_pad)
    windows = _windows(x, kernel_shape, strides, dilations, pads, ceil_mode, 0.0, 0.0)
    return (abs(windows) ** p).sum(-1) ** (1 / p)


@operator("GlobalAveragePool")
def global_average_pool(x: Tensor) -> Tensor:
    return x.mean(list(range(2, x.ndim)), keepdim=True)


@operator("GlobalMaxPool")
def global_max_pool(x: Tensor) -> Tensor:
    return x.amax(list(range(2, x.ndim)), keepdim=True)


@operator("GlobalLpPool")
def global_lp_pool(x: Tensor, *, p: int = 2) -> Tensor:
    return (abs(x) ** p).sum(list(range(2, x.ndim)), keepdim=True) ** (1 / p)


@operator("MaxUnpool")
def max_unpool(
    x: Tensor,
    indices: Tensor,
    shape: Numbers | None = None,
    *,
    kernel_shape: Any,
    strides: Any = None,
    pads: Any = None,
) -> Tensor:
    strides, _, pads = _geometry(x, kernel_shape, strides, None, pads, "NOTSET")
    dims = len(kernel_shape)
    sizes = [
        (size - 1) * stride + width - pads[axis] - pads[dims + axis]
        for axis, (size, stride, width) in enumerate(zip(x.shape[2:], strides, kernel_shape))
    ]
    inner = [*x.shape[:2], *sizes]
    y = dynograd.zeros(int(numpy.prod(inner)), dtype=x.dtype)
    y = y.scatter(0, indices.reshape(-1), x.reshape(-1)).reshape(inner)
    if shape is None:
        return y
    full = ints(shape)
    return padded(y, [0] * dims + [out - size for out, size in zip(full[2:], sizes)])
