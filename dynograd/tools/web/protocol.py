"""Tensors in requests and answers of the KServe protocol, version 2 ("open inference protocol"), as JSON and as its binary extension."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import ml_dtypes
import numpy

from dynograd.tensor.creation import from_numpy
from dynograd.tensor.tensor import Tensor

__all__ = ["DATATYPES", "loads", "missing_output", "numbers", "read_request", "write_answer"]

_DTYPES = {
    "BOOL": numpy.dtype(bool),
    "UINT8": numpy.dtype("<u1"),
    "UINT16": numpy.dtype("<u2"),
    "UINT32": numpy.dtype("<u4"),
    "UINT64": numpy.dtype("<u8"),
    "INT8": numpy.dtype("<i1"),
    "INT16": numpy.dtype("<i2"),
    "INT32": numpy.dtype("<i4"),
    "INT64": numpy.dtype("<i8"),
    "FP16": numpy.dtype("<f2"),
    "FP32": numpy.dtype("<f4"),
    "FP64": numpy.dtype("<f8"),
    "BF16": numpy.dtype(ml_dtypes.bfloat16),
}
DATATYPES = {dtype.name: name for name, dtype in _DTYPES.items()}
"""The protocol's name of each dtype."""
_KINDS = {
    "b": "b",
    "i": "iu",
    "u": "iu",
    "f": "iuf",
    "V": "iuf",
}  # what the numbers of JSON may be, by the kind of dtype


def loads(text: bytes) -> Any:
    """JSON, which has no NaN.

    Raises:
        ValueError: it is none.
    """
    return _DECODER.decode(text.decode(json.detect_encoding(text), "surrogatepass"))


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is no number of JSON.")


_DECODER = json.JSONDecoder(parse_constant=_no_number)


def read_request(body: bytes, header_length: int | None) -> tuple[dict[str, Any], Any]:
    """The header of an inference request, and its example: the tensor, or a dict of tensors by name where there are several.

    Tensors of BYTES are (nested lists of) strings. `header_length` says where the JSON ends and the binary tensors begin.

    Raises:
        ValueError: what is not as the protocol wants, with the name of the input.
    """
    if header_length is not None and not 0 <= header_length <= len(body):
        raise ValueError(f"Inference-Header-Content-Length is {header_length}, and the body has {len(body)} bytes.")
    header = loads(body[:header_length])
    binary = memoryview(body)[len(body) if header_length is None else header_length :]
    inputs = header.get("inputs") if isinstance(header, dict) else None
    if not isinstance(inputs, list) or not inputs or not all(isinstance(tensor, dict) for tensor in inputs):
        raise ValueError('expected {"inputs": [{"name": ..., "shape": ..., "datatype": ..., "data": ...}, ...]}.')
    outputs = header.get("outputs") or []
    if not isinstance(outputs, list) or not all(
        isinstance(output, dict) and isinstance(output.get("name"), str) for output in outputs
    ):
        raise ValueError('expected {"outputs": [{"name": ...}, ...]} or no outputs.')
    for holder in (header, *inputs, *outputs):
        if not isinstance(holder.get("parameters") or {}, dict):
            raise ValueError(f"expected parameters to be an object, got {holder['parameters']!r}.")
    example: dict[str, Any] = {}
    for tensor in inputs:
        size = (tensor.get("parameters") or {}).get("binary_data_size")
        if size is not None and (not isinstance(size, int) or not 0 <= size <= len(binary)):
            raise ValueError(
                f"input {tensor.get('name')!r}: binary_data_size is {size!r}, and {len(binary)} bytes are left."
            )
        example[str(tensor.get("name"))] = _read(tensor, None if size is None else bytes(binary[:size]))
        binary = binary[size or 0 :]
    if len(binary):
        raise ValueError(f"{len(binary)} bytes behind the last input; binary_data_size is too small, or missing.")
    return header, next(iter(example.values())) if len(example) == 1 else example


