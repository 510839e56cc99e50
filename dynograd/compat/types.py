"""Names of types for annotations (`torch.types`)."""

from __future__ import annotations

import os
from builtins import bool as _bool
from builtins import bytes as _bytes
from builtins import complex as _complex
from builtins import float as _float
from builtins import int as _int
from builtins import str as _str
from collections.abc import Sequence
from typing import IO, Any, TypeAlias

from dynograd.base.devices import device as _device
from dynograd.base.dtypes import dtype as _dtype
from dynograd.base.layouts import layout as _layout
from dynograd.base.shapes import Size
from dynograd.tensor.storages import TypedStorage, UntypedStorage
from dynograd.tensor.tensor import Tensor

__all__ = ["BoolLikeType", "Device", "FileLike", "FloatLikeType", "IntLikeType", "Number", "Storage"]

_size: TypeAlias = Size | list[_int] | tuple[_int, ...]
_symsize: TypeAlias = _size
_dispatchkey: TypeAlias = _str
_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_TensorOrTensorsOrGradEdge: TypeAlias = Tensor | Sequence[Tensor] | Any
Number: TypeAlias = _int | _float | _bool
IntLikeType: TypeAlias = _int
FloatLikeType: TypeAlias = _float
BoolLikeType: TypeAlias = _bool
FileLike: TypeAlias = _str | os.PathLike[_str] | IO[_bytes]
Device: TypeAlias = _device | _str | _int | None
Storage: TypeAlias = UntypedStorage | TypedStorage
assert (_bytes, _complex, _dtype, _layout) is not None
