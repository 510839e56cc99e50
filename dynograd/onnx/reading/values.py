"""What operators share: numbers out of tensors, dtypes by ONNX's numbers, windows over spatial dims."""

from __future__ import annotations

import sys
from typing import Any

import numpy

from dynograd.base.dtypes import dtype, of_array
from dynograd.errors import OnnxError
from dynograd.tensor.tensor import Tensor

dynograd: Any = sys.modules["dynograd"]  # its public names, as programs have them: it lies above this layer

__all__ = [
    "Numbers", "Results", "TypedNumber", "cast", "dtype_of", "dynograd", "ints", "number", "numbers", "same_pads", "tensor_of",
    "tensor_of_sizes", "value_of",
]  # fmt: skip

# An input that is read as numbers: constants stand in the code as such, sizes are arrays, and older opsets have it as an attribute.
Numbers = Tensor | numpy.ndarray | list | float
TypedNumber = Tensor | numpy.ndarray  # a number whose dtype matters
Results = Tensor | tuple[Tensor, ...]  # of operators that have further outputs where the model asks for them

_DTYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16",
    17: "float8_e4m3fn", 19: "float8_e5m2",
}  # fmt: skip


def dtype_of(code: int) -> dtype:
    """The dtype that TensorProto's number stands for."""
    if code not in _DTYPES:
        import onnx

        known = code in onnx.TensorProto.DataType.values()
        name = onnx.TensorProto.DataType.Name(code) if known else str(code)
        raise OnnxError(
            f"onnx.load: tensors of type {name} have no dynograd dtype. Expected one of {', '.join(_DTYPES.values())}; "
            "convert the model to one of them."
        )
    return getattr(dynograd, _DTYPES[code])


def tensor_of(array: numpy.ndarray) -> Tensor:
    """The array as a tensor that owns its memory."""
    return dynograd.from_numpy(numpy.array(array))


def tensor_of_sizes(sizes: numpy.ndarray) -> Tensor:
    """Sizes as a tensor, by a call of which `dynograd.export` sees which sizes they are."""
    return dynograd.tensor(sizes.tolist(), dtype=of_array(sizes))


def value_of(array: numpy.ndarray) -> Tensor | numpy.ndarray:
    """The array as a tensor; strings stay a NumPy array of objects."""
    return array.astype(object) if array.dtype.kind in "OSU" else tensor_of(array)


def cast(x: Tensor | numpy.ndarray, dtype: Any, saturate: bool = True) -> Tensor:
    """`x` in another dtype; numbers too large for an 8-bit float become its largest, unless `saturate` is false."""
    if isinstance(x, numpy.ndarray):
        return dynograd.tensor([float(word) for word in x.ravel()], dtype=dtype).reshape(*x.shape)
    if dtype not in (dynograd.float8_e4m3fn, dynograd.float8_e5m2) or not x.dtype.is_floating_point:
        return x.to(dtype)
    values = x.float()
    largest = dynograd.finfo(dtype).max
    if saturate:
        values = values.clamp(-largest, largest)
    elif dtype == dynograd.float8_e4m3fn:  # it has no infinity; from the middle of 448 and 480 on it is NaN
        values = dynograd.where(abs(values) > 464, float("nan"), values)
    return values.to(dtype)


def numbers(x: Any) -> list:
    """A list of the numbers of a tensor, an array or a list."""
    if isinstance(x, list | tuple):
        return list(x)
    if isinstance(x, int | float):
        return [x]
    return x.reshape(-1).tolist()


def ints(x: Any) -> list[int]:
    """A list of ints out of a tensor or a list."""
    return [int(value) for value in numbers(x)]


def number(x: Any) -> float | int | bool:
    """The one number of a tensor."""
    return numbers(x)[0]


def same_pads(sizes: Any, kernel: Any, strides: Any, dilations: Any, auto_pad: str) -> list[int]:
    """The pads, first those before and then those behind, that `auto_pad` stands for."""
    if auto_pad == "VALID":
        return [0] * (2 * len(kernel))
    before, behind = [], []
    for size, width, stride, dilation in zip(sizes, kernel, strides, dilations):
        total = max((-(-size // stride) - 1) * stride + dilation * (width - 1) + 1 - size, 0)
        small = total // 2
        before.append(small if auto_pad == "SAME_UPPER" else total - small)
        behind.append(total - before[-1])
    return before + behind
