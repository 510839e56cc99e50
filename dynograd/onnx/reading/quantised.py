"""Whole numbers that stand for reals: value = (number - zero point) * scale."""

from __future__ import annotations

from typing import Any

from dynograd.onnx.reading.products import conv
from dynograd.onnx.reading.registry import operator
from dynograd.onnx.reading.values import cast, dtype_of, dynograd
from dynograd.tensor.tensor import Tensor


def _along(part: Any, x: Any, axis: int, block_size: int) -> Tensor:
    """Scales or zero points, spread over `x`."""
    if block_size:
        return dynograd.repeat_interleave(part, block_size, axis).narrow(axis, 0, x.shape[axis])
    if part.ndim == 0 or part.numel() == 1:
        return part.reshape([])
    return part.reshape([-1 if dim == axis % x.ndim else 1 for dim in range(x.ndim)])


def _rounded(y: Tensor, zero: Any, dtype: Any) -> Tensor:
    if dtype.is_floating_point:
        return cast(y if zero is None else y + zero.float(), dtype)
    y = dynograd.round(y)
    limits = dynograd.iinfo(dtype)
    return dynograd.clamp(y if zero is None else y + zero.float(), limits.min, limits.max).to(dtype)


@operator("QuantizeLinear")
def quantize(
    x: Tensor, scale: Tensor, zero: Tensor | None = None, *, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0, precision: int = 0, saturate: int = 1,
) -> Tensor:  # fmt: skip
    dtype = zero.dtype if zero is not None else dtype_of(output_dtype or 2)
    zero = None if zero is None else _along(zero, x, axis, block_size)
    return _rounded(x.float() / _along(scale, x, axis, block_size).float(), zero, dtype)


@operator("DequantizeLinear")
def dequantize(
    x: Tensor, scale: Tensor, zero: Tensor | None = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0
) -> Tensor:
    y = x.float() if zero is None else x.float() - _along(zero, x, axis, block_size).float()
    y = y * _along(scale, x, axis, block_size).float()
    return y.to(dtype_of(output_dtype) if output_dtype else scale.dtype)


@operator("DynamicQuantizeLinear", outputs=3)
def dynamic_quantize(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    low, high = dynograd.clamp(x.min(), max=0), dynograd.clamp(x.max(), min=0)
    scale = (high - low) / 255
    zero = dynograd.clamp(dynograd.round(-low / scale), 0, 255).to(dynograd.uint8)
    return quantize(x, scale, zero), scale, zero


def _centred(x: Tensor, zero: Any, axis: int) -> Tensor:
    """Whole numbers less their zero point, as float64, which holds their products and sums exactly."""
    return x.double() if zero is None else x.double() - _along(zero, x, axis, 0).double()


@operator("MatMulInteger")
def matmul_integer(a: Tensor, b: Tensor, zero_a: Tensor | None = None, zero_b: Tensor | None = None) -> Tensor:
    return (_centred(a, zero_a, -2) @ _centred(b, zero_b, -1)).to(dynograd.int32)


@operator("QLinearMatMul")
def quantized_matmul(
    a: Tensor,
    scale_a: Tensor,
    zero_a: Tensor,
    b: Tensor,
    scale_b: Tensor,
    zero_b: Tensor,
    scale_y: Tensor,
    zero_y: Tensor,
) -> Tensor:
    y = _centred(a, zero_a, -2) @ _centred(b, zero_b, -1)
    y = y * _along(scale_a.double(), a, -2, 0) * _along(scale_b.double(), b, -1, 0) / scale_y.double()
    return _rounded(y, zero_y, zero_y.dtype)


@operator("ConvInteger")
def conv_integer(
    x: Tensor, w: Tensor, zero_x: Tensor | None = None, zero_w: Tensor | None = None, **geometry: Tensor
) -> Tensor:
    return conv(_centred(x, zero_x, 1), _centred(w, zero_w, 0), **geometry).to(dynograd.int32)


@operator("QLinearConv")
def quantized_conv(
    x: Tensor, scale_x: Tensor, zero_x: Tensor, w: Tensor, scale_w: Tensor, zero_w: Tensor, scale_y: Tensor,
    zero_y: Tensor, b: Tensor | None = None, **geometry: Tensor,
) -> Tensor:  # fmt: skip
    b = None if b is None else b.double()
    y = conv(_centred(x, zero_x, 1), _centred(w, zero_w, 0), b, **geometry)
    y = y * scale_x.double() * _along(scale_w.double(), y, 1, 0) / scale_y.double()
    return _rounded(y, zero_y, zero_y.dtype)