def _read(tensor: dict[str, Any], binary: bytes | None) -> object:
    name, shape, datatype = tensor.get("name"), tensor.get("shape"), tensor.get("datatype")
    if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError(f"input {name!r}: expected a shape such as [2, 3], got {shape!r}.")
    if not isinstance(datatype, str) or (datatype != "BYTES" and datatype not in _DTYPES):
        raise ValueError(f"input {name!r}: expected a datatype of {', '.join((*_DTYPES, 'BYTES'))}, got {datatype!r}.")
    if binary is None and "data" not in tensor:
        raise ValueError(f"input {name!r} has neither data nor binary_data_size.")
    if datatype == "BYTES":
        strings = _strings(name, binary) if binary is not None else _flat(tensor["data"])
        if len(strings) != math.prod(shape) or not all(isinstance(text, str) and _is_text(text) for text in strings):
            raise ValueError(
                f"input {name!r}: expected {math.prod(shape)} strings (shape {shape}), got {len(strings)} values."
            )
        return numpy.asarray(strings, dtype=object).reshape(shape).tolist()
    dtype = _DTYPES[datatype]
    if binary is not None:
        if len(binary) != math.prod(shape) * dtype.itemsize:
            raise ValueError(
                f"input {name!r}: shape {shape} of {datatype} takes {math.prod(shape) * dtype.itemsize} bytes, got {len(binary)}."
            )
        values = numpy.frombuffer(binary, dtype).copy()
    else:
        values = numbers(name, tensor["data"], datatype).ravel()
        if len(values) != math.prod(shape):
            raise ValueError(f"input {name!r}: shape {shape} has {math.prod(shape)} elements, data {len(values)}.")
    return from_numpy(values.reshape(shape))


def numbers(name: Any, data: Any, datatype: str) -> numpy.ndarray:
    """Numbers of JSON, nested as they are, in the dtype that is named.

    Raises:
        ValueError: there are others.
    """
    dtype = _DTYPES[datatype]
    try:
        values = numpy.asarray(data)
    except ValueError as error:
        raise ValueError(f"input {name!r}: data is not of {datatype}: {error}") from None
    fits = values.dtype.kind in _KINDS[dtype.kind] or not values.size
    if fits and dtype.kind in "iu" and values.size:
        limits = numpy.iinfo(dtype)
        fits = limits.min <= values.min() and values.max() <= limits.max
    with numpy.errstate(over="ignore", invalid="ignore"):
        converted = values.astype(dtype) if fits else values
    if not fits or not (dtype.kind in "biu" or numpy.isfinite(converted).all()):
        raise ValueError(f"input {name!r}: data is not of {datatype}.")
    return converted


def _is_text(text: str) -> bool:
    """Whether it can be said in UTF-8: JSON has halves of surrogate pairs."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _flat(data: Any) -> list[Any]:
    return [value for part in data for value in _flat(part)] if isinstance(data, list) else [data]


def _strings(name: Any, binary: bytes) -> list[str]:
    """Strings, each behind its length in four bytes."""
    strings, place = [], 0
    while place < len(binary):
        size = int.from_bytes(binary[place : place + 4], "little")
        place += 4 + size
        if place > len(binary):
            raise ValueError(f"input {name!r}: a string of {size} bytes goes beyond its binary data.")
        strings.append(binary[place - size : place].decode())
    return strings


def missing_output(header: dict[str, Any], answer: Any) -> str | None:
    """What to say when an output was asked for that the answer does not have; None when it has all."""
    tensors = _tensors(answer)
    missing = [output["name"] for output in header.get("outputs") or () if output["name"] not in tensors]
    return f"there is no output {missing[0]!r}; there are: {', '.join(tensors)}." if missing else None


def _tensors(answer: Any) -> dict[str, Any]:
    return answer if isinstance(answer, dict) else {"output": answer}


def write_answer(header: dict[str, Any], model: str, version: str, answer: Any) -> tuple[bytes, int | None]:
    """The body of an answer, and the length of its JSON where binary tensors follow. A dict of tensors has their names, else it is "output"."""
    tensors = _tensors(answer)
    asked = {output["name"]: output.get("parameters") or {} for output in header.get("outputs") or ()}
    everywhere = bool((header.get("parameters") or {}).get("binary_data_output", False))
    outputs, parts = [], []
    for name in asked or tensors:
        value = tensors[name]
        array = value.numpy() if isinstance(value, Tensor) else numpy.asarray(value)
        is_text = array.dtype.kind in "OU"
        output = {
            "name": name,
            "datatype": "BYTES" if is_text else DATATYPES[array.dtype.name],
            "shape": list(array.shape),
        }
        if asked.get(name, {}).get("binary_data", everywhere):
            if is_text:
                texts = [str(text).encode() for text in array.ravel()]
                data = b"".join([struct.pack("<I", len(text)) + text for text in texts])
            else:
                data = array.tobytes()
            output["parameters"] = {"binary_data_size": len(data)}
            parts.append(data)
        else:
            plain = array.astype(numpy.float32) if output["datatype"] == "BF16" else array
            output["data"] = plain.ravel().tolist()
        outputs.append(output)
    reply = {"model_name": model, "model_version": version, "outputs": outputs}
    if "id" in header:
        reply["id"] = header["id"]
    text = json.dumps(reply, allow_nan=False).encode()
    return b"".join([text, *parts]), len(text) if parts else None
