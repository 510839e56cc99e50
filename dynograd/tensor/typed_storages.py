"""The old storages of one dtype each: `FloatStorage(3)` makes a TypedStorage, and `isinstance` looks at its dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dynograd.base import dtypes
from dynograd.base.hints import DeviceLike
from dynograd.tensor.storages import TypedStorage, UntypedStorage

_NAMES = {
    "BFloat16Storage": dtypes.bfloat16,
    "BoolStorage": dtypes.bool,
    "ByteStorage": dtypes.uint8,
    "CharStorage": dtypes.int8,
    "ComplexDoubleStorage": dtypes.complex128,
    "ComplexFloatStorage": dtypes.complex64,
    "DoubleStorage": dtypes.float64,
    "FloatStorage": dtypes.float32,
    "HalfStorage": dtypes.float16,
    "IntStorage": dtypes.int32,
    "LongStorage": dtypes.int64,
    "ShortStorage": dtypes.int16,
}
__all__ = [*_NAMES, "STORAGES"]


class _OfOneDtype(type):
    dtype: dtypes.dtype

    def __instancecheck__(cls, candidate: Any) -> bool:
        return isinstance(candidate, TypedStorage) and candidate.dtype is cls.dtype

    def __call__(
        cls, *size: int | Sequence[float], wrap_storage: UntypedStorage | None = None, device: DeviceLike = None
    ) -> TypedStorage:
        return TypedStorage(*size, wrap_storage=wrap_storage, dtype=cls.dtype, device=device)


def _text(name: str, kind: dtypes.dtype) -> str:
    return (
        f"A `TypedStorage` of {kind} (old; `untyped_storage` is what programs use now). `isinstance` looks at the dtype.\n\nArgs:\n"
        f"    size: how many elements, or a list of them.\n    wrap_storage: the untyped storage to stand on, instead.\n"
        f"    device: where it lies.\n\n>>> dynograd.{name}([1, 0]).dtype\n{kind}"
    )


STORAGES = {
    name: _OfOneDtype(name, (), {"dtype": kind, "__doc__": _text(name, kind), "__module__": __name__})
    for name, kind in _NAMES.items()
}
globals().update(STORAGES)
