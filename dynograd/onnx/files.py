"""ONNX models from files and bytes: parsed, checked, and with the data that stand beside the file."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy

from dynograd.base.files import open_ordinary
from dynograd.errors import OnnxError
from dynograd.onnx.reading.values import dtype_of

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto

__all__ = ["array_of", "model_of"]

_LARGEST = 2**31 - 2**20  # bytes that protobuf writes into one message, with some room


def _onnx() -> ModuleType:
    try:
        import onnx
    except ImportError:
        raise ImportError("onnx.load needs the package onnx. `pip install 'dynograd[onnx]'` installs it.") from None
    return onnx


def model_of(source: Any) -> ModelProto:
    """The checked ModelProto of a path, bytes, a file opened for reading them, or a ModelProto; its external data are read into it."""
    onnx = _onnx()
    folder = None
    if hasattr(source, "read"):
        source = source.read()
        if not isinstance(source, bytes):
            raise TypeError(
                f"onnx.load: the file gives {type(source).__name__}. Open it for reading bytes, open(path, 'rb')."
            )
    if isinstance(source, onnx.ModelProto):
        model = onnx.ModelProto()
        model.CopyFrom(source)
    elif isinstance(source, bytes | str | os.PathLike):
        model = onnx.ModelProto()
        if not isinstance(source, bytes):
            folder = Path(source).resolve().parent
            with open_ordinary(source, "onnx.load", OnnxError) as file:
                source = file.read()
        from google.protobuf.message import DecodeError

        try:
            model.ParseFromString(source)
        except (DecodeError, RuntimeError, ValueError) as error:
            raise OnnxError(
                f"onnx.load: the {len(source)} bytes are no ONNX model ({error}). Expected a ModelProto as onnx.save "
                "writes it; the file is damaged or of another format."
            ) from None
    else:
        raise TypeError(
            f"onnx.load: the model is a {type(source).__name__}. Expected a path, bytes, a file opened for reading bytes, or an onnx.ModelProto."
        )
    if not model.HasField("graph") or not model.opset_import:
        raise OnnxError(
            "onnx.load: the model has no graph or names no opset. Expected a ModelProto as onnx.save writes it; the "
            "file is damaged, empty or of another format."
        )
    if not 0 <= model.ir_version < 2**31:
        raise OnnxError(f"onnx.load: the model is of version {model.ir_version} of ONNX's format. The file is damaged.")
    for row in model.opset_import:
        if not 0 < row.version < 2**31:
            raise OnnxError(
                f"onnx.load: the model names version {row.version} of the opset {row.domain!r}. Expected 1 or more; the "
                "file is damaged."
            )
    for tensor in _tensors_outside(onnx, model):
        _fetch(onnx, tensor, folder)
    return model


def _tensors_outside(onnx: Any, model: Any) -> list:
    from onnx.external_data_helper import _get_all_tensors

    return [tensor for tensor in _get_all_tensors(model) if tensor.data_location == onnx.TensorProto.EXTERNAL]


def _fetch(onnx: Any, tensor: Any, folder: Path | None) -> None:
    """Reads the tensor's bytes from the file that it names, which lies in the model's folder."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    place = entries.get("location", "")
    if folder is None:
        raise OnnxError(
            f"onnx.load: tensor {tensor.name!r} stands in the file {place!r}, and the model came without a folder. "
            "Give the path of the model's file."
        )
    path = (folder / place).resolve()
    if not place or not path.is_relative_to(folder) or not path.is_file():
        raise OnnxError(
            f"onnx.load: tensor {tensor.name!r} names the file {place!r}. Expected a file below the model's folder, "
            f"{folder}; files elsewhere are not read. Put the data beside the model (onnx.save_model with "
            "save_as_external_data=True)."
        )
    size = path.stat().st_size
    try:
        offset = int(entries.get("offset", 0))
        length = int(entries.get("length", size - offset))
    except ValueError:
        offset, length = -1, -1
    if not (offset >= 0 and length >= 0 and offset + length <= size):
        raise OnnxError(
            f"onnx.load: tensor {tensor.name!r} names bytes {entries.get('offset', 0)} and {entries.get('length')} more "
            f"of {place!r}, which has {size}. The file is cut off or not the model's; copy it anew."
        )
    with path.open("rb") as file:
        file.seek(offset)
        tensor.raw_data = file.read(length)
    tensor.data_location = onnx.TensorProto.DEFAULT
    del tensor.external_data[:]


def check(model: Any) -> None:
    """ONNX's own checker, where the model is small enough for it."""
    onnx = _onnx()
    for value in (*model.graph.input, *model.graph.output):
        if value.type.HasField("tensor_type") and not value.type.tensor_type.HasField("shape"):
            value.type.tensor_type.shape.SetInParent()  # any shape, for which the checker has no word
    try:
        if model.ByteSize() < _LARGEST:
            onnx.checker.check_model(model)
    except (onnx.checker.ValidationError, ValueError, TypeError, RuntimeError) as error:
        raise OnnxError(
            f"onnx.load: onnx.checker refuses the model: {str(error).strip()} Mend the program that wrote it."
        ) from None


def array_of(tensor: TensorProto) -> numpy.ndarray:
    """The NumPy array of a TensorProto."""
    onnx = _onnx()
    if tensor.data_type != onnx.TensorProto.STRING:
        dtype_of(tensor.data_type)
    try:
        array = onnx.numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError, OverflowError, IndexError, UnicodeDecodeError, MemoryError) as error:
        array, reason = None, str(error)
    else:
        reason = f"it has {array.size} elements"
    if array is None or list(array.shape) != list(tensor.dims):
        raise OnnxError(
            f"onnx.load: the data of tensor {tensor.name!r} do not fit its shape {list(tensor.dims)}: {reason}. The "
            "file is damaged; export the model anew."
        )
    return array
