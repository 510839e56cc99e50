"""What names in PyTorch's checkpoints stand for: tensors, parameters, sizes, devices, dtypes, plain NumPy arrays. Nothing else.

Each entry of `CALLS` is a function of (machine, arguments) that checks what it is given; see `torch_pickles` for who calls it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy

from dynograd import devices, dtypes, tensor_parts
from dynograd.arrays import storages
from dynograd.shapes import Size
from dynograd.tensor import Tensor, wrap
from dynograd.torch_pickles import PLAIN_BUILDS, PLAIN_CALLS, Global, Machine

__all__ = ["BUILDS", "CALLS", "CONSTANTS", "LOCATION", "OUTLINE", "STORAGES", "Storage"]

LOCATION = re.compile(r"(cpu|cuda|mps|xpu|hpu|npu|xla|mtia|privateuseone)(:\d{1,3})?")
_OLDER = "Use an older checkpoint."


class Storage(Global):
    """Memory that tensors share, and its dtype. On the CPU the bytes come when the structure is known."""

    __slots__ = ("memory", "dtype", "fill")

    def __init__(self, memory: Any, dtype: dtypes.dtype, fill: Callable[[], None]) -> None:
        self.name, self.memory, self.dtype, self.fill = "a storage", memory, dtype, fill


def _wrong(what: str) -> TypeError:
    return TypeError(f"wrong {what}")


def _tensor(machine: Machine, storage: Any, offset: Any, size: Any, stride: Any, dtype: Any = None) -> Tensor:
    if type(storage) is not Storage or not isinstance(size, (tuple, list)) or not isinstance(stride, (tuple, list)):
        raise _wrong("arguments of a tensor")
    dtype = storage.dtype if dtype is None else dtype
    if (
        any([type(one) is not int or not 0 <= one < 1 << 62 for one in (offset, *size, *stride)])
        or type(dtype) is not dtypes.dtype
    ):
        raise machine.error(
            f"is damaged: a tensor has size {size!r:.100}, strides {stride!r:.100}, offset {offset!r:.40}. {_OLDER}"
        )
    if len(size) != len(stride) or len(size) > 64:
        raise machine.error(f"is damaged: a tensor has {len(size)} sizes and {len(stride)} strides. {_OLDER}")
    item, total = dtype.itemsize, storage.memory.nbytes
    last = offset + sum([(length - 1) * step for length, step in zip(size, stride)])
    if 0 not in size and (last + 1) * item > total:
        raise machine.error(
            f"is damaged: a tensor of size {tuple(size)}, strides {tuple(stride)} and offset {offset} needs {(last + 1) * item} bytes, "
            f"its storage has {total}. {_OLDER}"
        )
    machine.pay(1024)
    steps = storages.row_major(tuple(size), item) if 0 in size else tuple([step * item for step in stride])
    return wrap(storages.placed(storage.memory, dtype.numpy, tuple(size), steps, offset * item))


def _tensor_2(
    machine: Machine,
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any = False,
    hooks: Any = None,
    metadata: Any = None,
    dtype: Any = None,
) -> Tensor:
    made = _tensor(machine, storage, offset, size, stride, dtype)
    if isinstance(metadata, dict) and (metadata.get("conj") or metadata.get("neg")):
        storage.fill()
        made = made.conj() if metadata.get("conj") else made
        made = -made if metadata.get("neg") else made
    return _with_grad(machine, made, requires_grad)


def _tensor_3(
    machine: Machine,
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    grad: Any,
    hooks: Any,
    dtype: Any,
    metadata: Any = None,
) -> Tensor:
    return _tensor_2(machine, storage, offset, size, stride, grad, hooks, metadata, dtype)


def _with_grad(machine: Machine, made: Tensor, requires_grad: Any) -> Tensor:
    if requires_grad:
        if not (made.dtype.is_floating_point or made.dtype.is_complex):
            raise machine.error(f"is damaged: a tensor of {made.dtype} is said to require a gradient. {_OLDER}")
        made.requires_grad = True
    return made


def _parameter(machine: Machine, data: Any, requires_grad: Any = True, hooks: Any = None, state: Any = None) -> Tensor:
    if not isinstance(data, Tensor):
        raise _wrong("data of a parameter")
    made = tensor_parts.make_parameter(data.detach(), requires_grad=False)
    return _with_attributes(_with_grad(machine, made, requires_grad), state)


def _with_attributes(made: Tensor, state: Any) -> Tensor:
    """Attributes that a program gave its tensor; they never hide what tensors have themselves."""
    for part in state if isinstance(state, tuple) else (state,):
        for name, value in part.items() if isinstance(part, dict) else ():
            if type(name) is str and name.isidentifier() and not name.startswith("_") and not hasattr(made, name):
                setattr(made, name, value)
    return made


def _of_type(machine: Machine, function: Any, kind: Any, arguments: Any, state: Any) -> Tensor:
    made = machine.call(function, arguments)
    if not isinstance(made, Tensor) or type(kind) is not Global or kind.name not in _CLASSES:
        raise _wrong("type of a tensor")
    if kind.name.endswith("Parameter") and type(made) is Tensor:
        return _parameter(machine, made, made.requires_grad, None, state)
    return _with_attributes(made, state)


def _only_named(machine: Machine, *arguments: Any) -> Any:
    raise machine.error(f"calls a class of PyTorch, which data does not need. Save a state_dict(). {_OLDER}")


def _size(machine: Machine, items: Any = ()) -> Size:
    machine.pay(8 * len(items))
    if any([type(one) is not int for one in items]):
        raise _wrong("size")
    return Size(items)


def _device(machine: Machine, kind: Any, index: Any = None) -> devices.device:
    name = kind if index is None else f"{kind}:{index}"
    if type(kind) is not str or not LOCATION.fullmatch(name):
        raise _wrong("device")
    return devices.device(name)


class _NumpyDtype(Global):
    """NumPy's name of a type; bytes are compared with its size before anything is made."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: Any) -> None:
        self.name, self.dtype = "numpy.dtype", dtype


