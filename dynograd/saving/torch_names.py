"""What names in PyTorch's checkpoints stand for: tensors, parameters, sizes, devices, dtypes, plain NumPy arrays. Nothing else.

Each entry of `CALLS` is a function of (machine, arguments) that checks what it is given; see `torch_pickles` for who calls it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy

from dynograd.arrays import storages
from dynograd.base import devices, dtypes, layouts
from dynograd.base.shapes import Size
from dynograd.interpreter import tensor_parts
from dynograd.saving.torch_pickles import Global, Machine
from dynograd.saving.torch_plain_values import HASHABLE, PLAIN_BUILDS, PLAIN_CALLS, PLAIN_CONSTANTS
from dynograd.tensor.storages import TypedStorage, UntypedStorage
from dynograd.tensor.tensor import Tensor, wrap

__all__ = ["BUILDS", "CALLS", "CONSTANTS", "HASHABLE", "LOCATION", "OUTLINE", "STORAGES"]

LOCATION = re.compile(r"(cpu|cuda|mps|xpu|hpu|npu|xla|mtia|privateuseone)(:\d{1,3})?")
_OLDER = "Use an older checkpoint."


def _wrong(what: str) -> TypeError:
    return TypeError(f"wrong {what}")


def _tensor(machine: Machine, storage: Any, offset: Any, size: Any, stride: Any, dtype: Any = None) -> Tensor:
    if (
        not isinstance(storage, (TypedStorage, UntypedStorage))
        or not isinstance(size, (tuple, list))
        or not isinstance(stride, (tuple, list))
    ):
        raise _wrong("arguments of a tensor")
    if dtype is None:
        dtype = storage.dtype if isinstance(storage, TypedStorage) else dtypes.uint8
    if (
        any([type(number) is not int or not 0 <= number < 1 << 62 for number in (offset, *size, *stride)])
        or type(dtype) is not dtypes.dtype
    ):
        raise machine.error(
            f"is damaged: a tensor has size {size!r:.100}, strides {stride!r:.100}, offset {offset!r:.40}. {_OLDER}"
        )
    if len(size) != len(stride) or len(size) > 64:
        raise machine.error(f"is damaged: a tensor has {len(size)} sizes and {len(stride)} strides. {_OLDER}")
    item, total = dtype.itemsize, storage.nbytes()
    last = offset + sum([(length - 1) * step for length, step in zip(size, stride)])
    if 0 not in size and (last + 1) * item > total:
        raise machine.error(
            f"is damaged: a tensor of size {tuple(size)}, strides {tuple(stride)} and offset {offset} needs {(last + 1) * item} bytes, "
            f"its storage has {total}. {_OLDER}"
        )
    machine.pay(1024)
    steps = storages.row_major(tuple(size), item) if 0 in size else tuple([step * item for step in stride])
    return wrap(storages.placed(storage._memory, dtype.numpy, tuple(size), steps, offset * item))


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
    tensor = _tensor(machine, storage, offset, size, stride, dtype)
    if isinstance(metadata, dict) and (metadata.get("conj") or metadata.get("neg")):
        machine.fill()
        tensor = tensor.conj() if metadata.get("conj") else tensor
        tensor = -tensor if metadata.get("neg") else tensor
    return _with_grad(machine, tensor, requires_grad)


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


def _with_grad(machine: Machine, tensor: Tensor, requires_grad: Any) -> Tensor:
    if requires_grad:
        if not (tensor.dtype.is_floating_point or tensor.dtype.is_complex):
            raise machine.error(f"is damaged: a tensor of {tensor.dtype} is said to require a gradient. {_OLDER}")
        tensor.requires_grad = True
    return tensor


def _parameter(machine: Machine, data: Any, requires_grad: Any = True, hooks: Any = None, state: Any = None) -> Tensor:
    if not isinstance(data, Tensor):
        raise _wrong("data of a parameter")
    parameter = tensor_parts.constructors["Parameter"](data.detach(), requires_grad=False)
    return _with_attributes(_with_grad(machine, parameter, requires_grad), state)


def _with_attributes(tensor: Tensor, state: Any) -> Tensor:
    """Attributes that a program gave its tensor; they never hide what tensors have themselves."""
    for part in state if isinstance(state, tuple) else (state,):
        for name, value in part.items() if isinstance(part, dict) else ():
            if type(name) is str and name.isidentifier() and not name.startswith("_") and not hasattr(tensor, name):
                setattr(tensor, name, value)
    return tensor


def _of_type(machine: Machine, function: Any, kind: Any, arguments: Any, state: Any) -> Tensor:
    tensor = machine.call(function, arguments)
    if not isinstance(tensor, Tensor) or type(kind) is not Global or kind.name not in _CLASSES:
        raise _wrong("type of a tensor")
    if kind.name.endswith("Parameter") and type(tensor) is Tensor:
        return _parameter(machine, tensor, tensor.requires_grad, None, state)
    return _with_attributes(tensor, state)


def _only_named(machine: Machine, *arguments: Any) -> Any:
    raise machine.error(f"calls a class of PyTorch, which data does not need. Save a state_dict(). {_OLDER}")


def _size(machine: Machine, items: Any = ()) -> Size:
    machine.pay(8 * len(items))
    if any([type(length) is not int for length in items]):
        raise _wrong("size")
    return Size(items)


def _device(machine: Machine, kind: Any, index: Any = None) -> devices.device:
    name = kind if index is None else f"{kind}:{index}"
    if type(kind) is not str or not LOCATION.fullmatch(name):
        raise _wrong("device")
    return devices.device(name)


def _layout(machine: Machine, name: Any) -> layouts.layout:
    layout = layouts.ALL.get(name.removeprefix("torch.")) if type(name) is str else None
    if layout is None:
        raise machine.error(f"has a tensor of the layout {str(name)[:40]!r}, which is not here. Save its to_dense().")
    return layout


def _sparse(machine: Machine, layout: Any, parts: Any) -> Any:
    if type(layout) is not layouts.layout or type(parts) is not tuple or len(parts) < 3:
        raise _wrong("parts of a sparse tensor")
    machine.fill()
    try:
        return tensor_parts.constructors["sparse"](layout, parts)
    except (ValueError, IndexError, TypeError, RuntimeError) as error:
        raise machine.error(
            f"is damaged: a sparse tensor in it makes no sense ({str(error)[:200]}). {_OLDER}"
        ) from None


def _nested(machine: Machine, buffer: Any, sizes: Any, strides: Any, offsets: Any) -> Any:
    """A nested tensor of layout strided: rows that lie one after the other in `buffer`."""
    parts = (buffer, sizes, strides, offsets)
    if not all([isinstance(part, Tensor) for part in parts]) or (buffer.ndim, sizes.ndim, offsets.ndim) != (1, 2, 1):
        raise _wrong("parts of a nested tensor")
    machine.fill()
    rows = []
    for size, stride, offset in zip(sizes.tolist(), strides.tolist(), offsets.tolist(), strict=True):
        count = math.prod(size)
        if min(size, default=0) < 0 or stride != [math.prod(size[dim + 1 :]) for dim in range(len(size))]:
            raise machine.error(f"has a nested tensor with a row of size {size} and strides {stride}. {_OLDER}")
        if not 0 <= offset <= buffer.numel() - count:
            raise machine.error(f"is damaged: a row of size {size} at {offset} of {buffer.numel()} elements. {_OLDER}")
        rows.append(wrap(buffer.array[offset : offset + count].reshape(size)))
    return tensor_parts.constructors["nested"](rows)


def _numpy_dtype(machine: Machine, text: Any, *rest: Any) -> numpy.dtype:
    """A type of NumPy, as an object of its own, for its byte order comes later."""
    if type(text) is not str or not re.fullmatch(r"[<>=|]?(?:b1|[iu][1248]|f[248]|c8|c16|[SU]\d{1,9})", text):
        raise machine.error(f"holds a NumPy array of {str(text)[:40]!r}, which is not plain data. Save it as a tensor.")
    return numpy.dtype(text, False, True)


def _set_byte_order(machine: Machine, value: numpy.dtype, state: Any) -> None:
    if type(state) is not tuple or len(state) < 2 or state[1] not in ("<", ">", "|", "="):
        raise _wrong("state of a dtype")
    value.__setstate__((3, state[1], None, None, None, value.itemsize, value.alignment, 0))


def _numpy_scalar(machine: Machine, kind: Any, raw: Any) -> Any:
    if not isinstance(kind, numpy.dtype) or type(raw) is not bytes or len(raw) != kind.itemsize:
        raise _wrong("NumPy scalar")
    return numpy.frombuffer(raw, kind)[0]


def _numpy_array(machine: Machine, *arguments: Any) -> Any:
    return numpy.empty(0, numpy.uint8)


def _numpy_from_bytes(machine: Machine, raw: Any, kind: Any, shape: Any, order: Any) -> Any:
    array = numpy.empty(0, numpy.uint8)
    _set_array(machine, array, (1, shape, kind, order == "F", bytes(raw) if type(raw) is bytearray else raw))
    return array


def _set_array(machine: Machine, value: Any, state: Any) -> None:
    _, shape, kind, by_columns, raw = state
    if (
        not isinstance(kind, numpy.dtype)
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
    if count * kind.itemsize != len(raw):
        raise machine.error(f"is damaged: an array of shape {shape} has {len(raw)} bytes. {_OLDER}")
    machine.pay(len(raw))
    value.__setstate__((1, shape, kind, by_columns, raw))


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
_NUMPY_TYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128"
CONSTANTS: dict[str, Any] = {
    **PLAIN_CONSTANTS,
    **{f"torch.{kind.name}": kind for kind in (*dtypes.ALL, *dtypes.FLOAT8)},
    **{f"numpy.{name}": getattr(numpy, name) for name in (*_NUMPY_TYPES.split(), "bool_")},
}
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
    "torch.serialization._get_layout": _layout,
    "torch._utils._rebuild_sparse_tensor": _sparse,
    "torch._utils._rebuild_nested_tensor": _nested,
    "numpy.dtype": _numpy_dtype,
    "numpy._core.multiarray.scalar": _numpy_scalar,
    "numpy._core.multiarray._reconstruct": _numpy_array,
    "numpy._core.numeric._frombuffer": _numpy_from_bytes,
}
BUILDS: dict[type, Callable] = {
    **PLAIN_BUILDS,
    numpy.dtype: _set_byte_order,
    numpy.ndarray: _set_array,
    type(None): lambda machine, value, state: None,  # of `OUTLINE`
}
OUTLINE: dict[str, Callable] = {name: PLAIN_CALLS.get(name, lambda machine, *arguments: None) for name in CALLS}
