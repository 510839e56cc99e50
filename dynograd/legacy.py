"""Old names that programs still use: typed constructors (`LongTensor`), `autograd.Variable`."""

from __future__ import annotations

from typing import Any

from dynograd import dtypes
from dynograd.creation import arange
from dynograd.errors import ShapeError
from dynograd.out_forms import out_dtype, write_out
from dynograd.tensor import Tensor

__all__ = [
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "DoubleTensor",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "ShortTensor",
    "Variable",
    "numel",
    "range",
    "set_default_tensor_type",
]


class _TypedMeta(type):
    dtype: dtypes.dtype

    def __call__(cls, *data: Any, device: Any = None) -> Tensor:  # type: ignore[override]
        return Tensor(*data, dtype=cls.dtype, device=device)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, Tensor) and value.dtype is cls.dtype

    def __repr__(cls) -> str:
        return f"dynograd.{cls.__name__}"


def _typed(name: str, dtype: dtypes.dtype) -> Any:
    return _TypedMeta(name, (), {"dtype": dtype, "__doc__": f"`{name}(data or sizes)`: a tensor of {dtype} (legacy)."})


FloatTensor = _typed("FloatTensor", dtypes.float32)
DoubleTensor = _typed("DoubleTensor", dtypes.float64)
HalfTensor = _typed("HalfTensor", dtypes.float16)
BFloat16Tensor = _typed("BFloat16Tensor", dtypes.bfloat16)
LongTensor = _typed("LongTensor", dtypes.int64)
IntTensor = _typed("IntTensor", dtypes.int32)
ShortTensor = _typed("ShortTensor", dtypes.int16)
CharTensor = _typed("CharTensor", dtypes.int8)
ByteTensor = _typed("ByteTensor", dtypes.uint8)
BoolTensor = _typed("BoolTensor", dtypes.bool)

TYPE_NAMES = {
    dtypes.float32: "FloatTensor",
    dtypes.float64: "DoubleTensor",
    dtypes.float16: "HalfTensor",
    dtypes.bfloat16: "BFloat16Tensor",
    dtypes.int64: "LongTensor",
    dtypes.int32: "IntTensor",
    dtypes.int16: "ShortTensor",
    dtypes.int8: "CharTensor",
    dtypes.uint8: "ByteTensor",
    dtypes.bool: "BoolTensor",
    dtypes.complex64: "ComplexFloatTensor",
    dtypes.complex128: "ComplexDoubleTensor",
}


def Variable(data: Any, requires_grad: bool = False, volatile: bool = False) -> Tensor:
    """The tensor itself (since 0.4 a tensor carries its own gradient); `requires_grad` is set when asked.

    >>> dynograd.autograd.Variable(tensor([1.0]), requires_grad=True).requires_grad
    True
    """
    if not isinstance(data, Tensor):
        raise TypeError(f"Variable: Variable data has to be a tensor, but got {type(data).__name__}.")
    if not requires_grad:
        return data
    return data.detach().requires_grad_()


def type_(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """Without an argument the type's name, `dynograd.FloatTensor`; with a dtype or type name, the converted tensor."""
    if dtype is None:
        return f"dynograd.{TYPE_NAMES[self.dtype]}"
    if isinstance(dtype, _TypedMeta):
        return self.to(dtype.dtype)  # type: ignore[attr-defined]
    if isinstance(dtype, str):
        wanted = dtype.split(".")[-1]
        for kind, name in TYPE_NAMES.items():
            if name == wanted:
                return self.to(kind)  # type: ignore[attr-defined]
    return self.to(dtypes.as_dtype(dtype))  # type: ignore[attr-defined]


def numel(input: Tensor) -> int:
    """How many elements there are.

    >>> dynograd.numel(dynograd.zeros(2, 3))
    6
    """
    return input.numel()


def set_default_tensor_type(t: Any) -> None:
    """Sets the default dtype by a floating type such as `DoubleTensor` or its name (old; use `set_default_dtype`).

    Raises:
        TypeError: not a type of floating tensors on the CPU.
    """
    kind = getattr(t, "dtype", None)
    name = t.split(".")[-1] if isinstance(t, str) and ".cuda." not in t else None
    for each, known in TYPE_NAMES.items():
        if known == name:
            kind = each
    if kind is None or not kind.is_floating_point:
        raise TypeError(
            f"set_default_tensor_type: only floating-point types are supported as the default type, got {t!r}. "
            f"Use set_default_dtype, and set_default_device for the device."
        )
    dtypes.set_default_dtype(kind)


def range(
    start: Any,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    out: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """`start`, `start + step`, ... up to and with `end`, in the default dtype (old; use `arange`, which leaves `end` out).

    >>> dynograd.range(1, 3)
    tensor([1., 2., 3.])
    """
    if end is None:
        start, end = 0, start
    start, end, step = (one.item() if hasattr(one, "item") else one for one in (start, end, step))
    if step == 0 or (end - start) * step < 0:
        raise ShapeError(
            f"range: upper bound and lower bound inconsistent with step sign: start={start}, end={end}, step={step}. "
            f"Swap the bounds or change the sign of step."
        )
    kind = out_dtype(dtype, out) or dtypes.get_default_dtype()
    count = int((end - start) // step) + 1
    made = arange(count, dtype=dtypes.float64, device=out.device if device is None and out is not None else device)
    made = (start + step * made).to(kind).requires_grad_(requires_grad)  # type: ignore[attr-defined]
    return made if out is None else write_out("range", out, made)