def _numpy_dtype(machine: Machine, text: Any, *rest: Any) -> _NumpyDtype:
    if type(text) is not str or not re.fullmatch(r"[<>=|]?(?:b1|[iu][1248]|f[248]|c8|c16|[SU]\d{1,9})", text):
        raise machine.error(f"holds a NumPy array of {str(text)[:40]!r}, which is not plain data. Save it as a tensor.")
    return _NumpyDtype(numpy.dtype(text))


def _set_byte_order(machine: Machine, value: _NumpyDtype, state: Any) -> None:
    if type(state) is not tuple or len(state) < 2 or state[1] not in ("<", ">", "|", "="):
        raise _wrong("state of a dtype")
    value.dtype = value.dtype.newbyteorder(state[1])


def _numpy_scalar(machine: Machine, kind: Any, raw: Any) -> Any:
    if type(kind) is not _NumpyDtype or type(raw) is not bytes or len(raw) != kind.dtype.itemsize:
        raise _wrong("NumPy scalar")
    return numpy.frombuffer(raw, kind.dtype)[0]


def _numpy_array(machine: Machine, *arguments: Any) -> Any:
    return numpy.empty(0, numpy.uint8)


def _numpy_from_bytes(machine: Machine, raw: Any, kind: Any, shape: Any, order: Any) -> Any:
    made = numpy.empty(0, numpy.uint8)
    _set_array(machine, made, (1, shape, kind, order == "F", bytes(raw) if type(raw) is bytearray else raw))
    return made


def _set_array(machine: Machine, value: Any, state: Any) -> None:
    _, shape, kind, by_columns, raw = state
    if (
        type(kind) is not _NumpyDtype
        or type(raw) is not bytes
        or type(by_columns) is not bool
        or type(shape) is not tuple
    ):
        raise _wrong("state of an array")
    count = 1
    for length in shape:
        if type(length) is not int or not 0 <= length < 1 << 62 or len(shape) > 64:
            raise _wrong("shape of an array")
        count *= length
    if count * kind.dtype.itemsize != len(raw):
        raise machine.error(f"is damaged: an array of shape {shape} has {len(raw)} bytes. {_OLDER}")
    machine.pay(len(raw))
    value.__setstate__((1, shape, kind.dtype, by_columns, raw))


STORAGES: dict[str, dtypes.dtype] = {
    "FloatStorage": dtypes.float32,
    "DoubleStorage": dtypes.float64,
    "HalfStorage": dtypes.float16,
    "BFloat16Storage": dtypes.bfloat16,
    "LongStorage": dtypes.int64,
    "IntStorage": dtypes.int32,
    "ShortStorage": dtypes.int16,
    "CharStorage": dtypes.int8,
    "ByteStorage": dtypes.uint8,
    "BoolStorage": dtypes.bool,
    "ComplexFloatStorage": dtypes.complex64,
    "ComplexDoubleStorage": dtypes.complex128,
    "UntypedStorage": dtypes.uint8,
}
_CLASSES = ("torch.Tensor", "torch._tensor.Tensor", "torch.nn.parameter.Parameter", "torch.nn.Parameter")
CONSTANTS: dict[str, Any] = {f"torch.{one.name}": one for one in (*dtypes.ALL, *dtypes.FLOAT8)}
CALLS: dict[str, Callable] = {
    **PLAIN_CALLS,
    **{f"{place}.{name}": _only_named for place in ("torch", "torch.cuda", "torch.storage") for name in STORAGES},
    **dict.fromkeys((*_CLASSES, "numpy.ndarray"), _only_named),
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor_2,
    "torch._utils._rebuild_tensor_v3": _tensor_3,
    "torch._utils._rebuild_parameter": _parameter,
    "torch._utils._rebuild_parameter_with_state": _parameter,
    "torch._tensor._rebuild_from_type_v2": _of_type,
    "torch.Size": _size,
    "torch.device": _device,
    "numpy.dtype": _numpy_dtype,
    "numpy._core.multiarray.scalar": _numpy_scalar,
    "numpy._core.multiarray._reconstruct": _numpy_array,
    "numpy._core.numeric._frombuffer": _numpy_from_bytes,
}
BUILDS: dict[type, Callable] = {
    **PLAIN_BUILDS,
    _NumpyDtype: _set_byte_order,
    numpy.ndarray: _set_array,
    type(None): lambda machine, value, state: None,  # of `OUTLINE`
}
OUTLINE: dict[str, Callable] = {name: PLAIN_CALLS.get(name, lambda machine, *arguments: None) for name in CALLS}
