"""The functions of `torch._utils` and `torch._tensor` that PyTorch's pickles name, and their like."""

from __future__ import annotations

import io
import os
import struct
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

from dynograd.base import dtypes
from dynograd.base.devices import as_device
from dynograd.nn.parameter import Parameter
from dynograd.saving.serialization import load
from dynograd.tensor import creation
from dynograd.tensor.storages import TypedStorage, UntypedStorage
from dynograd.tensor.tensor import Tensor

__all__ = [
    "PyTorchFileReader",
    "TypedStorage",
    "UntypedStorage",
    "_element_size",
    "_get_all_device_indices",
    "_get_available_device_type",
    "_get_device_index",
    "_load_from_bytes",
    "_rebuild_from_type_v2",
    "_rebuild_parameter",
    "_rebuild_tensor",
    "_rebuild_tensor_v2",
]


def _rebuild_tensor(storage: Any, storage_offset: int, size: Sequence[int], stride: Sequence[int]) -> Tensor:
    """A tensor over a storage.

    >>> from dynograd._utils import _rebuild_tensor
    >>> _rebuild_tensor(tensor([0.0, 1.0, 2.0]).storage(), 1, (2,), (1,))
    tensor([1., 2.])
    """

    dtype = storage.dtype if isinstance(storage, TypedStorage) else dtypes.uint8
    flat = creation.empty(0, dtype=dtype)
    return flat.set_(storage, storage_offset, tuple(size), tuple(stride))


def _rebuild_tensor_v2(
    storage: Any,
    storage_offset: int,
    size: Sequence[int],
    stride: Sequence[int],
    requires_grad: bool = False,
    backward_hooks: Any = None,
    metadata: Any = None,
) -> Tensor:
    tensor = _rebuild_tensor(storage, storage_offset, size, stride)
    tensor.requires_grad = requires_grad
    return tensor


def _rebuild_parameter(data: Tensor, requires_grad: bool = True, backward_hooks: Any = None) -> Parameter:
    return Parameter(data, requires_grad)


def _rebuild_from_type_v2(func: Callable, new_type: type, args: tuple, state: Any) -> object:
    result = func(*args)
    if type(result) is not new_type:
        result = result.as_subclass(new_type)
    if isinstance(state, dict):
        result.__dict__.update(state)
    return result


def _load_from_bytes(b: bytes) -> TypedStorage:
    """The storage of a tensor that PyTorch wrote by Python's `pickle`.

    Args:
        b: a file of PyTorch in the format before 1.6.
    Returns:
        What `load` gives.
    """
    return load(io.BytesIO(b))


def _element_size(dtype: Any) -> int:
    """Bytes of an element."""
    return dtype.itemsize


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int | None:
    """The number of a device: of "cuda:1" 1; -1 for the CPU where it is allowed.

    Raises:
        ValueError: a device without one.
    """
    if isinstance(device, int):
        return device
    if device is None and optional:
        from dynograd import cuda

        return cuda.current_device()
    place = as_device(device)
    if place.type == "cpu":
        if allow_cpu:
            return -1
        raise ValueError(f"Expected a cuda or mps device, but got: {place}")
    if place.index is None and not optional:
        raise ValueError(f"Expected a torch.device with a specified index or an integer, but got: {device}")
    return place.index or 0


def _get_available_device_type() -> str | None:
    from dynograd import cuda

    return "cuda" if cuda.is_available() else None


def _get_all_device_indices() -> list[int]:
    from dynograd import cuda

    return list(range(cuda.device_count()))


class PyTorchFileReader:
    """The records of a file that PyTorch saved, by name, as bytes; `dynograd.load` gives what they mean.

    Args:
        file: a path or an open binary file.
    Raises:
        RuntimeError: it is no such file, or has no record of that name.

    >>> import io, zipfile
    >>> file = io.BytesIO()
    >>> with zipfile.ZipFile(file, "w") as archive:
    ...     archive.writestr("model/version", "3")
    >>> dynograd.PyTorchFileReader(file).get_record("version")
    b'3'
    """

    def __init__(self, file: Any) -> None:
        try:
            self._archive = zipfile.ZipFile(file)
        except (OSError, ValueError, NotImplementedError, OverflowError, zipfile.BadZipFile, struct.error) as error:
            raise RuntimeError(f"PyTorchFileReader: {str(file)!r} is no file that PyTorch saved ({error}).") from None
        names = self._archive.namelist()
        self._root = names[0].partition("/")[0] if names else ""

    def get_all_records(self) -> list[str]:
        """The names of all records.

        Returns:
            A list.
        """
        below = f"{self._root}/"
        return [name.removeprefix(below) for name in self._archive.namelist() if name.startswith(below)]

    def has_record(self, name: str) -> bool:
        """Whether there is a record of that name.

        Args:
            name: its name.
        Returns:
            True or False.
        """
        return name in self.get_all_records()

    def get_record(self, name: str) -> bytes:
        """The bytes of a record.

        Args:
            name: its name.
        Returns:
            Bytes.
        """
        if not self.has_record(name):
            raise RuntimeError(
                f"PyTorchFileReader: no record {name!r}; there are {', '.join(self.get_all_records()[:5])}."
            )
        record = self._archive.getinfo(f"{self._root}/{name}")
        if record.compress_type != zipfile.ZIP_STORED or record.flag_bits & 1:
            raise RuntimeError(
                f"PyTorchFileReader: the record {name!r} is compressed or encrypted, which PyTorch never does: it is not read."
            )
        try:
            source: Any = self._archive.fp
            if max(record.file_size, record.compress_size) > source.seek(0, os.SEEK_END):
                raise EOFError("it breaks off")
            return self._archive.read(record)
        except (OSError, ValueError, EOFError, NotImplementedError, zipfile.BadZipFile) as error:
            raise RuntimeError(f"PyTorchFileReader: the record {name!r} is damaged ({error}).") from None
