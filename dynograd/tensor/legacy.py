"""Old names that programs still use: typed constructors (`LongTensor`), `autograd.Variable`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from dynograd import cuda
from dynograd.autograd.modes import MODES
from dynograd.base import devices, dtypes
from dynograd.base.hints import DeviceLike
from dynograd.base.shown_names import shown
from dynograd.errors import ShapeError, user_level
from dynograd.interpreter.out_forms import out_dtype, write_out
from dynograd.tensor.creation import arange, in_order
from dynograd.tensor.tensor import Tensor

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
    kind: str  # of device

    def __call__(cls, *data: object, device: DeviceLike = None) -> Tensor:
        return Tensor(*data, dtype=cls.dtype, device=cls.kind if device is None else device)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, Tensor) and value.dtype is cls.dtype and value.device.type == cls.kind

    def __repr__(cls) -> str:
        return shown(f"{'cuda.' if cls.kind == 'cuda' else ''}{cls.__name__}")


def _typed(name: str, dtype: dtypes.dtype) -> _TypedMeta:
    """The type for the CPU; that of the same name for GPUs becomes a name of `dynograd.cuda`."""
    text = (
        f"A tensor of {dtype} (old; use `dynograd.tensor(data, dtype={dtype})`). `isinstance` looks at the dtype.\n\nArgs:\n"
        f"    data: numbers, nested lists of them, an array, or sizes of a tensor of zeros.\n    device: where it lies.\n\n"
        f">>> dynograd.{name}([1, 0]).dtype\n{dtype}"
    )
    setattr(cuda, name, _TypedMeta(name, (), {"dtype": dtype, "kind": "cuda", "__doc__": text}))
    return _TypedMeta(name, (), {"dtype": dtype, "kind": "cpu", "__doc__": text})


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
    dtypes.uint16: "UInt16Tensor",
    dtypes.uint32: "UInt32Tensor",
    dtypes.uint64: "UInt64Tensor",
    dtypes.bool: "BoolTensor",
    dtypes.complex64: "ComplexFloatTensor",
    dtypes.complex128: "ComplexDoubleTensor",
}


class _Engine:
    """What programs reach as `Variable._execution_engine`."""

    def queue_callback(self, callback: Callable[[], Any]) -> None:
        """Calls `callback()` when the running backward pass has given all leaves their gradients.

        Args:
            callback: a function without arguments.
        Raises:
            RuntimeError: no backward is running.
        """
        task = MODES.task
        if task is None or task.gives:
            raise RuntimeError(
                "queue_callback: Final callbacks can only be installed during backward pass. Call it in a hook or in the backward of an "
                "autograd.Function, under backward() and not grad()."
            )
        task.at_end.append(callback)


class _VariableMeta(type):
    def __call__(cls, data: object = None, requires_grad: bool = False, volatile: bool | None = None) -> Tensor:
        if data is None:
            data = Tensor()
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable: Variable data has to be a tensor, but got {type(data).__name__}.")
        if volatile is not None:
            warnings.warn(
                "volatile was removed and now has no effect. Use `with torch.no_grad():` instead.",
                stacklevel=user_level(),
            )
        return data.detach().requires_grad_(requires_grad)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, Tensor)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, Tensor)


class Variable(metaclass=_VariableMeta):
    """The values of a tensor under a leaf of their own (since 0.4 a tensor carries its gradient itself). Every tensor is a Variable.

    Args:
        data: a tensor, whose memory is shared; an empty one when left out.
        requires_grad: whether the leaf takes a gradient.
        volatile: of PyTorch 0.3; it warns and does nothing.
    Returns:
        A tensor.
    Raises:
        TypeError: data is no tensor.

    >>> x = dynograd.autograd.Variable(tensor([1.0]), requires_grad=True)
    >>> x.requires_grad, isinstance(x, dynograd.autograd.Variable)
    (True, True)
    """

    _execution_engine = _Engine()


def type_(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """Without an argument the type's name, `dynograd.FloatTensor`; with a dtype or type name, the converted tensor.

    Args:
        dtype: a dtype, a type, or its name.
        non_blocking: accepted.
    Returns:
        A string, or a tensor.

    >>> tensor([1.0]).type(), tensor([1.5]).type(dynograd.int64)
    ('dynograd.FloatTensor', tensor([1]))
    """
    if dtype is None:
        return shown(f"{'cuda.' if self.device.type == 'cuda' else ''}{TYPE_NAMES[self.dtype]}")
    if isinstance(dtype, str):
        dtype = _type_named(dtype) or dtype
    if dtype is Tensor:
        return self.to(dtypes.get_default_dtype())
    if isinstance(dtype, _TypedMeta):
        if self.device.type == dtype.kind:
            return self.to(dtype.dtype)
        return self.to(dtype.kind, dtype.dtype)
    return self.to(dtypes.as_dtype(dtype))


def _type_named(name: str) -> _TypedMeta | None:
    """The type that `torch.FloatTensor` or `torch.cuda.FloatTensor` names; None for others."""
    parts = name.split(".")
    result = (vars(cuda) if parts[-2:-1] == ["cuda"] else globals()).get(parts[-1])
    return result if isinstance(result, _TypedMeta) else None


def numel(input: Tensor) -> int:
    """How many elements there are.

    Args:
        input: tensor.
    Returns:
        An int.

    >>> dynograd.numel(dynograd.zeros(2, 3))
    6
    """
    return input.numel()


def set_default_tensor_type(t: Any) -> None:
    """Sets the default dtype and device by a floating type such as `DoubleTensor`, `cuda.FloatTensor`, or its name.

    Old; use `set_default_dtype` and `set_default_device`.

    Args:
        t (type): a type of floating tensors, or its name.
    Raises:
        TypeError: not a type of floating tensors.
        DeviceError: a type of GPU tensors where no GPU can be used.

    >>> dynograd.set_default_tensor_type(dynograd.FloatTensor)
    """
    result = _type_named(t) if isinstance(t, str) else t
    kind, device = getattr(result, "dtype", None), getattr(result, "kind", "cpu")
    if kind is None or not kind.is_floating_point:
        raise TypeError(
            f"set_default_tensor_type: only floating-point types are supported as the default type, got {t!r}. "
            f"Use set_default_dtype, and set_default_device for the device."
        )
    if device == "cuda":
        cuda.init()
    dtypes.set_default_dtype(kind)
    devices.set_default_device(device)


def range(
    start: Any,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    out: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """`start`, `start + step`, ... up to and with `end`, in the default dtype (old; use `arange`, which leaves `end` out).

    Args:
        start: the first number; 0 when only one number is given.
        end: the last number.
        step: not 0; negative steps go down.
        dtype: of the elements; the default dtype.
        device: where it lives; by default the default device.
        requires_grad: record what is done with the result.
        layout, pin_memory: accepted; tensors made here are strided.
    Returns:
        (floor((end - start) / step) + 1,).

    >>> dynograd.range(1, 3)
    tensor([1., 2., 3.])
    """
    if end is None:
        start, end = 0, start
    start, end, step = (operand.item() if hasattr(operand, "item") else operand for operand in (start, end, step))
    if step == 0 or (end - start) * step < 0:
        raise ShapeError(
            f"range: upper bound and lower bound inconsistent with step sign: start={start}, end={end}, step={step}. "
            f"Swap the bounds or change the sign of step."
        )
    kind = out_dtype(dtype, out) or dtypes.get_default_dtype()
    count = int((end - start) // step) + 1
    result = arange(count, dtype=dtypes.float64, device=out.device if device is None and out is not None else device)
    result = (start + step * result).to(kind).requires_grad_(requires_grad)
    return result if out is None else write_out("range", out, in_order(result, out), warn=False)
