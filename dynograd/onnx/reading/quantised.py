"""Whole numbers that stand for reals: value = (number - zero point) * scale."""

from __future__ import annotations

from typing import Any

import dynograd
from dynograd.onnx.reading.products import conv
from dynograd.onnx.reading.registry import operator
from dynograd.onnx.reading.values import cast, dtype_of


def _along(part: Any, x: Any, axis: int, block_size: int) -> Any:
    """Scales or zero points, spread over `x`."""
    if block_size:
        return dynograd.repeat_interleave(part, block_size, axis).narrow(axis, 0, x.shape[axis])
    if part.ndim == 0 or part.numel() == 1:
        return part.reshape([])
    return part.reshape([-1 if dim == axis % x.ndim else 1 for dim in range(x.ndim)])


def _rounded(y: Any, zero: Any, dtype: Any) -> Any:
    if dtype.is_floating_point:
        return cast(y if zero is None else y + zero.float(), dtype)
    y = dynograd.round(y)
    limits = dynograd.iinfo(dtype)
    return dynograd.clamp(y if zero is None else y + zero.float(), limits.min, limits.max).to(dtype)


@operator("QuantizeLinear")
def quantize(
    x: Any, scale: Any, zero: Any = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0,
    precision: int = 0, saturate: int = 1,
) -> Any:  # fmt: skip
    dtype = zero.dtype if zero is not None else dtype_of(output_dtype or 2)
    zero = None if zero is None else _along(zero, x, axis, block_size)
    return _rounded(x.float() / _along(scale, x, axis, block_size).float(), zero, dtype)


@operator("DequantizeLinear")
def dequantize(
    x: Any, scale: Any, zero: Any = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0
) -> Any:
    y = x.float() if zero is None else x.float() - _along(zero, x, axis, block_size).float()
    y = y * _along(scale, x, axis, block_size).float()
    return y.to(dtype_of(output_dtype) if output_dtype else scale.dtype)


@operator("DynamicQuantizeLinear", outputs=3)
def dynamic_quantize(x: Any) -> Any:
    low, high = dynograd.clamp(x.min(), max=0), dynograd.clamp(x.max(), min=0)
    scale = (high - low) / 255
    zero = dynograd.clamp(dynograd.round(-low / scale), 0, 255).to(dynograd.uint8)
    return quantize(x, scale, zero), scale, zero


def _centred(x: Any, zero: Any, axis: int) -> Any:
    """Whole numbers less their zero point, as float64, which holds their products and sums exactly."""
    return x.double() if zero is None else x.double() - _along(zero, x, axis, 0).double()


@operator("MatMulInteger")
def matmul_integer(a: Any, b: Any, zero_a: Any = None, zero_b: Any = None) -> Any:
    return (_centred(a, zero_a, -2) @ _centred(b, zero_b, -1)).to(dynograd.int32)


@operator("QLinearMatMul")
def quantized_matmul(
    a: Any, scale_a: Any, zero_a: Any, b: Any, scale_b: Any, zero_b: Any, scale_y: Any, zero_y: Any
) -> Any:
    y = _centred(a, zero_a, -2) @ _centred(b, zero_b, -1)
    y = y * _along(scale_a.double(), a, -2, 0) * _along(scale_b.double(), b, -1, 0) / scale_y.double()
    return _rounded(y, zero_y, zero_y.dtype)


@operator("ConvInteger")
def conv_integer(x: Any, w: Any, zero_x: Any = None, zero_w: Any = None, **geometry: Any) -> Any:
    return conv(_centred(x, zero_x, 1), _centred(w, zero_w, 0), **geometry).to(dynograd.int32)


@operator("QLinearConv")
def quantized_conv(
    x: Any, scale_x: Any, zero_x: Any, w: Any, scale_w: Any, zero_w: Any, scale_y: Any, zero_y: Any, b: Any = None,
    **geometry: Any,
) -> Any:  # fmt: skip
    b = None if b is None else b.double()
    y = conv(_centred(x, zero_x, 1), _centred(w, zero_w, 0), b, **geometry)
    y = y * scale_x.double() * _along(scale_w.double(), y, 1, 0) / scale_y.double()
    return _rounded(y, zero_y, zero_y.dtype)
